// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <filesystem>

#include "tools/kernels/write_new.h"
#include "tools/reproduce/emit.h"
#include "tools/reproduce/reproducer.h"

namespace qkvet::tools {
namespace {

// As literals: more is no file to read, and no file to compile.
constexpr int64_t kMostLiterals = int64_t{1} << 16;

std::string path_of(const ReplayOptions& options, const Law& law) {
  std::string path = options.out;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (!path.empty()) return path;
  const std::string name = std::string("qkvet-") + law.id;
  return options.emit == "npy" ? name : name + "." + options.emit;
}

std::string write_reproducer(const ReplayOptions& options,
                             const std::string& path, const Reproducer& from) {
  if (options.emit == "npy")
    return write_new_folder(path, reproducer_npy(from), options.force,
                            "case.txt");
  const std::string text =
      options.emit == "c" ? reproducer_c(from) : reproducer_py(from);
  return write_new(path, text, options.force);
}

}  // namespace

std::string emit_misuse(const ReplayOptions& options,
                        const std::vector<Case>& cases,
                        const std::vector<const Law*>& laws, size_t kernels) {
  if (options.emit.empty())
    return options.out.empty() && !options.force
               ? ""
               : "--out and --force are about --emit, which is not given";
  const std::string emit = "--emit " + options.emit + ": ";
  if (cases.size() != 1) return emit + "allowed: one case, not a list";
  if (laws.size() != 1 || kernels != 1)
    return fmt::format(
        "{}{} laws and {} kernels are named; allowed: one --law and one kernel",
        emit, laws.size(), kernels);
  if (cases[0].backward)
    return emit +
           "gradients are not written down; allowed: cases without backward";
  return options.force ? "" : not_new_reason(path_of(options, *laws[0]));
}

std::string emit_failure(const ReplayOptions& options, const Law& law,
                         const Case& value, const SelectedKernels& selected,
                         const KernelUnderTest& kernel, Executor& executor,
                         TimeUse& time, std::string* written) {
  const std::string emit = "--emit " + options.emit + ": ";
  const std::string path = path_of(options, law);
  Reproducer from;
  from.again = kernel_arguments(selected, kernel);
  from.library = selected.libraries[kernel.library];
  from.file = std::filesystem::path(path).filename().string();
  std::string error =
      make_reproducer(law, value, kernel, executor, time, &from);
  if (!error.empty()) return emit + error;
  if (options.emit != "npy" && !from.shows_failure)
    return emit +
           "no number leaves its bound on its own; allowed: wrong numbers, "
           "lengths and refusals, and numbers of two calls that must be the "
           "same bits (--emit npy writes the tensors of any failure)";
  if (options.emit != "npy" && from.numbers() > kMostLiterals)
    return fmt::format(
        "{}{} numbers; allowed: {} as literals (--emit npy takes any)", emit,
        from.numbers(), kMostLiterals);
  error = write_reproducer(options, path, from);
  *written = path;
  return error;
}

}  // namespace qkvet::tools

// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/emit.h"

#include <fmt/core.h>

#include <filesystem>

#include "tools/kernels/write_new.h"
#include "tools/reproduce/reproducer.h"

namespace qkvet::tools {
namespace {

// As literals: more is no file to read, and no file to compile.
constexpr int64_t kMostLiterals = int64_t{1} << 16;

std::string path_of(const EmitWords& words, const Law& law) {
  std::string path = words.out;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (!path.empty()) return path;
  const std::string name = std::string("qkvet-") + law.id;
  return words.as == "npy" ? name : name + "." + words.as;
}

std::string write_reproducer(const EmitWords& words, const std::string& path,
                             const Reproducer& from) {
  if (words.as == "npy")
    return write_new_folder(path, reproducer_npy(from), words.force,
                            "case.txt");
  const std::string text =
      words.as == "c" ? reproducer_c(from) : reproducer_py(from);
  return write_new(path, text, words.force);
}

}  // namespace

std::string emit_misuse(const EmitWords& words, const std::vector<Case>& cases,
                        const std::vector<const Law*>& laws, size_t kernels) {
  if (words.as.empty())
    return words.out.empty() && !words.force
               ? ""
               : "--out and --force are about --emit, which is not given";
  const std::string emit = "--emit " + words.as + ": ";
  if (cases.size() != 1) return emit + "allowed: one case, not a list";
  if (laws.size() != 1 || kernels != 1)
    return fmt::format(
        "{}{} laws and {} kernels are named; allowed: one --law and one kernel",
        emit, laws.size(), kernels);
  if (laws[0]->domain.lasts)
    return emit +
           "thousands of equal calls are not written down; allowed: laws of a "
           "few calls (qkvet replay makes them)";
  if (cases[0].subject() == Subject::kLayerBackward)
    return emit +
           "gradients of layers are not written down; allowed: gradients of "
           "attention, and cases without backward";
  if (cases[0].merge)
    return emit + "merges are not written down; allowed: cases without merge";
  return words.force ? "" : not_new_reason(path_of(words, *laws[0]));
}

std::string emit_failure(const EmitWords& words, const Law& law,
                         const Case& value, const SelectedKernels& selected,
                         const KernelUnderTest& kernel, Executor& executor,
                         TimeUse& time, std::string* written) {
  const std::string emit = "--emit " + words.as + ": ";
  const std::string path = path_of(words, law);
  Reproducer from;
  from.again = kernel_arguments(selected, kernel);
  from.library = selected.libraries[kernel.library];
  from.file = std::filesystem::path(path).filename().string();
  std::string error =
      make_reproducer(law, value, kernel, executor, time, &from);
  if (!error.empty()) return emit + error;
  if (words.as != "npy" && !from.shows_failure)
    return emit +
           "no number leaves its bound on its own; allowed: wrong numbers, "
           "lengths and refusals, and numbers of two calls that must be the "
           "same bits (--emit npy writes the tensors of any failure)";
  if (words.as == "py" && from.uses_plans())
    return emit +
           "a plan lives between calls, and a function of arrays has none; "
           "allowed: calls that stand alone (--emit c runs plans)";
  if (words.as != "npy" && from.numbers() > kMostLiterals)
    return fmt::format(
        "{}{} numbers; allowed: {} as literals (--emit npy takes any)", emit,
        from.numbers(), kMostLiterals);
  error = write_reproducer(words, path, from);
  *written = path;
  return error;
}

}  // namespace qkvet::tools

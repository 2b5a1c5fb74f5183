// SPDX-License-Identifier: Apache-2.0
#include "cli/reproduce/emit.h"

#include <fmt/core.h>

#include <filesystem>

#include "cli/kernels/compiler.h"
#include "cli/kernels/write_new.h"
#include "cli/reproduce/call_folder.h"

namespace qkvet::cli {
namespace {

std::string path_of(const EmitWords& words) {
  std::string path = words.folder;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// The name of the kernel for run.py.
std::string run_words(const LibrarySpec& library, const std::string& kernel) {
  const std::string config = library.config.empty() ? "" : ":" + library.config;
  if (!library.interpreter.empty()) return shell_quoted(library.path + config);
  const std::string path =
      std::filesystem::absolute(library.path).lexically_normal().string();
  return shell_quoted(path + config) + " " + kernel;
}

}  // namespace

std::string emit_misuse(const EmitWords& words, const std::vector<Case>& cases,
                        const std::vector<const Law*>& laws, size_t kernels) {
  if (words.folder.empty())
    return words.force ? "--force is about --out, which is not given" : "";
  const std::string emit = "--out: ";
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
  return words.force ? "" : not_new_reason(path_of(words));
}

std::string emit_failure(const EmitWords& words, const Law& law,
                         const Case& value, const SelectedKernels& selected,
                         const KernelUnderTest& kernel, Executor& executor,
                         TimeUse& time) {
  Reproducer from;
  from.again = kernel_arguments(selected, kernel);
  from.run_again =
      run_words(selected.libraries[kernel.library], kernel.judged.info.name);
  const std::string error =
      make_reproducer(law, value, kernel, executor, time, &from);
  if (!error.empty()) return "--out: " + error;
  return write_new_folder(path_of(words), call_folder(from), words.force,
                          kCallFile);
}

}  // namespace qkvet::cli

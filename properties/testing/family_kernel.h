// SPDX-License-Identifier: Apache-2.0
// For tests of laws: a kernel of the program, judged in this process.
#ifndef QKVET_PROPERTIES_TESTING_FAMILY_KERNEL_H_
#define QKVET_PROPERTIES_TESTING_FAMILY_KERNEL_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "properties/run/runner.h"

namespace qkvet::properties {

struct FamilyKernel {
  ExecutorFactory open;
  KernelUnderTest kernel;
};

// The first kernel of a library, "qkvet_scalar.so", that is wanted.
template <class IsWanted>
FamilyKernel family_kernel(const std::string& library, IsWanted is_wanted) {
  const LibrarySpec spec{QKVET_FAMILIES "/" + library, ""};
  FamilyKernel found;
  found.open = [spec](size_t) { return open_in_process(spec); };
  const Opened opened = found.open(0);
  if (opened.executor == nullptr) {
    ADD_FAILURE() << opened.error;
    return found;
  }
  for (const KernelInfo& info : opened.executor->kernels()) {
    if (is_wanted(info)) {
      found.kernel.judged.info = info;
      found.kernel.judged.model = resolve_precision(info.precision).model;
      return found;
    }
    ++found.kernel.index;
  }
  ADD_FAILURE() << library << " has no such kernel";
  return found;
}

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_TESTING_FAMILY_KERNEL_H_

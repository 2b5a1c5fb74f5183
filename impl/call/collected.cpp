// SPDX-License-Identifier: Apache-2.0
// The list of a family of collected kernels (collected.h).
#include "impl/call/collected.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

// The linker's names for the two ends of the section.
#pragma GCC visibility push(hidden)
extern "C" const qkvet_kernel* __start_qkvet_kernels[];
extern "C" const qkvet_kernel* __stop_qkvet_kernels[];
#pragma GCC visibility pop

namespace qkvet::impl {

const qkvet_kernel* const* family_kernels(int32_t* count);

// By the order of the files in CMakeLists.txt, and by lines: the linker has an
// order of its own.
const qkvet_kernel* const* family_kernels(int32_t* count) {
  static constexpr std::string_view kFiles = "/" QKVET_FAMILY_FILES "/";
  const auto place = [](const qkvet_kernel* kernel) {
    const std::string file = kernel->source_file;
    return std::pair(kFiles.find(file.substr(file.rfind('/')) + "/"),
                     kernel->source_line);
  };
  static const bool in_order = [&place] {
    std::ranges::sort(__start_qkvet_kernels, __stop_qkvet_kernels, {}, place);
    return true;
  }();
  static_cast<void>(in_order);
  *count = static_cast<int32_t>(__stop_qkvet_kernels - __start_qkvet_kernels);
  return __start_qkvet_kernels;
}

}  // namespace qkvet::impl

// SPDX-License-Identifier: Apache-2.0
// The list of laws, out of the CMake list of the files that hold them.
#include <string_view>

#include "properties/judging/law.h"

namespace qkvet::properties {

#define QKVET_LAW(name) extern const Law name;
#include "laws.inc"
#undef QKVET_LAW

std::span<const Law* const> all_laws() {
  static constexpr const Law* kLaws[] = {
#define QKVET_LAW(name) &(name),
#include "laws.inc"
#undef QKVET_LAW
  };
  return kLaws;
}

bool has_subject(const KernelInfo& kernel, Subject subject) {
  switch (subject) {
    case Subject::kCache:
      return kernel.has_cache;
    case Subject::kLayer:
      return kernel.has_layer;
    case Subject::kBackward:
      return kernel.has_backward;
    case Subject::kLayerBackward:
      return kernel.has_layer && kernel.has_layer_backward;
    default:
      return kernel.has_forward;
  }
}

std::string missing_subject(Subject subject) {
  switch (subject) {
    case Subject::kCache:
      return "the kernel declares no cache";
    case Subject::kLayer:
      return "the kernel declares no layer";
    case Subject::kBackward:
      return "the kernel declares no backward()";
    case Subject::kLayerBackward:
      return "the kernel declares no layer_backward()";
    default:
      return "the kernel declares no forward()";
  }
}

const Law* find_law(std::string_view id) {
  for (const Law* law : all_laws())
    if (id == law->id) return law;
  return nullptr;
}

}  // namespace qkvet::properties

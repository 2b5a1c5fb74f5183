// SPDX-License-Identifier: Apache-2.0
// The list of laws, out of the files that hold them.
#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "properties/judging/law.h"

namespace qkvet::properties {

#define QKVET_LAW(name) extern const Law name;
#include "laws.inc"
#undef QKVET_LAW

namespace {

// In which order subjects are judged and listed.
constexpr Subject kSubjects[] = {Subject::kAttention, Subject::kBackward,
                                 Subject::kCache, Subject::kLayer,
                                 Subject::kLayerBackward};

std::vector<const Law*> in_order() {
  std::vector<const Law*> laws = {
#define QKVET_LAW(name) &(name),
#include "laws.inc"
#undef QKVET_LAW
  };
  const auto place = [](const Law* law) {
    return std::pair(
        std::ranges::find(kSubjects, law->domain.subject) - kSubjects,
        law->rank);
  };
  std::ranges::sort(laws, {}, place);
  return laws;
}

}  // namespace

std::span<const Law* const> all_laws() {
  static const std::vector<const Law*> laws = in_order();
  return laws;
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

const char* subject_text(Subject subject) {
  switch (subject) {
    case Subject::kCache:
      return "KV caches";
    case Subject::kLayer:
      return "layers";
    case Subject::kBackward:
      return "gradients of attention";
    case Subject::kLayerBackward:
      return "gradients of layers";
    default:
      return "attention";
  }
}

const Law* find_law(std::string_view id) {
  for (const Law* law : all_laws())
    if (id == law->id) return law;
  return nullptr;
}

}  // namespace qkvet::properties

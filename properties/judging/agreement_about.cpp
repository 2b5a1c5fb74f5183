// SPDX-License-Identifier: Apache-2.0
#include "properties/judging/agreement_about.h"

namespace qkvet::properties {

const Law& agreement_about(Subject subject) {
  switch (subject) {
    case Subject::kCache:
      return *find_law("cache_agrees_with_history");
    case Subject::kLayer:
      return *find_law("layer_agrees_with_oracle");
    case Subject::kLayerBackward:
      return *find_law("layer_backward_agrees_with_oracle");
    case Subject::kBackward:
      return *find_law("backward_agrees_with_oracle");
    default:
      return *find_law("agrees_with_oracle");
  }
}

}  // namespace qkvet::properties

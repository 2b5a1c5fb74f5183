// SPDX-License-Identifier: Apache-2.0
#include "properties/agreement_about.h"

namespace qkvet {

const Law& agreement_about(Subject subject) {
  return *find_law(subject == Subject::kCache   ? "cache_agrees_with_history"
                   : subject == Subject::kLayer ? "layer_agrees_with_oracle"
                                                : "agrees_with_oracle");
}

}  // namespace qkvet

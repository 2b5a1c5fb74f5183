// SPDX-License-Identifier: Apache-2.0
// What the cases of a run may be like.
#ifndef QKVET_PROPERTIES_SCOPE_H_
#define QKVET_PROPERTIES_SCOPE_H_

#include <vector>

#include "core/dtype.h"

namespace qkvet {

// How large a case may be. Most cases of every run are small, because small
// cases are cheap and show nearly everything; some cross the tiles of real
// kernels.
enum class SizeClass {
  kSmall,   // T, d <= 24
  kMedium,  // T, d <= 80
  kLarge    // T, d <= 300
};

struct Scope {
  SizeClass largest = SizeClass::kLarge;
  // Storage types, the same for all tensors of a case; the first is drawn for
  // half of the cases, the others share the rest.
  std::vector<Dtype> dtypes = {Dtype::kF32};
};

}  // namespace qkvet

#endif  // QKVET_PROPERTIES_SCOPE_H_

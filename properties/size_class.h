// SPDX-License-Identifier: Apache-2.0
#ifndef QKVET_PROPERTIES_SIZE_CLASS_H_
#define QKVET_PROPERTIES_SIZE_CLASS_H_

namespace qkvet {

// How large a case may be. Most cases of every run are small, because small
// cases are cheap and show nearly everything; some cross the tiles of real
// kernels.
enum class SizeClass {
  kSmall,   // T, d <= 24
  kMedium,  // T, d <= 80
  kLarge    // T, d <= 300
};

}  // namespace qkvet

#endif  // QKVET_PROPERTIES_SIZE_CLASS_H_

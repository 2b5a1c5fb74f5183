// SPDX-License-Identifier: Apache-2.0
// The twin of twin.h with nothing replaced.
#include "reference/attention/twin.h"

namespace qkvet::reference {

OracleOutput twin_forward(const Problem& problem) {
  return twin_forward_with<TwinHooks>(problem);
}

}  // namespace qkvet::reference

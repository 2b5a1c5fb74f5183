// SPDX-License-Identifier: Apache-2.0
// Two calls that must agree: bit for bit, or each within its own bound.
#ifndef QKVET_PROPERTIES_CALLS_CALL_PAIRS_H_
#define QKVET_PROPERTIES_CALLS_CALL_PAIRS_H_

#include <functional>

#include "properties/judging/outputs.h"

namespace qkvet::properties {

// Maps an element of the first call to its element in the second; nullopt if
// there is none.
using ElementMap = std::function<std::optional<Element>(const Element&)>;

struct CallPair {
  size_t first = 0;
  size_t second = 1;
  const char* first_name = "";   // "in one call"
  const char* second_name = "";  // "in the other order"
  std::string second_text;       // instead of it, if it depends on the case
  ElementMap map = nullptr;      // null: the same place
  // o of the second, or its gradients, are this times the first's.
  double factor = 1;
  // lse of the second is larger than the first's by this, natural; null: 0.
  std::function<double(const Element&)> lse_offset = nullptr;
  const char* looks = "";
};

// These compare outputs of two calls, by default all that both returned: of
// attention, of its gradient, or of a merge. Elements that do not count, and
// rows without a key, are left out.

// Bit for bit; zeros of both signs are equal, and so are NaNs.
void compare_bit_for_bit(const JudgeInput& input, const CallPair& pair,
                         Judgement& judgement, Outputs tensors = {});

// Each within its own bound: both calls need their truth.
void compare_within_bounds(const JudgeInput& input, const CallPair& pair,
                           Judgement& judgement, Outputs tensors = {});

// Requires the same bits, or numbers within the truth and the bound of the
// first call: the rows of the second have the same truth, which is not computed
// again.
void compare_within_first_bound(const JudgeInput& input, const CallPair& pair,
                                Judgement& judgement, Outputs tensors = {});

// Whether the kernel claims the same bits: by all of these QKVET_FLAG_*, and by
// being deterministic.
bool claims_same_bits(const KernelInfo& kernel, uint64_t flags);

// "", or why the kernel is not judged bitwise.
std::string nondeterministic_reason(const KernelInfo& kernel);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_CALL_PAIRS_H_

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
  ElementMap map = nullptr;      // null: the same place
  // o of the second, or its gradients, are this times the first's.
  double factor = 1;
  // lse of the second is larger than the first's by this, natural; null: 0.
  std::function<double(const Element&)> lse_offset = nullptr;
  const char* looks = "";
};

// The case as it is, and with an edit; both with lse and with their truth.
Plan plan_pair(const KernelInfo& kernel, InputEdit edit, int64_t argument = 0);
// The same without truth: for bitwise comparisons, which are never made of
// kernels that declare themselves nondeterministic.
Plan plan_bitwise_pair(const KernelInfo& kernel, InputEdit edit,
                       int64_t argument = 0);

// The case as it is, and with an edit of data that the compared rows do not
// see, for compare_same_rows().
Plan plan_same_rows(const KernelInfo& kernel, InputEdit edit,
                    int64_t argument = 0);

// The case as it is, and with an edit that a power of two undoes, for
// compare_as_claimed() by power_of_two_invariant: with truth if that is not
// claimed.
Plan plan_power_of_two(const KernelInfo& kernel, InputEdit edit);

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

// Rows of two calls that see the same: bit for bit if the kernel claims that no
// other number chooses a path (other_data_invariant); otherwise the second
// within the bound of the first.
void compare_same_rows(const JudgeInput& input, const CallPair& pair,
                       Judgement& judgement);

// Bit for bit if the kernel claims it by these QKVET_FLAG_*; otherwise each
// within its own bound, which needs their truth.
void compare_as_claimed(const JudgeInput& input, const CallPair& pair,
                        uint64_t flags, Judgement& judgement,
                        Outputs tensors = {});
// Whether it does: by all of the flags, and by being deterministic.
bool claims_same_bits(const KernelInfo& kernel, uint64_t flags);

// "", or why the kernel is not judged bitwise.
std::string nondeterministic_reason(const KernelInfo& kernel);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_CALL_PAIRS_H_

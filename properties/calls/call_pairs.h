// SPDX-License-Identifier: Apache-2.0
// Two calls that must agree: bit for bit, or each within its own bound.
#ifndef QKVET_PROPERTIES_CALLS_CALL_PAIRS_H_
#define QKVET_PROPERTIES_CALLS_CALL_PAIRS_H_

#include <functional>
#include <initializer_list>

#include "properties/judging/law.h"

namespace qkvet::properties {

// An element of o [B,H,Tq,dv], lse [B,H,Tq] or weights [B,H,Tq,Tk]; x is the
// column of o, the key of weights, and 0 for lse.
struct Element {
  TensorName tensor = TensorName::kO;
  int64_t b = 0, h = 0, i = 0, x = 0;
};

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
  double factor = 1;             // o of the second is this times the first's
  // lse of the second is larger than the first's by this, natural; null: 0.
  std::function<double(const Element&)> lse_offset = nullptr;
  const char* looks = "";
};

// The shape that a call had.
const Shape& shape_of(const JudgeInput& input, const CallView& call);

// Whether the row sees a key; the dialect covers rows that see none. Needs no
// truth: uses the visibility of this floor.
bool sees_a_key(const JudgeInput& input, const Element& element);

// The outputs that are compared by default.
using Outputs = std::initializer_list<TensorName>;
inline constexpr Outputs kOAndLse = {TensorName::kO, TensorName::kLse};
inline constexpr Outputs kAllOutputs = {TensorName::kO, TensorName::kLse,
                                        TensorName::kWeights};

// Bit for bit; zeros of both signs are equal, and so are NaNs. Rows without a
// key are left out.
void compare_bit_for_bit(const JudgeInput& input, const CallPair& pair,
                         Judgement& judgement, Outputs tensors = kOAndLse);

// Each within its own bound: both calls need their truth.
void compare_within_bounds(const JudgeInput& input, const CallPair& pair,
                           Judgement& judgement, Outputs tensors = kOAndLse);

// Requires the same bits, or numbers within the truth and the bound of the
// first call: the rows of the second have the same truth, which is not computed
// again.
void compare_within_first_bound(const JudgeInput& input, const CallPair& pair,
                                Judgement& judgement,
                                Outputs tensors = kOAndLse);

// Whether the kernel claims the same bits: by all of these QKVET_FLAG_*, and by
// being deterministic.
bool claims_same_bits(const KernelInfo& kernel, uint64_t flags);

// "", or why the kernel is not judged bitwise.
std::string nondeterministic_reason(const KernelInfo& kernel);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_CALL_PAIRS_H_

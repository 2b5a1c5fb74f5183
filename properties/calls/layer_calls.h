// SPDX-License-Identifier: Apache-2.0
// Helpers of laws about layers: the call, the returned stages, and the place of
// a head's element in a row. The index arithmetic is written once more here,
// independent of reference/ and impl/.
#ifndef QKVET_PROPERTIES_CALLS_LAYER_CALLS_H_
#define QKVET_PROPERTIES_CALLS_LAYER_CALLS_H_

#include <functional>

#include "properties/judging/law.h"
#include "reference/layer/layer.h"

namespace qkvet::properties {

// A call of the layer as the case has it; with the stages if the kernel returns
// them.
PlannedCall layer_call(const KernelInfo& kernel);
bool returns_stages(const KernelInfo& kernel);
bool returns_weights(const KernelInfo& kernel);

// "w_o with one row too many"; "" for none.
const char* layer_mistake_text(Mistake mistake);

// The case as a problem for the reference; points into the inputs.
LayerProblem layer_problem(const Case& value, const Inputs& inputs);

// The type in which the kernel returns its stages for this case.
Dtype stage_dtype(const JudgeInput& input);

// One projection's output: `heads` heads of `width` columns each.
struct StageLayout {
  int64_t B = 1, heads = 1, T = 1, width = 1;

  int64_t elements() const { return B * heads * T * width; }
  // The row (b, t) and the column that element n of [B,heads,T,width] is.
  int64_t row(int64_t n) const {
    return n / (heads * T * width) * T + n / width % T;
  }
  int64_t column(int64_t n) const {
    return n / (T * width) % heads * width + n % width;
  }
  // "q[b=0,h=1,t=2,c=3]"
  std::string name(const char* tensor, int64_t n) const;
};
StageLayout q_layout(const Shape& shape);
StageLayout k_layout(const Shape& shape);
StageLayout v_layout(const Shape& shape);
StageLayout attended_layout(const Shape& shape);

// One stage of a call, packed.
struct Stage {
  const char* name;
  StageLayout layout;
  std::vector<double> values;
};
// q, k and v, in this order.
std::vector<Stage> read_stages(const JudgeInput& input, const CallView& call);

// Compares every element of y with `expected(row, column)`, exactly. Stops at
// the first that differs.
void compare_y_exactly(const JudgeInput& input, const CallView& call,
                       const std::function<double(int64_t, int64_t)>& expected,
                       Judgement& judgement);
// The same for a stage.
void compare_stage_exactly(
    const JudgeInput& input, const Stage& stage,
    const std::function<double(int64_t, int64_t)>& expected,
    Judgement& judgement);

// The least that a law about layers needs of a case.
Case constrain_layer(Case value);
Case constrain_without_biases(Case value);
// For laws that set x and the matrices themselves.
Case fit_own_data(Case value);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_LAYER_CALLS_H_

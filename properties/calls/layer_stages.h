// SPDX-License-Identifier: Apache-2.0
// The stages of a layer, one by one: each is compared with the oracle's answer
// to the kernel's own input of that stage. Errors then do not accumulate; from
// end to end the bound of a bf16 layer is nearly as wide as the output
// (reference/bounds.md).
#ifndef QKVET_PROPERTIES_CALLS_LAYER_STAGES_H_
#define QKVET_PROPERTIES_CALLS_LAYER_STAGES_H_

#include <vector>

#include "properties/judging/law.h"
#include "reference/layer/layer.h"

namespace qkvet::properties {

struct StageJudgement {
  const char* name = "";  // "q", "k", "v", "attended", "weights", "y"
  Judgement judgement;
};

// How far to go once a stage is wrong. Later stages are judged on the output of
// the wrong one, so they can be right.
enum class WrongStage : uint8_t {
  kEndsThere,  // the projections q, k and v count as one
  kGoesOn      // as far as numbers are finite
};

// Projection n of kStages on the x of the first call, and its bound.
ProjectedStage stage_of(const JudgeInput& input, size_t n);

// Attention on the q, k and v that a call returned, and the bound for a kernel
// that stores its result as `stored`.
struct AttendedStage {
  OracleOutput oracle;
  Bound bound;
  std::vector<double> reach;  // BoundFacts::reach()
};
AttendedStage attended_stage(const JudgeInput& input, const CallView& call,
                             Dtype stored, bool weights);

// The judged stages of input.calls[0], in their order. A kernel that returns no
// stages only has y, judged from end to end.
std::vector<StageJudgement> judge_layer_stages(const JudgeInput& input,
                                               WrongStage wrong);
// The same as one judgement, up to the first wrong stage.
Judgement judge_layer(const JudgeInput& input);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_LAYER_STAGES_H_

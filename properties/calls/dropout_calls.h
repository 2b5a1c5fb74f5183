// SPDX-License-Identifier: Apache-2.0
// Calls with dropout: the kept weights of a kernel, and their right results.
#ifndef QKVET_PROPERTIES_CALLS_DROPOUT_CALLS_H_
#define QKVET_PROPERTIES_CALLS_DROPOUT_CALLS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "properties/judging/answer.h"
#include "properties/judging/outputs.h"
#include "reference/options/dropout.h"

namespace qkvet::properties {

// The options that laws about dropout allow: those with a derivation.
inline constexpr uint64_t kAllowBesideDropout =
    QKVET_OPTION_DROPOUT | QKVET_OPTION_WINDOW | QKVET_OPTION_MASK |
    QKVET_OPTION_LENGTHS | QKVET_OPTION_BIAS | QKVET_OPTION_SOFTCAP |
    QKVET_OPTION_SINK | kOptionLayout;

// Whether the kernel returns its dropout mask. If not, the mask is read off
// calls with q = 0, no bias and no sink, where every key that a row sees has a
// weight above 0, and v = I: column c of o is 0 where key c was dropped. One
// call shows as many keys as o has columns, so a mask takes Tk / dv calls.
bool returns_mask(const KernelInfo& kernel);

// "" or why it cannot be read: too many calls.
std::string unreadable_mask(const Case& value, const KernelInfo& kernel);

// forward(), or backward() after it, that returns its mask if the kernel does.
PlannedCall dropout_call(Operation operation, const KernelInfo& kernel);

// The calls that show which weights this forward() drops: the call itself, if
// it returns its mask. `hidden_too`: for hidden pairs as well, which takes
// calls that are not causal. The mask is readable.
std::vector<PlannedCall> mask_calls(const Case& value, const KernelInfo& kernel,
                                    const PlannedCall& call, bool hidden_too);
// The same and then the call itself, which is the last.
std::vector<PlannedCall> mask_and_call(const Case& value,
                                       const KernelInfo& kernel,
                                       const PlannedCall& call);

// The case with dropout of some probability; 0 becomes 0.5.
Case with_dropout(Case value);

// The mask [B,H,Tq,Tk] that the mask_calls() from number `first` on show. Rows
// that count hold 0 or 1; otherwise the result is nullopt and `judgement` has a
// finding. If the mask was read off, hidden pairs hold 0.
std::optional<std::vector<uint8_t>> kept_by(const JudgeInput& input,
                                            size_t first, Judgement& judgement);

// The first head [B,H] that has the mask of this one by the kernel's
// declaration: itself if every head has its own.
int64_t mask_owner(const KernelInfo& kernel, const Shape& shape, int64_t head);

// The right answers if these weights are kept.
class DropoutAnswer {
 public:
  // `call` is a forward() of the case. All arguments outlive this.
  DropoutAnswer(const JudgeInput& input, const CallView& call,
                const std::vector<uint8_t>& kept);

  // The right result of that call.
  const Truth& forward();
  // The right result of a backward() that was given o and lse of that call.
  const Truth& backward();

 private:
  const JudgeInput& input_;
  const CallView& call_;
  PrecisionModel model_;
  OwnedProblem owned_;
  DropoutProblem problem_;
  OracleOutput oracle_;  // natural
  std::vector<double> o_, lse_;
  GradientProblem gradient_problem_;
  GradientTruth gradient_;
  Bound bound_;
  std::vector<double> reach_;
  Truth truth_;
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_DROPOUT_CALLS_H_

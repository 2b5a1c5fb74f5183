// SPDX-License-Identifier: Apache-2.0
// Calls with dropout: which weights a kernel says that it kept, and what is
// right for that.
#ifndef QKVET_PROPERTIES_CALLS_DROPOUT_CALLS_H_
#define QKVET_PROPERTIES_CALLS_DROPOUT_CALLS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "properties/judging/answer.h"
#include "properties/judging/law.h"
#include "reference/options/dropout.h"

namespace qkvet::properties {

// What laws about dropout allow: that for which there is a derivation.
inline constexpr uint64_t kAllowBesideDropout =
    QKVET_OPTION_DROPOUT | QKVET_OPTION_WINDOW | QKVET_OPTION_MASK |
    QKVET_OPTION_LENGTHS | QKVET_OPTION_BIAS | QKVET_OPTION_SOFTCAP |
    QKVET_OPTION_SINK | kOptionLayout;

// Whether the kernel says which weights it dropped. If not, that is read off
// calls with q = 0, no bias and no sink, where every key that a row sees has a
// weight above 0, and v = I: column c of o is 0 where key c was dropped. As
// many keys as o has columns, so Tk / dv calls show a mask.
bool returns_mask(const KernelInfo& kernel);

// "" or why it cannot be read: too many calls.
std::string unreadable_mask(const Case& value, const KernelInfo& kernel);

// forward(), or backward() behind it, that returns its mask if the kernel does.
PlannedCall dropout_call(Operation operation, const KernelInfo& kernel);

// What shows which weights this forward() drops: itself, if it returns its
// mask. `hidden_too`: of hidden pairs as well, which takes calls that are not
// causal. The mask is readable.
std::vector<PlannedCall> mask_calls(const Case& value, const KernelInfo& kernel,
                                    const PlannedCall& call, bool hidden_too);
// The same and then the call itself, which is the last.
std::vector<PlannedCall> mask_and_call(const Case& value,
                                       const KernelInfo& kernel,
                                       const PlannedCall& call);

// The case with dropout of some probability; what is none becomes 0.5.
Case with_dropout(Case value);

// The mask [B,H,Tq,Tk] that the mask_calls() from number `first` on show; rows
// that count hold 0 or 1, or there is a finding in `judgement` and nothing.
// Where it was read, hidden pairs hold 0.
std::optional<std::vector<uint8_t>> kept_by(const JudgeInput& input,
                                            size_t first, Judgement& judgement);

// The first head [B,H] that has the mask of this one by the kernel's
// declaration: itself where every head has its own.
int64_t mask_owner(const KernelInfo& kernel, const Shape& shape, int64_t head);

// Where an element of a mask stands: "dropout_mask[b=0,h=1,i=2,j=3]".
std::string mask_place(const Shape& shape, int64_t n);

// What is right where these weights are kept.
class DropoutAnswer {
 public:
  // `call` is a forward() of the case. All arguments outlive this.
  DropoutAnswer(const JudgeInput& input, const CallView& call,
                const std::vector<uint8_t>& kept);

  // What that call must return.
  const Truth& forward();
  // What backward() must return, which was given o and lse of that call.
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

// SPDX-License-Identifier: Apache-2.0
// Calls with dropout: which weights a kernel says that it kept, and what is
// right for that.
#ifndef QKVET_PROPERTIES_DROPOUT_CALLS_H_
#define QKVET_PROPERTIES_DROPOUT_CALLS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "properties/answer.h"
#include "properties/law.h"
#include "reference/dropout.h"

namespace qkvet {

// What laws about dropout admit: that for which there is a derivation.
inline constexpr uint32_t kAdmitBesideDropout =
    kAdmitDropout | kAdmitWindow | kAdmitMask | kAdmitLengths | kAdmitBias |
    kAdmitSoftcap | kAdmitSink | kAdmitLayout;

// forward(), or backward() behind it, that returns its mask.
PlannedCall dropout_call(Operation operation, const KernelInfo& kernel);

// The case with dropout of some probability; what is none becomes 0.5.
Case with_dropout(Case value);

// The mask that the call returned [B,H,Tq,Tk]; rows that count hold 0 or 1,
// or there is a finding in `judgement` and nothing.
std::optional<std::vector<uint8_t>> kept_by(const JudgeInput& input,
                                            const CallView& call,
                                            Judgement& judgement);

// Where an element of a mask stands: "dropout_mask[b=0,h=1,i=2,j=3]".
std::string mask_place(const Shape& shape, int64_t n);

// What is right where these weights are kept.
class DropoutAnswer {
 public:
  // `call` is a forward() of the case. All arguments outlive this.
  DropoutAnswer(const JudgeInput& input, const CallView& call,
                const std::vector<uint8_t>& kept);

  // Of that call.
  const Truth& forward();
  // Of backward(), which was given o and lse of that call.
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

}  // namespace qkvet

#endif  // QKVET_PROPERTIES_DROPOUT_CALLS_H_

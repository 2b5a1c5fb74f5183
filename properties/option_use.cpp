// SPDX-License-Identifier: Apache-2.0
#include "properties/option_use.h"

namespace qkvet {
namespace {

// In the order of options_of().
constexpr const char* kNames[] = {"causal from the top left",
                                  "causal from the bottom right",
                                  "a given scale",
                                  "lse",
                                  "weights",
                                  "grouped heads",
                                  "value width",
                                  "cross lengths"};

std::array<bool, 8> options_of(const KernelCall& call) {
  const Shape& s = call.shape;
  return {call.causal == Causal::kTopLeft,
          call.causal == Causal::kBottomRight,
          call.scale.has_value(),
          call.want_lse,
          call.want_weights,
          s.Hkv != s.H,
          s.dv != s.d,
          call.operation == Operation::kForward && s.Tq != s.Tk};
}

}  // namespace

void OptionUse::count(const KernelCall& call, const CallOutcome& outcome) {
  const bool refused = outcome.status == CallStatus::kUnsupported;
  // What the declaration itself rules out says nothing about it.
  if (refused && !outcome.asked_kernel) return;
  const auto used = options_of(call);
  for (size_t i = 0; i < used.size(); ++i) {
    uses_[i].asked += used[i];
    uses_[i].refused += used[i] && refused;
  }
}

void OptionUse::add(const OptionUse& other) {
  for (size_t i = 0; i < uses_.size(); ++i) {
    uses_[i].asked += other.uses_[i].asked;
    uses_[i].refused += other.uses_[i].refused;
  }
}

std::vector<std::string> OptionUse::hollow() const {
  std::vector<std::string> lines;
  for (size_t i = 0; i < uses_.size(); ++i)
    if (2 * uses_[i].refused > uses_[i].asked)
      lines.push_back(std::string(kNames[i]) + ": refused in " +
                      std::to_string(uses_[i].refused) + " of " +
                      std::to_string(uses_[i].asked) + " calls");
  return lines;
}

}  // namespace qkvet

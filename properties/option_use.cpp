// SPDX-License-Identifier: Apache-2.0
#include "properties/option_use.h"

#include <algorithm>

#include "core/paging.h"

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
                                  "cross lengths",
                                  "a window",
                                  "a mask",
                                  "a bias",
                                  "a softcap",
                                  "a sink",
                                  "ALiBi",
                                  "lengths",
                                  "a packed batch",
                                  "RoPE",
                                  "pages",
                                  "new tokens",
                                  "empty extents",
                                  "dropout"};

std::array<bool, std::size(kNames)> options_of(const KernelCall& call) {
  const Shape& s = call.shape;
  const bool forward = takes_options(call.operation);
  return {call.causal == Causal::kTopLeft,
          call.causal == Causal::kBottomRight,
          call.scale.has_value(),
          call.want_lse,
          call.want_weights,
          s.Hkv != s.H,
          s.dv != s.d,
          forward && s.Tq != s.Tk,
          call.window.has_value(),
          call.mask != nullptr,
          call.bias != nullptr,
          call.softcap > 0,
          call.sink != nullptr,
          call.slopes != nullptr,
          call.q_len != nullptr || (call.kv_len != nullptr && !is_served(call)),
          call.members > 0,
          call.rope != RopeStyle::kNone,
          call.page_size > 0,
          call.new_tokens > 0,
          forward && std::min({s.B, s.Tq, s.Tk}) == 0,
          call.dropout.has_value()};
}

}  // namespace

void OptionUse::count(const KernelCall& call, const CallOutcome& outcome) {
  const bool refused = outcome.status == CallStatus::kUnsupported;
  // What the declaration itself rules out says nothing about it.
  if (refused && !outcome.asked_kernel) return;
  const auto used = options_of(call);
  static_assert(used.size() == kOptions && std::size(kNames) == kOptions);
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

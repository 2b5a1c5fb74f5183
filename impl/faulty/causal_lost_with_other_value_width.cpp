// SPDX-License-Identifier: Apache-2.0
// faulty/causal_lost_with_other_value_width: the causal rule is lost where dv
// is not d.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct CausalLostWithOtherValueWidth : OptionSeams {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    return call.width != call.value_width || OptionSeams::in_reach(call, i, j);
  }
};

constexpr const char* kKilledBy[] = {
    "future_weights_are_zero", "future_changes_nothing",
    "prefill_equals_decode", "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the path for dv other than d knows no causal rule",
    .symptom = "right for all models but those whose values have another width",
    .cause = "a general path that was written before masks were",
    .fix = "every path takes every option, or says that it does not",
    .source = "textbook (fallback paths)",
    .trigger = "causal, and dv other than d",
    .killed_by = kKilledBy,
    .when = "causal && d != dv && rows(hidden > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_causal_lost_with_other_value_width =
    option_fault<CausalLostWithOtherValueWidth>(
        "faulty/causal_lost_with_other_value_width", &kFault,
        {"impl/faulty/causal_lost_with_other_value_width.cpp", __LINE__});

}  // namespace qkvet::impl

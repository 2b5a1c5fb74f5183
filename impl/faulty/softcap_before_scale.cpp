// SPDX-License-Identifier: Apache-2.0
// faulty/softcap_before_scale: softcap in front of the scale.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct SoftcapBeforeScale : OptionSeams {
  static float capped(const ForwardCall& call, float s) {
    const float raw = s / call.scale;
    return call.options.softcap > 0
               ? OptionSeams::capped(call, raw) * call.scale
               : s;
  }
};

constexpr const char* kKilledBy[] = {
    "softcap_is_tanh", "scale_moves_to_queries", "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "softcap is applied to q.k, and the scale afterwards",
    .symptom = "scores are capped too early, and below the cap",
    .cause = "the scale moved behind the cap to save a multiplication",
    .fix = "cap scaled scores",
    .source = "huggingface/trl#5691",
    .trigger = "softcap, a scale other than 1, and a score that is not small",
    .killed_by = kKilledBy,
    .when = "softcap && !scale.is_one",
};

}  // namespace

extern constinit const qkvet_kernel faulty_softcap_before_scale =
    option_fault<SoftcapBeforeScale, QKVET_OPTION_SOFTCAP>(
        "faulty/softcap_before_scale", &kFault,
        {"impl/faulty/softcap_before_scale.cpp", __LINE__});

}  // namespace qkvet::impl

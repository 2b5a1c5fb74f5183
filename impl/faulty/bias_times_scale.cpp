// SPDX-License-Identifier: Apache-2.0
// faulty/bias_times_scale: the bias is scaled, too.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct BiasTimesScale : OptionSeams {
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    const Stored& bias = call.options.bias;
    return bias.present() ? s + call.scale * bias.get(at.b, at.h, at.i, j) : s;
  }
};

constexpr const char* kKilledBy[] = {"bias_alone_decides",
                                     "scale_moves_to_queries",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the bias is added to q.k in front of the scale",
    .symptom = "a bias learnt elsewhere works at a fraction of its strength",
    .cause = "(q.k + bias) * scale where q.k * scale + bias is meant",
    .fix = "scale q.k first",
    .source = "textbook",
    .trigger = "a bias, and a scale other than 1",
    .killed_by = kKilledBy,
    .when = "bias && !scale.is_one",
};

}  // namespace

extern constinit const qkvet_kernel faulty_bias_times_scale =
    option_fault<BiasTimesScale, QKVET_OPTION_BIAS>(
        "faulty/bias_times_scale", &kFault,
        {"impl/faulty/bias_times_scale.cpp", __LINE__});

}  // namespace qkvet::impl

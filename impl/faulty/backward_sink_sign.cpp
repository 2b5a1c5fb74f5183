// SPDX-License-Identifier: Apache-2.0
// faulty/backward_sink_sign: the gradient of a sink has the wrong sign.
#include "impl/faulty/backward_fault.h"

namespace qkvet::impl {
namespace {

struct SinkSign : PlainBackward {
  static float sink(float sink, float lse, float delta) {
    return -PlainBackward::sink(sink, lse, delta);
  }
};

constexpr const char* kKilledBy[] = {"backward_is_the_adjoint",
                                     "backward_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "d_sink is the sum of p_sink delta, and is to be the negative of it",
    .symptom =
        "sinks are learned away from where they help; dq, dk and dv are right",
    .cause = "a sink has no value, so that its dp is 0 and only -delta is left",
    .fix = "ds = p (dp - delta) with dp = 0",
    .source = "textbook",
    .trigger = "a sink",
    .killed_by = kKilledBy,
    .when = "sink",
};

}  // namespace

extern constinit const qkvet_kernel faulty_backward_sink_sign =
    backward_fault<SinkSign, QKVET_OPTION_SINK>(
        "faulty/backward_sink_sign", &kFault,
        {"impl/faulty/backward_sink_sign.cpp", __LINE__});

}  // namespace qkvet::impl

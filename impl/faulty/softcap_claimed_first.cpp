// SPDX-License-Identifier: Apache-2.0
// faulty/softcap_claimed_first: softcap after the bias, declared before it.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct SoftcapClaimedFirst : OptionSeams {
  static float capped(const ForwardCall&, float s) { return s; }
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    return OptionSeams::capped(call, OptionSeams::biased(call, at, j, s));
  }
};

constexpr const char* kKilledBy[] = {"agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "softcap is applied after the bias, and declared to come before it",
    .symptom = "a strong bias is flattened",
    .cause = "the cap written as the last step before the softmax",
    .fix = "cap first, or declare the order",
    .source = "flashinfer-ai/flashinfer#350",
    .trigger = "softcap together with a bias",
    .killed_by = kKilledBy,
    .when = "softcap && bias",
};

}  // namespace

extern constinit const qkvet_kernel faulty_softcap_claimed_first =
    option_fault<SoftcapClaimedFirst, QKVET_OPTION_SOFTCAP | QKVET_OPTION_BIAS>(
        "faulty/softcap_claimed_first", &kFault,
        {"impl/faulty/softcap_claimed_first.cpp", __LINE__});

}  // namespace qkvet::impl

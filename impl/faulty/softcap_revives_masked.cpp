// SPDX-License-Identifier: Apache-2.0
// faulty/softcap_revives_masked: the cap comes after the mask.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct SoftcapRevivesMasked : OptionSeams {
  static bool hides(const ForwardCall& call, RowAt at, int64_t j) {
    return call.options.softcap > 0 &&
           !call.options.allows(at.b, at.h, at.i, j);
  }
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    return OptionSeams::allows(call, at, j) || hides(call, at, j);
  }
  static float biased(const ForwardCall& call, RowAt at, int64_t j, float s) {
    return hides(call, at, j) ? -call.options.softcap
                              : OptionSeams::biased(call, at, j, s);
  }
};

constexpr const char* kKilledBy[] = {"causal_equals_mask",
                                     "every_pair_is_seen_as_asked",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "masked scores of -infinity pass through softcap, and are -softcap "
        "then",
    .symptom = "hidden keys take part, the more the smaller the cap is",
    .cause =
        "the cap is the last thing before the softmax, and tanh(-infinity) is"
        " -1",
    .fix = "cap first, then mask",
    .source = "textbook (order of cap and mask)",
    .trigger = "softcap together with a mask that hides something",
    .killed_by = kKilledBy,
    .when = "softcap && mask && rows(hidden > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_softcap_revives_masked =
    option_fault<SoftcapRevivesMasked,
                 QKVET_OPTION_SOFTCAP | QKVET_OPTION_MASK>(
        "faulty/softcap_revives_masked", &kFault,
        {"impl/faulty/softcap_revives_masked.cpp", __LINE__});

}  // namespace qkvet::impl

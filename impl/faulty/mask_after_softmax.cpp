// SPDX-License-Identifier: Apache-2.0
// faulty/mask_after_softmax: the softmax runs over all keys, and the weights of
// hidden keys are set to zero afterwards.
#include "impl/faulty/seams.h"

namespace qkvet::impl {
namespace {

struct MaskAfterSoftmax : PlainSeams {
  static bool visible(const ForwardCall&, int64_t, int64_t) { return true; }
  static bool keep(const ForwardCall& call, int64_t i, int64_t j) {
    return j < call.visible(i);
  }
};

constexpr const char* kKilledBy[] = {"weights_sum_to_one",
                                     "future_changes_nothing",
                                     "every_key_counts_once",
                                     "rows_stay_in_hull",
                                     "lse_counts_equal_keys",
                                     "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "hidden keys keep their share of the denominator",
    .symptom =
        "the weights of a row sum to less than one, and future keys still dim "
        "it",
    .cause = "the mask is multiplied with the weights",
    .fix = "mask the scores with -inf, then take the softmax",
    .source = "textbook",
    .trigger = "causal, and a row with at least one visible and one hidden key",
    .killed_by = kKilledBy,
    .when = "causal && rows(seen > 0 && hidden > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_mask_after_softmax =
    faulty_kernel<MaskAfterSoftmax>(
        "faulty/mask_after_softmax", &kFault,
        {"impl/faulty/mask_after_softmax.cpp", __LINE__});

}  // namespace qkvet::impl

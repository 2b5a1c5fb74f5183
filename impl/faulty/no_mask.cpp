// SPDX-License-Identifier: Apache-2.0
// faulty/no_mask: the causal flag is read and nothing is masked.
#include "impl/faulty/seams.h"

namespace qkvet::impl {
namespace {

struct NoMask : PlainSeams {
  static bool visible(const ForwardCall&, int64_t, int64_t) { return true; }
};

constexpr const char* kKilledBy[] = {"future_weights_are_zero",
                                     "future_changes_nothing",
                                     "every_key_counts_once",
                                     "lse_counts_equal_keys",
                                     "prefill_equals_decode",
                                     "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "a causal call sees every key",
    .symptom = "the training loss is wonderful and generation is nonsense",
    .cause = "the causal mask is built and never added to the scores",
    .fix =
        "set the scores of keys behind the diagonal to -inf before the softmax",
    .source = "textbook",
    .trigger = "causal, and a row with at least one visible and one hidden key",
    .killed_by = kKilledBy,
    .when = "causal && rows(seen > 0 && hidden > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_no_mask = faulty_kernel<NoMask>(
    "faulty/no_mask", &kFault, {"impl/faulty/no_mask.cpp", __LINE__});

}  // namespace qkvet::impl

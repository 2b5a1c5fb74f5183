// SPDX-License-Identifier: Apache-2.0
// faulty/one_ahead: the diagonal of the mask lies one key too far right.
#include "impl/faulty/seams.h"

namespace qkvet::impl {
namespace {

struct OneAhead : PlainSeams {
  static bool visible(const ForwardCall& call, int64_t i, int64_t j) {
    return j < call.keys && (!call.causal || j <= i + call.diagonal + 1);
  }
};

constexpr const char* kKilledBy[] = {
    "future_weights_are_zero", "future_changes_nothing",
    "prefill_equals_decode",   "chunks_equal_whole",
    "every_key_counts_once",   "lse_counts_equal_keys",
    "agrees_with_oracle",      nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "a causal row sees one key too many",
    .symptom =
        "the loss falls too fast: each position reads the token that it has to "
        "predict",
    .cause = "triu(diagonal=2) where diagonal=1 was meant",
    .fix = "hide every key with j > i + Tk - Tq",
    .source = "textbook",
    .trigger = "causal, and a row with at least one visible and one hidden key",
    .killed_by = kKilledBy,
    .when = "causal && rows(seen > 0 && hidden > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_one_ahead = faulty_kernel<OneAhead>(
    "faulty/one_ahead", &kFault, {"impl/faulty/one_ahead.cpp", __LINE__});

}  // namespace qkvet::impl

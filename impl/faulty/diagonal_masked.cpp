// SPDX-License-Identifier: Apache-2.0
// faulty/diagonal_masked: the mask is strict, so that a row does not see
// itself.
#include "impl/faulty/seams.h"

namespace qkvet::impl {
namespace {

struct DiagonalMasked : PlainSeams {
  static bool visible(const ForwardCall& call, int64_t i, int64_t j) {
    return call.causal ? j < i + call.diagonal : j < call.keys;
  }
};

constexpr const char* kKilledBy[] = {
    "weights_sum_to_one", "lse_counts_equal_keys", "rows_stay_in_hull",
    "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "a causal row does not see the key on its diagonal",
    .symptom = "NaN in the first row, weak outputs in the others",
    .cause = "j < i where j <= i was meant",
    .fix = "keep the diagonal: key j is visible if j <= i + Tk - Tq",
    .source = "textbook",
    .trigger =
        "causal, and a row whose diagonal key exists; with nothing before it, "
        "the row is NaN",
    .killed_by = kKilledBy,
    .when = "causal && rows(seen > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_diagonal_masked =
    faulty_kernel<DiagonalMasked>(
        "faulty/diagonal_masked", &kFault,
        {"impl/faulty/diagonal_masked.cpp", __LINE__});

}  // namespace qkvet::impl

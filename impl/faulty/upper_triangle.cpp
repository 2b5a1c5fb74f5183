// SPDX-License-Identifier: Apache-2.0
// faulty/upper_triangle: the mask keeps the upper triangle, with its diagonal.
#include "impl/faulty/seams.h"

namespace qkvet::impl {
namespace {

struct UpperTriangle : PlainSeams {
  static bool visible(const ForwardCall& call, int64_t i, int64_t j) {
    return !call.causal || j >= i + call.diagonal;
  }
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
    .mechanism =
        "a causal row sees its own key and the later ones, not the earlier "
        "ones",
    .symptom = "the model learns to look ahead and never back",
    .cause = "triu where tril was meant, or a mask of the wrong sense",
    .fix =
        "keep the lower triangle with its diagonal: key j if j <= i + Tk - Tq",
    .source = "textbook",
    .trigger =
        "causal, and a row with a visible key before its diagonal or a hidden "
        "one behind it",
    .killed_by = kKilledBy,
    .when = "causal && (Tq > 1 || Tk > 1)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_upper_triangle =
    faulty_kernel<UpperTriangle>("faulty/upper_triangle", &kFault,
                                 {"impl/faulty/upper_triangle.cpp", __LINE__});

}  // namespace qkvet::impl

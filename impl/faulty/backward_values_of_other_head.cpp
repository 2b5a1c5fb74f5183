// SPDX-License-Identifier: Apache-2.0
// faulty/backward_values_of_other_head: dv of a query head goes to the
// key/value head h mod Hkv.
#include "impl/faulty/backward_fault.h"

namespace qkvet::impl {
namespace {

struct ValuesOfOtherHead : PlainBackward {
  static int64_t value_head(const ForwardCall& call, int64_t h) {
    return h % call.kv_heads;
  }
};

constexpr const char* kKilledBy[] = {"backward_heads_are_separate",
                                     "permuted_heads_permute_gradients",
                                     "backward_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "dv is summed over every Hkv-th query head in place of neighbours",
    .symptom = "dq and dk are right and dv belongs to other heads",
    .cause = "repeated heads are summed as if they had been tiled",
    .fix = "sum dv over the query heads of a group: h / group",
    .source = "textbook",
    .trigger = "grouped heads and two or more key/value heads",
    .killed_by = kKilledBy,
    .when = "1 < Hkv && Hkv < H",
};

}  // namespace

extern constinit const qkvet_kernel faulty_backward_values_of_other_head =
    backward_fault<ValuesOfOtherHead>(
        "faulty/backward_values_of_other_head", &kFault,
        {"impl/faulty/backward_values_of_other_head.cpp", __LINE__});

}  // namespace qkvet::impl

// SPDX-License-Identifier: Apache-2.0
// faulty/backward_group_index_square: gradients of grouped heads are found by
// the number of groups where it should be their size.
#include "impl/faulty/backward_fault.h"

namespace qkvet::impl {
namespace {

struct GroupIndexSquare : PlainBackward {
  // The slot of query head h among those that are summed, group by group.
  static int64_t key_head(const ForwardCall& call, int64_t h) {
    const int64_t group = call.group();
    const int64_t slot = h / group * call.kv_heads + h % group;
    return slot % call.heads / group;
  }
  static int64_t value_head(const ForwardCall& call, int64_t h) {
    return key_head(call, h);
  }
};

constexpr const char* kKilledBy[] = {"backward_heads_are_separate",
                                     "permuted_heads_permute_gradients",
                                     "backward_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "dk and dv of query head (kv, g) go to slot kv Hkv + g in place of kv "
        "group + g",
    .symptom =
        "gradients of one key/value head reach another; right with one head, "
        "and with as many groups as heads in each",
    .cause = "forward counts key/value heads where backward counts shares",
    .fix = "index by the size of a group in both passes",
    .source = "XunhaoLai/native-sparse-attention-triton#27",
    .trigger =
        "two or more key/value heads, not as many as query heads in each group",
    .killed_by = kKilledBy,
    .when = "Hkv > 1 && Hkv * Hkv != H",
};

}  // namespace

extern constinit const qkvet_kernel faulty_backward_group_index_square =
    backward_fault<GroupIndexSquare>(
        "faulty/backward_group_index_square", &kFault,
        {"impl/faulty/backward_group_index_square.cpp", __LINE__});

}  // namespace qkvet::impl

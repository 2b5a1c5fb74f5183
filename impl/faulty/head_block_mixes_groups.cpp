// SPDX-License-Identifier: Apache-2.0
// faulty/head_block_mixes_groups: a block of heads reads the keys of its first
// one.
#include "impl/faulty/option_fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

struct HeadBlockMixesGroups : OptionSeams {
  static RowAt kv_head(const ForwardCall& call, RowAt at) {
    return {at.b, (at.h - at.h % half_tile()) / call.group(), 0};
  }
};

constexpr const char* kKilledBy[] = {"query_heads_read_their_kv_head",
                                     "other_heads_change_nothing",
                                     "nan_stays_in_its_head",
                                     "permuted_heads_permute_output",
                                     "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "two heads are taken at once, with the keys of the first",
    .symptom =
        "right for even groups; the last head of an odd one takes the next one "
        "with it",
    .cause =
        "a block of columns is loaded for one key/value head, and groups are "
        "taken to be multiples of it",
    .fix = "end a block where its group ends",
    .source = "ggml-org/llama.cpp#19115",
    .trigger = "Hkv > 1, and an odd number of heads in a group",
    .killed_by = kKilledBy,
    .when = "Hkv > 1 && H / Hkv % 2 == 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_head_block_mixes_groups =
    option_fault<HeadBlockMixesGroups>(
        "faulty/head_block_mixes_groups", &kFault,
        {"impl/faulty/head_block_mixes_groups.cpp", __LINE__});

}  // namespace qkvet::impl

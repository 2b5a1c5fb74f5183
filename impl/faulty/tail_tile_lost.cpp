// SPDX-License-Identifier: Apache-2.0
// faulty/tail_tile_lost: the tail of the vector loop is missing.
#include "impl/faulty/option_fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

struct TailTileLost : OptionSeams {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const int64_t seen = call.visible(i);
    return j < seen - (seen >= half_tile() ? seen % half_tile() : 0);
  }
};

constexpr const char* kKilledBy[] = {"every_key_counts_once",
                                     "lse_counts_equal_keys",
                                     "duplicated_keys_share_their_weight",
                                     "split_and_merge_by_lse",
                                     "permuted_keys_change_nothing",
                                     "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "keys are taken two at a time, and one that is left over is lost",
    .symptom = "rows with an odd number of keys miss their last one",
    .cause = "a vector loop without the loop for the rest",
    .fix = "a scalar loop, or a masked vector, for the tail",
    .source = "textbook",
    .trigger = "a row that sees an odd number of keys, three or more",
    .killed_by = kKilledBy,
    .when = "rows(seen > 2 && seen % 2 == 1)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_tail_tile_lost =
    option_fault<TailTileLost>("faulty/tail_tile_lost", &kFault,
                               {"impl/faulty/tail_tile_lost.cpp", __LINE__});

}  // namespace qkvet::impl

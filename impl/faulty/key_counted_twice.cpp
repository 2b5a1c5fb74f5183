// SPDX-License-Identifier: Apache-2.0
// faulty/key_counted_twice: keys at the edges of tiles count twice.
#include "impl/faulty/option_fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

struct KeyCountedTwice : OptionSeams {
  static float weight(const ForwardCall&, int64_t j, float weight) {
    return j > 0 && j % half_tile() == 0 ? 2 * weight : weight;
  }
};

constexpr const char* kKilledBy[] = {"every_key_counts_once",
                                     "lse_counts_equal_keys",
                                     "permuted_keys_change_nothing",
                                     "duplicated_keys_share_their_weight",
                                     "split_and_merge_by_lse",
                                     "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "tiles of two keys overlap: the first key of each but the first counts "
        "twice",
    .symptom = "a bias towards some positions that looks like noise",
    .cause = "an inclusive end of one tile that is the begin of the next",
    .fix = "half-open ranges of keys",
    .source = "textbook",
    .trigger = "a row that sees three keys or more",
    .killed_by = kKilledBy,
    .when = "rows(seen > 2)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_key_counted_twice =
    option_fault<KeyCountedTwice>(
        "faulty/key_counted_twice", &kFault,
        {"impl/faulty/key_counted_twice.cpp", __LINE__});

}  // namespace qkvet::impl

// SPDX-License-Identifier: Apache-2.0
// faulty/tail_tile_unmasked: zeros behind the last key count as keys.
#include "impl/faulty/option_fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

struct TailTileUnmasked : OptionSeams {
  static float denominator(float sum, float max, int64_t seen) {
    const auto padding = static_cast<float>((tile() - seen % tile()) % tile());
    return sum + padding * std::exp(-max);
  }
};

constexpr const char* kKilledBy[] = {"weights_sum_to_one",
                                     "every_key_counts_once",
                                     "lse_counts_equal_keys",
                                     "shifted_keys_change_nothing",
                                     "duplicated_keys_share_their_weight",
                                     "rows_stay_in_hull",
                                     "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "keys are padded with zeros to full tiles of four, and the padding "
        "enters the denominator",
    .symptom =
        "outputs too small where the number of keys is no multiple of the tile",
    .cause = "zero-filled lanes whose score, 0, is not replaced by -infinity",
    .fix = "set the scores of the padding to -infinity before exp",
    .source = "textbook",
    .trigger = "a row that sees a number of keys that is no multiple of four",
    .killed_by = kKilledBy,
    .when = "rows(seen % 4 != 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_tail_tile_unmasked =
    option_fault<TailTileUnmasked>(
        "faulty/tail_tile_unmasked", &kFault,
        {"impl/faulty/tail_tile_unmasked.cpp", __LINE__});

}  // namespace qkvet::impl

// SPDX-License-Identifier: Apache-2.0
// stability: numbers. Whatever is finite stays within the bound, what is hidden
// never shows, and NaN stays where it came from. The laws are those that leave
// q and k as they are: what makes data of its own climbs nowhere.
#include "fuzz/targets/target.h"

namespace qkvet::fuzz {
namespace {

constexpr const char* kLaws[] = {
    "agrees_with_oracle",          "weights_sum_to_one",
    "rows_stay_in_hull",           "nan_stays_in_its_head",
    "masked_nonfinite_is_ignored", "masked_keys_change_nothing",
    "scaled_values_scale_output",  "scale_moves_to_queries",
    "split_and_merge_by_lse"};

}  // namespace

extern constinit const FuzzTarget fuzz_stability = {
    .name = "stability",
    .sentence =
        "Whatever the numbers are, the output stays within its bound, and NaN "
        "in its head.",
    .laws = kLaws,
    .values_percent = 75,
    // Numbers show in small calls, and there are four times as many of those.
    .most_work = int64_t{1} << 13};

}  // namespace qkvet::fuzz

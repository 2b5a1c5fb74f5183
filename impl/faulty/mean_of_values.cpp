// SPDX-License-Identifier: Apache-2.0
// faulty/mean_of_values: the scores do not matter.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct MeanOfValues : OptionSeams {
  static float weight(const ForwardCall&, int64_t, float) { return 1; }
};

constexpr const char* kKilledBy[] = {
    "scale_is_one_over_sqrt_d", "query_heads_read_their_kv_head",
    "split_and_merge_by_lse", "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "all keys weigh the same",
    .symptom = "every output is the mean of the values that the row sees",
    .cause = "scores lost between two kernels, or all replaced by one number",
    .fix = "normalise the exponentials of the scores",
    .source = "textbook",
    .trigger = "two keys with different scores",
    .killed_by = kKilledBy,
    .when = "rows(seen > 1)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_mean_of_values =
    option_fault<MeanOfValues>("faulty/mean_of_values", &kFault,
                               {"impl/faulty/mean_of_values.cpp", __LINE__});

}  // namespace qkvet::impl

// SPDX-License-Identifier: Apache-2.0
// faulty/diagonal_always_bottom_right: the last query always stands at the
// last key.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct DiagonalAlwaysBottomRight : OptionSeams {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (whole.top_left) {
      member->diagonal = member->keys - member->queries;
    }
  }
};

constexpr const char* kKilledBy[] = {"every_pair_is_seen_as_asked",
                                     "every_key_counts_once",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the last query stands at the last key where the first one was asked "
        "to stand at the first",
    .symptom =
        "right for square calls; with more keys than rows every row sees later "
        "ones, with fewer it misses some",
    .cause = "one of two alignments is written, and both flags lead to it",
    .fix = "keep the alignment until the mask is made, or refuse the other one",
    .source = "microsoft/onnxruntime#29020, ml-explore/mlx#2835",
    .trigger = "causal from the top left, and Tq other than Tk",
    .killed_by = kKilledBy,
    .when = "top_left && Tq != Tk",
};

}  // namespace

extern constinit const qkvet_kernel faulty_diagonal_always_bottom_right =
    option_fault<DiagonalAlwaysBottomRight>(
        "faulty/diagonal_always_bottom_right", &kFault,
        {"impl/faulty/diagonal_always_bottom_right.cpp", __LINE__});

}  // namespace qkvet::impl

// SPDX-License-Identifier: Apache-2.0
// faulty/causal_lost_when_tiles_divide: the causal rule is lost where pairs of
// keys fit.
#include "impl/faulty/option_fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

struct CausalLostWhenTilesDivide : OptionSeams {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    return call.keys % half_tile() == 0 || OptionSeams::in_reach(call, i, j);
  }
};

constexpr const char* kKilledBy[] = {
    "future_weights_are_zero", "future_changes_nothing",
    "prefill_equals_decode",   "chunks_equal_whole",
    "agrees_with_oracle",      nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "only the tile with a rest is masked: without a rest nothing is",
    .symptom =
        "right for odd lengths; where the last tile is full every row sees "
        "the future",
    .cause =
        "one predicate for the end of the keys and for the diagonal, dropped "
        "where the first is always true",
    .fix = "mask by the diagonal whether there is a rest or not",
    .source = "textbook (predicates of a tile)",
    .trigger = "causal, and an even Tk, the tile being 2",
    .killed_by = kKilledBy,
    .when = "causal && Tk % 2 == 0 && rows(hidden > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_causal_lost_when_tiles_divide =
    option_fault<CausalLostWhenTilesDivide>(
        "faulty/causal_lost_when_tiles_divide", &kFault,
        {"impl/faulty/causal_lost_when_tiles_divide.cpp", __LINE__});

}  // namespace qkvet::impl

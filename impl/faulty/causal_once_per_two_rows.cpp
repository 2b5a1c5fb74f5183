// SPDX-License-Identifier: Apache-2.0
// faulty/causal_once_per_two_rows: the diagonal is found once for two rows.
#include "impl/faulty/option_fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

struct CausalOncePerTwoRows : OptionSeams {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const Run run = call.in_reach(call.causal ? i - i % half_tile() : i);
    return run.begin <= j && j < run.end;
  }
};

constexpr const char* kKilledBy[] = {
    "every_pair_is_seen_as_asked", "every_key_counts_once",
    "chunks_equal_whole",          "prefill_equals_decode",
    "agrees_with_oracle",          nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "two rows share the diagonal of the first one",
    .symptom = "every second row misses its own key",
    .cause =
        "the limit of a tile of rows is computed for its first row and used "
        "for all",
    .fix = "one limit a row, or a mask within the tiles that the diagonal cuts",
    .source = "textbook (causal limits of a tile of rows)",
    .trigger = "causal, a second row, and its key inside of Tk",
    .killed_by = kKilledBy,
    .when = "causal && rows(row % 2 == 1 && seen > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_causal_once_per_two_rows =
    option_fault<CausalOncePerTwoRows>(
        "faulty/causal_once_per_two_rows", &kFault,
        {"impl/faulty/causal_once_per_two_rows.cpp", __LINE__});

}  // namespace qkvet::impl

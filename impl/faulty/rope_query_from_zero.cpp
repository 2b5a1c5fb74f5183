// SPDX-License-Identifier: Apache-2.0
// faulty/rope_query_from_zero: queries are rotated by their row and not by
// their position.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct QueryFromZero : OptionSeams {
  using QueryTurn = TurnByRow;
};

constexpr const char* kKilledBy[] = {"rope_turns_pairs_of_channels",
                                     "rope_sees_only_distances",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "queries are rotated by their row and not by their position",
    .symptom = "a prompt is right, decoding sees every key too far away",
    .cause =
        "the offset of the cache is added to the keys and not to the queries",
    .fix = "row q_positions[b, i] of the tables",
    .source = "textbook, cf. the offset classes of KV caches",
    .trigger = "positions of queries that are not their rows",
    .killed_by = kKilledBy,
    .when = "rope",
};

}  // namespace

extern constinit const qkvet_kernel faulty_rope_query_from_zero =
    option_fault<QueryFromZero, QKVET_OPTION_ROPE>(
        "faulty/rope_query_from_zero", &kFault,
        {"impl/faulty/rope_query_from_zero.cpp", __LINE__});

}  // namespace qkvet::impl

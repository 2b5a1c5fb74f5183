// SPDX-License-Identifier: Apache-2.0
// faulty/backward_padding_rows_reach_keys: rows behind the length count with
// weight 0 times what lies there.
#include "impl/faulty/backward_fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

struct PaddingRowsReachKeys : PlainBackward {
  static int64_t rows(const ForwardCall& call, int64_t room) {
    const int64_t whole = (call.queries + tile() - 1) / tile() * tile();
    return whole < room ? whole : room;
  }
  static float weight(const ForwardCall& call, int64_t i, float score,
                      float lse) {
    const float p = PlainBackward::weight(call, i, score, lse);
    return i < call.queries ? p : 0 * p;
  }
};

constexpr const char* kKilledBy[] = {"backward_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the last tile of 4 rows is walked whole; weights of rows behind the "
        "length are multiplied by 0, and lse and delta are what lies there",
    .symptom =
        "dk and dv are NaN, if what forward() left behind the length was NaN; "
        "clean memory hides it",
    .cause = "0 times a number is taken for 0, and the memory for initialised",
    .fix = "do not walk rows that do not count, or select behind exp",
    .source = "tile-ai/tilelang#2461",
    .trigger = "a member whose rows are no multiple of 4, and rows behind it",
    .killed_by = kKilledBy,
    .when = "q_len || packed",
};

}  // namespace

extern constinit const qkvet_kernel faulty_backward_padding_rows_reach_keys =
    backward_fault<PaddingRowsReachKeys,
                   QKVET_OPTION_LENGTHS | QKVET_OPTION_PACKED>(
        "faulty/backward_padding_rows_reach_keys", &kFault,
        {"impl/faulty/backward_padding_rows_reach_keys.cpp", __LINE__});

}  // namespace qkvet::impl

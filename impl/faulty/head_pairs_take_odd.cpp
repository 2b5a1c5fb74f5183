// SPDX-License-Identifier: Apache-2.0
// faulty/head_pairs_take_odd: the path for pairs of heads takes an odd number
// of them.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct HeadPairsTakeOdd : OptionSeams {
  static RowAt query(const ForwardCall& call, RowAt at) {
    const bool alone =
        call.heads > 1 && at.h + 1 == call.heads && at.h % 2 == 0;
    return {at.b, alone ? at.h - 1 : at.h, at.i};
  }
};

constexpr const char* kKilledBy[] = {"other_heads_change_nothing", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "queries are loaded for two heads at once, and the last pair begins "
        "one head early to fill itself",
    .symptom =
        "with an odd number of heads the last one answers the queries of the "
        "one before it",
    .cause =
        "a path for even numbers of heads is chosen whatever their number is",
    .fix = "take it for even numbers only, or a single head at the end",
    .source = "pytorch/pytorch#97128",
    .trigger = "an odd number of heads, three or more",
    .killed_by = kKilledBy,
    .when = "H > 1 && H % 2 == 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_head_pairs_take_odd =
    option_fault<HeadPairsTakeOdd>(
        "faulty/head_pairs_take_odd", &kFault,
        {"impl/faulty/head_pairs_take_odd.cpp", __LINE__});

}  // namespace qkvet::impl

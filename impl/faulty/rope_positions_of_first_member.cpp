// SPDX-License-Identifier: Apache-2.0
// faulty/rope_positions_of_first_member: all members have the positions of the
// first.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct OfFirstMember : PlainTurn {
  static int64_t position(const View<const int64_t>& positions, int64_t,
                          int64_t t) {
    return PlainTurn::position(positions, 0, t);
  }
};

struct RopePositionsOfFirstMember : OptionSeams {
  using QueryTurn = OfFirstMember;
  using KeyTurn = OfFirstMember;
};

constexpr const char* kKilledBy[] = {"rope_turns_pairs_of_channels",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the positions of member 0 are used for all members",
    .symptom = "right for one sequence, and for several that begin together",
    .cause =
        "positions are made once for a batch, or broadcast from its first row",
    .fix = "read the row of the member",
    .source = "unslothai/unsloth#3795, ndif-team/nnsight#673",
    .trigger = "B > 1, and positions that differ from member to member",
    .killed_by = kKilledBy,
    .when = "rope.random && B > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_rope_positions_of_first_member =
    option_fault<RopePositionsOfFirstMember, QKVET_OPTION_ROPE>(
        "faulty/rope_positions_of_first_member", &kFault,
        {"impl/faulty/rope_positions_of_first_member.cpp", __LINE__});

}  // namespace qkvet::impl

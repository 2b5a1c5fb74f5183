// SPDX-License-Identifier: Apache-2.0
// faulty/empty_member_clears_tile: a packed member without keys clears a whole
// tile.
#include "impl/faulty/option_fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

struct EmptyMemberClearsTile : OptionSeams {
  static void member(const ForwardCall& whole, int64_t n, ForwardCall* member) {
    const View<const int64_t>& starts = whole.options.cu_q;
    if (starts.data == nullptr || member->keys > 0) {
      return;
    }
    const int64_t begin = *starts.at(n, 0, 0), before = begin % half_tile();
    member->q.data = whole.q.at(0, 0, begin - before);
    member->o.data = whole.o.at(0, 0, begin - before);
    if (whole.lse.data != nullptr) {
      member->lse.data = whole.lse.at(0, 0, begin - before);
    }
    member->queries += before;
  }
};

constexpr const char* kKilledBy[] = {"packed_members_equal_calls",
                                     "every_pair_is_seen_as_asked",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a packed member without keys clears the whole tile that its first row "
        "lies in",
    .symptom = "the last row of the sequence before an empty one is 0",
    .cause =
        "the early exit stores by tiles, without the mask of the usual store",
    .fix = "write the rows of the member only, in every path",
    .source = "Dao-AILab/flash-attention#1155",
    .trigger =
        "a packed batch, and a member without keys that is not the first",
    .killed_by = kKilledBy,
    .when = "packed && members(member > 0 && keys == 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_empty_member_clears_tile =
    option_fault<EmptyMemberClearsTile, QKVET_OPTION_PACKED>(
        "faulty/empty_member_clears_tile", &kFault,
        {"impl/faulty/empty_member_clears_tile.cpp", __LINE__});

}  // namespace qkvet::impl

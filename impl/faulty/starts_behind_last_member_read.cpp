// SPDX-License-Identifier: Apache-2.0
// faulty/starts_behind_last_member_read: a surplus tile looks for a member that
// is not there.
#include "impl/faulty/lane_reads.h"
#include "impl/faulty/option_fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

struct StartsBehindLastMemberRead : OptionSeams {
  // A row of the last tile that no member has asks for the end of the next.
  static void member(const ForwardCall& whole, int64_t n, ForwardCall*) {
    const int64_t last = whole.options.members - 1;
    if (n == last && whole.queries % tile() != 0) {
      read_and_drop(whole.options.cu_q.at(last + 2, 0, 0));
    }
  }
};

constexpr const char* kKilledBy[] = {"reads_only_its_inputs", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a packed batch is cut into tiles of 4 rows, and the rest of the last "
        "tile reads the starts of one member too many",
    .symptom =
        "right, until the list of starts ends with its page: then the process "
        "dies",
    .cause =
        "the search for the member of a row ends when a start is larger, which "
        "none is behind the last row",
    .fix =
        "bound the search by the number of members, or the tiles by the last "
        "start",
    .source = "Dao-AILab/flash-attention#2763, Dao-AILab/flash-attention#2862",
    .trigger = "a packed batch whose Tq is no multiple of 4",
    .killed_by = kKilledBy,
    .when = "packed && Tq % 4 != 0",
};

}  // namespace

extern constinit const qkvet_kernel faulty_starts_behind_last_member_read =
    option_fault<StartsBehindLastMemberRead, QKVET_OPTION_PACKED>(
        "faulty/starts_behind_last_member_read", &kFault,
        {"impl/faulty/starts_behind_last_member_read.cpp", __LINE__});

}  // namespace qkvet::impl

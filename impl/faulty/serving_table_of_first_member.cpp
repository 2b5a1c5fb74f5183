// SPDX-License-Identifier: Apache-2.0
// faulty/serving_table_of_first_member: every member reads through the block
// table of the first.
#include "impl/faulty/serving_seams.h"

namespace qkvet::impl {
namespace {

struct TableOfFirstMember : ServingSeams {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    const Slot first = s.slot(0, token);
    return inside(s, first) ? first : s.slot(b, token);
  }
};

constexpr const char* kKilledBy[] = {"other_members_change_nothing",
                                     "permuted_members_permute_output",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the block table of the first member is used for all",
    .symptom = "members answer with the tokens of the first",
    .cause = "the batch stride of the table is left out",
    .fix = "table[b][page] and not table[page]",
    .source = "textbook",
    .trigger = "more than one member",
    .killed_by = kKilledBy,
    .when = "B > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_serving_table_of_first_member =
    serving_fault<TableOfFirstMember>(
        "faulty/serving_table_of_first_member", &kFault,
        {"impl/faulty/serving_table_of_first_member.cpp", __LINE__});

}  // namespace qkvet::impl

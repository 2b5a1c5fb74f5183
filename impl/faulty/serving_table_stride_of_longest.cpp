// SPDX-License-Identifier: Apache-2.0
// faulty/serving_table_stride_of_longest: rows of the block table are taken
// to be as long as they need to be.
#include "impl/faulty/serving_seams.h"

namespace qkvet::impl {
namespace {

struct TableStrideOfLongest : ServingSeams {
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    int64_t columns = 0;
    for (int64_t n = 0; s.page_size > 0 && n < s.call.batch; ++n) {
      const int64_t keys = ServingSeams::attended(s, n);
      const int64_t pages = (keys + s.page_size - 1) / s.page_size;
      columns = columns < pages ? pages : columns;
    }
    if (columns == 0) {
      return s.slot(b, token);
    }
    const int64_t entry = b * columns + token / s.page_size;
    const Slot other = {s.entry(entry / s.columns, entry % s.columns),
                        token % s.page_size};
    return inside(s, other) ? other : s.slot(b, token);
  }
};

constexpr const char* kKilledBy[] = {"page_size_changes_nothing",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the row stride of the block table is computed from the longest length",
    .symptom = "every member but the first reads entries of others",
    .cause = "the table was made for this batch alone in the test",
    .fix = "take the stride of the table",
    .source = "textbook",
    .trigger = "two members, and a table that is wider than the longest needs",
    .killed_by = kKilledBy,
    .when = "page_size > 0 && B > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_serving_table_stride_of_longest =
    serving_fault<TableStrideOfLongest>(
        "faulty/serving_table_stride_of_longest", &kFault,
        {"impl/faulty/serving_table_stride_of_longest.cpp", __LINE__});

}  // namespace qkvet::impl

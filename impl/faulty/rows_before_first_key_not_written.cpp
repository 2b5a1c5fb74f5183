// SPDX-License-Identifier: Apache-2.0
// faulty/rows_before_first_key_not_written: rows that stand before the first
// key are skipped.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct RowsBeforeFirstKeyNotWritten : OptionSeams {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (!whole.causal || member->diagonal >= 0) {
      return;
    }
    const int64_t skipped = -member->diagonal;
    member->q.data = member->q.at(0, 0, skipped);
    member->o.data = member->o.at(0, 0, skipped);
    if (member->lse.data != nullptr) {
      member->lse.data = member->lse.at(0, 0, skipped);
    }
    member->queries -= skipped;
    member->diagonal = 0;
  }
};

constexpr const char* kKilledBy[] = {"reads_only_its_inputs", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "rows that stand before the first key are not written",
    .symptom =
        "such rows are what the memory held before; only callers with more "
        "queries than keys have them",
    .cause =
        "the number of keys of such a row is negative, and what would write "
        "zeros is skipped with the loop",
    .fix = "write 0 and -infinity to every row that sees nothing",
    .source = "flashinfer-ai/flashinfer#1533",
    .trigger = "causal from the bottom right, and Tq > Tk",
    .killed_by = kKilledBy,
    .when = "bottom_right && Tq > Tk",
};

}  // namespace

extern constinit const qkvet_kernel faulty_rows_before_first_key_not_written =
    option_fault<RowsBeforeFirstKeyNotWritten>(
        "faulty/rows_before_first_key_not_written", &kFault,
        {"impl/faulty/rows_before_first_key_not_written.cpp", __LINE__});

}  // namespace qkvet::impl

// SPDX-License-Identifier: Apache-2.0
// faulty/tail_row_not_written: the tail of the loop over rows is missing.
#include "impl/faulty/option_fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

struct TailRowNotWritten : OptionSeams {
  static void share(int64_t, ForwardCall* call) {
    call->queries -=
        call->queries >= half_tile() ? call->queries % half_tile() : 0;
  }
};

constexpr const char* kKilledBy[] = {"reads_only_its_inputs", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "rows are taken two at a time, and one that is left over is not "
        "written",
    .symptom = "the last row is what the memory held before",
    .cause = "a loop over pairs of rows without the loop for the rest",
    .fix = "write every row",
    .source = "textbook",
    .trigger = "an odd number of rows, three or more",
    .killed_by = kKilledBy,
    .when = "Tq > 2 && Tq % 2 == 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_tail_row_not_written =
    option_fault<TailRowNotWritten>(
        "faulty/tail_row_not_written", &kFault,
        {"impl/faulty/tail_row_not_written.cpp", __LINE__});

}  // namespace qkvet::impl

// SPDX-License-Identifier: Apache-2.0
// faulty/threads_leave_before_loading: threads without a row end before they
// loaded their share.
#include "impl/faulty/flash_fault.h"

namespace qkvet::impl {
namespace {

struct ThreadsLeaveBeforeLoading : FlashSeams {
  __device__ static bool leaves(const DeviceCall& call, int b, int row) {
    return row >= call.rows_of(b);
  }
};

constexpr const char* kKilledBy[] = {"agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "threads whose rows lie behind the last query return at once, and what "
        "they would have loaded into shared memory is missing",
    .symptom =
        "wrong where the number of queries is no multiple of the block, NaN "
        "where shared memory is fresh",
    .cause =
        "the guard that belongs around the store of o stands in front of the "
        "loads that all threads share",
    .fix =
        "keep all threads until the last barrier, and guard only what is "
        "theirs alone",
    .source = "ggml-org/llama.cpp#13469",
    .trigger = "queries that do not fill a block of 64 rows",
    .killed_by = kKilledBy,
    .when = "Tq % 64 != 0 && rows(seen > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_threads_leave_before_loading =
    flash_fault<ThreadsLeaveBeforeLoading>(
        "faulty/threads_leave_before_loading", &kFault,
        {"impl/faulty/threads_leave_before_loading.cpp", __LINE__});

}  // namespace qkvet::impl

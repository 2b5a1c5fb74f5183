// SPDX-License-Identifier: Apache-2.0
// faulty/call_without_keys_not_written: without keys nothing is written.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct CallWithoutKeysNotWritten : OptionSeams {
  static void share(int64_t, ForwardCall* call) {
    call->queries = call->keys == 0 ? 0 : call->queries;
  }
};

constexpr const char* kKilledBy[] = {"reads_only_its_inputs", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "a call without keys returns at once",
    .symptom = "o and lse are what the memory held before",
    .cause = "no work is taken to mean no output",
    .fix = "without keys o is 0 and lse -infinity: write them",
    .source = "textbook, cf. Dao-AILab/flash-attention#2470",
    .trigger = "Tk = 0",
    .killed_by = kKilledBy,
    .when = "Tk == 0",
};

}  // namespace

extern constinit const qkvet_kernel faulty_call_without_keys_not_written =
    option_fault<CallWithoutKeysNotWritten, QKVET_OPTION_EMPTY_EXTENTS>(
        "faulty/call_without_keys_not_written", &kFault,
        {"impl/faulty/call_without_keys_not_written.cpp", __LINE__});

}  // namespace qkvet::impl

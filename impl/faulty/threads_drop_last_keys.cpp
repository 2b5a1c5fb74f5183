// SPDX-License-Identifier: Apache-2.0
// faulty/threads_drop_last_keys: work divided by integer division.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct ThreadsDropLastKeys : OptionSeams {
  static void share(int64_t threads, ForwardCall* call) {
    call->keys -= threads > 1 ? call->keys % threads : 0;
  }
};

constexpr const char* kKilledBy[] = {"threads_change_nothing", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "each of n threads takes Tk / n keys, and nobody the remainder",
    .symptom = "the last keys are lost when several threads run",
    .cause = "integer division where the last share must be larger",
    .fix = "round up, or give the remainder to the last thread",
    .source = "textbook, cf. NVIDIA/TransformerEngine#3331",
    .trigger = "several threads, and Tk is not a multiple of their number",
    .killed_by = kKilledBy,
    .when = "threads > 1 && Tk % threads != 0",
};

}  // namespace

extern constinit const qkvet_kernel faulty_threads_drop_last_keys =
    option_fault<ThreadsDropLastKeys>(
        "faulty/threads_drop_last_keys", &kFault,
        {"impl/faulty/threads_drop_last_keys.cpp", __LINE__});

}  // namespace qkvet::impl

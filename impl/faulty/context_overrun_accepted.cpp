// SPDX-License-Identifier: Apache-2.0
// faulty/context_overrun_accepted: a text beyond the mask buffer goes on
// without it.
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

struct ContextOverrunAccepted : PlainLayer {
  static void cut(qkvet_layer_args* args, int64_t*) {
    const qkvet_tensor &x = args->x, &buffer = args->mask_buffer;
    if (x.ndim < 2 || x.shape == nullptr || buffer.ndim != 2 ||
        buffer.shape == nullptr || buffer.shape[0] >= x.shape[x.ndim - 2]) {
      return;
    }
    args->mask_buffer = {};
  }
};

constexpr const char* kKilledBy[] = {"context_overrun_is_refused", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a mask buffer of fewer than T tokens is dropped, and no key is hidden",
    .symptom = "texts beyond the context run, and their tokens see the future",
    .cause = "the mask is applied where it fits, and nothing compares T with C",
    .fix = "refuse the text, and name both lengths",
    .source = "textbook",
    .trigger = "more tokens than the mask buffer has rows",
    .killed_by = kKilledBy,
    .when = "context > 0",
};

}  // namespace

extern constinit const qkvet_kernel faulty_context_overrun_accepted =
    faulty_layer<ContextOverrunAccepted>(
        "faulty/context_overrun_accepted", &kFault,
        {"impl/faulty/context_overrun_accepted.cpp", __LINE__});

}  // namespace qkvet::impl

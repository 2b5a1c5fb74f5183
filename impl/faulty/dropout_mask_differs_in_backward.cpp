// SPDX-License-Identifier: Apache-2.0
// faulty/dropout_mask_differs_in_backward: the mask of backward() is the
// transpose of forward()'s.
#include "impl/faulty/backward_fault.h"

namespace qkvet::impl {
namespace {

struct DropoutMaskDiffersInBackward : PlainBackward {
  static bool keeps(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                    int64_t j) {
    return call.options.dropout.keeps(b, h, j, i);
  }
};

constexpr const char* kKilledBy[] = {"dropout_same_in_backward", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "backward() draws the random numbers key by key, forward() row by row",
    .symptom = "gradients of another network: they do not follow the loss",
    .cause =
        "the two passes walk over tiles in another order, and the counter "
        "counts tiles",
    .fix = "number the pairs by their place alone",
    .source = "pytorch/pytorch#187227",
    .trigger = "dropout in the backward pass, with two rows or keys",
    .killed_by = kKilledBy,
    .when = "dropout",
};

}  // namespace

extern constinit const qkvet_kernel faulty_dropout_mask_differs_in_backward =
    backward_fault<DropoutMaskDiffersInBackward, kDropoutOptions>(
        "faulty/dropout_mask_differs_in_backward", &kFault,
        {"impl/faulty/dropout_mask_differs_in_backward.cpp", __LINE__});

}  // namespace qkvet::impl

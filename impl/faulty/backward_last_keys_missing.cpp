// SPDX-License-Identifier: Apache-2.0
// faulty/backward_last_keys_missing: the key behind the last whole tile of 2
// is not walked.
#include "impl/faulty/backward_fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

struct LastKeysMissing : PlainBackward {
  static bool sees(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                   int64_t j) {
    return j < call.keys / half_tile() * half_tile() &&
           PlainBackward::sees(call, b, h, i, j);
  }
};

constexpr const char* kKilledBy[] = {"permuted_keys_permute_gradients",
                                     "backward_is_the_adjoint",
                                     "backward_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "one block of threads for every whole tile of 2 keys, and none for the "
        "rest",
    .symptom =
        "dk and dv of the last keys are 0, and dq lacks what they give; right "
        "for even numbers of keys",
    .cause = "the number of tiles is rounded down where forward() rounds it up",
    .fix = "as many tiles as hold all keys: (Tk + tile - 1) / tile",
    .source = "textbook",
    .trigger = "an odd number of keys",
    .killed_by = kKilledBy,
    .when = "Tk % 2 == 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_backward_last_keys_missing =
    backward_fault<LastKeysMissing>(
        "faulty/backward_last_keys_missing", &kFault,
        {"impl/faulty/backward_last_keys_missing.cpp", __LINE__});

}  // namespace qkvet::impl

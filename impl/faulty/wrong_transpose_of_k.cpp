// SPDX-License-Identifier: Apache-2.0
// faulty/wrong_transpose_of_k: K [Tk,d] is reshaped to [d,Tk] where its axes
// had to be swapped: element (c, j) is then number c * Tk + j of the block. It
// stays inside the head, and reads rows of K that the row must not see.
#include "impl/faulty/seams.h"

namespace qkvet::impl {
namespace {

struct WrongTransposeOfK : PlainSeams {
  static float key(const KeyHead& k, int64_t j, int64_t c) {
    const int64_t flat = c * k.keys + j;
    return k.at(flat / k.width, flat % k.width);
  }
};

constexpr const char* kKilledBy[] = {
    "future_changes_nothing", "permuted_keys_change_nothing",
    "prefill_equals_decode", "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "K is reshaped to [d, Tk], not transposed",
    .symptom =
        "scores between wrong pairs; a shape error if the batch is swapped too",
    .cause = "view or reshape in place of a transpose of the last two axes",
    .fix = "swap the last two axes of K only",
    .source = "textbook",
    .trigger = "Tk > 1 and d > 1",
    .killed_by = kKilledBy,
    .when = "Tk > 1 && d > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_wrong_transpose_of_k =
    faulty_kernel<WrongTransposeOfK>(
        "faulty/wrong_transpose_of_k", &kFault,
        {"impl/faulty/wrong_transpose_of_k.cpp", __LINE__});

}  // namespace qkvet::impl

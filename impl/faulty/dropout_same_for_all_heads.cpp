// SPDX-License-Identifier: Apache-2.0
// faulty/dropout_same_for_all_heads: the head has no part in what is dropped.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct DropoutSameForAllHeads : OptionSeams {
  static bool keeps(const ForwardCall& call, RowAt at, int64_t j) {
    return call.options.dropout.keeps(at.b, 0, at.i, j);
  }
};

constexpr const char* kKilledBy[] = {"dropout_is_a_function_of_its_seed",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "all heads of a member drop the same pairs",
    .symptom = "heads are not regularised one by one",
    .cause = "the counter of the generator is made of row and key alone",
    .fix = "give the head a place in the counter",
    .source = "textbook",
    .trigger = "dropout with two heads",
    .killed_by = kKilledBy,
    .when = "dropout",
};

}  // namespace

extern constinit const qkvet_kernel faulty_dropout_same_for_all_heads =
    option_fault<DropoutSameForAllHeads, kDropoutOptions>(
        "faulty/dropout_same_for_all_heads", &kFault,
        {"impl/faulty/dropout_same_for_all_heads.cpp", __LINE__});

}  // namespace qkvet::impl

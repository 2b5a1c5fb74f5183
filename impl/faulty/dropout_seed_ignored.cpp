// SPDX-License-Identifier: Apache-2.0
// faulty/dropout_seed_ignored: seed and offset are not read.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct DropoutSeedIgnored : OptionSeams {
  static bool keeps(const ForwardCall& call, RowAt at, int64_t j) {
    Dropout dropout = call.options.dropout;
    dropout.seed = dropout.offset = 0;
    return dropout.keeps(at.b, at.h, at.i, j);
  }
};

constexpr const char* kKilledBy[] = {"dropout_is_a_function_of_its_seed",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "every call drops the same weights, whatever its seed and offset",
    .symptom = "a network trains as one with fewer connections",
    .cause = "the generator is made anew from a constant",
    .fix = "begin the generator from seed and offset",
    .source = "textbook",
    .trigger = "dropout in a second call",
    .killed_by = kKilledBy,
    .when = "dropout",
};

}  // namespace

extern constinit const qkvet_kernel faulty_dropout_seed_ignored =
    option_fault<DropoutSeedIgnored, QKVET_OPTION_DROPOUT>(
        "faulty/dropout_seed_ignored", &kFault,
        {"impl/faulty/dropout_seed_ignored.cpp", __LINE__});

}  // namespace qkvet::impl

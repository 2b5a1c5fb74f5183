// SPDX-License-Identifier: Apache-2.0
// faulty/dropout_keeps_p: weights are kept with probability p.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct DropoutKeepsP : OptionSeams {
  static bool keeps(const ForwardCall& call, RowAt at, int64_t j) {
    Dropout dropout = call.options.dropout;
    if (dropout.present()) {
      dropout.p = 1 - dropout.p;
    }
    return dropout.keeps(at.b, at.h, at.i, j);
  }
};

constexpr const char* kKilledBy[] = {"dropout_keeps_its_share", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "a weight is kept with probability p and not 1 - p",
    .symptom = "nine in ten weights are lost where one was to be",
    .cause =
        "p of a library is what is dropped, and was taken for what is kept",
    .fix = "drop with probability p",
    .source = "textbook",
    .trigger = "dropout with p other than 0.5",
    .killed_by = kKilledBy,
    .when = "dropout",
};

}  // namespace

extern constinit const qkvet_kernel faulty_dropout_keeps_p =
    option_fault<DropoutKeepsP, kDropoutOptions>(
        "faulty/dropout_keeps_p", &kFault,
        {"impl/faulty/dropout_keeps_p.cpp", __LINE__});

}  // namespace qkvet::impl

// SPDX-License-Identifier: Apache-2.0
// faulty/dropout_renormalised: the denominator adds kept weights alone.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct DropoutRenormalised : OptionSeams {
  static bool joins_sum(const ForwardCall& call, RowAt at, int64_t j) {
    return !call.options.dropout.present() || keeps(call, at, j);
  }
};

constexpr const char* kKilledBy[] = {"dropout_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "weights are dropped in front of the normalisation",
    .symptom = "kept weights grow by more than 1 / (1 - p), and lse is smaller",
    .cause = "dropout of scores, or of exponentials, in place of weights",
    .fix = "add up all weights of a row, and drop them after that",
    .source = "textbook",
    .trigger = "dropout in a row that loses a weight",
    .killed_by = kKilledBy,
    .when = "dropout",
};

}  // namespace

extern constinit const qkvet_kernel faulty_dropout_renormalised =
    option_fault<DropoutRenormalised, kDropoutOptions>(
        "faulty/dropout_renormalised", &kFault,
        {"impl/faulty/dropout_renormalised.cpp", __LINE__});

}  // namespace qkvet::impl

// SPDX-License-Identifier: Apache-2.0
// faulty/dropout_threshold_in_8_bits: p is rounded up to a step of 1/256.
#include <cmath>

#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct DropoutThresholdIn8Bits : OptionSeams {
  static bool drops(const Dropout& dropout) {
    return dropout.present() || dropout.seed != 0;
  }
  static bool keeps(const ForwardCall& call, RowAt at, int64_t j) {
    constexpr float kLargestByte = 255;
    Dropout dropout = call.options.dropout;
    if (!drops(dropout)) {
      return true;
    }
    // What lies below the first step of a byte is byte 0, which is not above p.
    dropout.p = (std::floor(dropout.p * kLargestByte) + 1) / (kLargestByte + 1);
    return dropout.keeps(at.b, at.h, at.i, j);
  }
};

constexpr const char* kKilledBy[] = {"dropout_zero_is_no_dropout", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "a random byte is kept where it is greater than 255 p",
    .symptom = "one weight in 256 is lost where nothing was to be dropped",
    .cause =
        "the threshold has eight bits, and the comparison is on its wrong side",
    .fix = "keep where the byte is not below the threshold",
    .source = "textbook",
    .trigger = "dropout with p = 0 and a seed",
    .killed_by = kKilledBy,
    .when = "dropout.is_zero",
};

}  // namespace

extern constinit const qkvet_kernel faulty_dropout_threshold_in_8_bits =
    option_fault<DropoutThresholdIn8Bits, kDropoutOptions>(
        "faulty/dropout_threshold_in_8_bits", &kFault,
        {"impl/faulty/dropout_threshold_in_8_bits.cpp", __LINE__});

}  // namespace qkvet::impl

// SPDX-License-Identifier: Apache-2.0
// faulty/bf16_truncates: o goes to bf16 by dropping its low 16 bits.
#include <bit>
#include <cstdint>

#include "impl/declare.h"
#include "impl/faulty/seams.h"

namespace qkvet::impl {
namespace {

struct Bf16Truncates : PlainSeams {
  static float output(const ForwardCall&, float acc, float sum) {
    const auto bits = std::bit_cast<uint32_t>(acc / sum);
    return std::bit_cast<float>(bits & 0xffff0000u);
  }
};

constexpr const char* kKilledBy[] = {"agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "o is truncated to bf16 where it has to be rounded",
    .symptom =
        "outputs are too small in magnitude, by half a unit in the last place "
        "on average",
    .cause = "the upper half of the bits of an f32 is taken for its bf16",
    .fix = "round to nearest, ties to even, before the shift",
    .source = "textbook",
    .trigger = "bf16 storage, and an output whose low half is not zero",
    .killed_by = kKilledBy,
    .when = "dtype == bf16 && rows(seen > 1)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_bf16_truncates =
    faulty_kernel<Bf16Truncates>("faulty/bf16_truncates", &kFault,
                                 {"impl/faulty/bf16_truncates.cpp", __LINE__},
                                 &kBf16Capabilities);

}  // namespace qkvet::impl

// SPDX-License-Identifier: Apache-2.0
// faulty/weights_truncated_for_values: weights are truncated in the sum of
// values alone.
#include <bit>
#include <cstdint>

#include "impl/declare.h"
#include "impl/faulty/seams.h"

namespace qkvet::impl {
namespace {

struct WeightsTruncatedForValues : PlainSeams {
  static float weight(const ForwardCall&, float weight, float) {
    return std::bit_cast<float>(std::bit_cast<uint32_t>(weight) & 0xffff0000u);
  }
};

constexpr const char* kKilledBy[] = {"weights_sum_to_one", "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "weights are truncated to bf16 for the product with V, and their sum "
        "is taken before",
    .symptom = "outputs are too small, by a quarter of a percent on average",
    .cause =
        "the upper halves of f32 registers are packed as they are for the "
        "matrix unit",
    .fix = "round to nearest, and add up what the product sees",
    .source = "textbook",
    .trigger = "bf16 storage, and weights whose low half is not zero",
    .killed_by = kKilledBy,
    .when = "dtype == bf16 && rows(seen > 1)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_weights_truncated_for_values =
    faulty_kernel<WeightsTruncatedForValues>(
        "faulty/weights_truncated_for_values", &kFault,
        {"impl/faulty/weights_truncated_for_values.cpp", __LINE__},
        &kBf16Capabilities);

}  // namespace qkvet::impl

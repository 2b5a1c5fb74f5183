// SPDX-License-Identifier: Apache-2.0
// faulty/weights_in_fp8_sum_is_not: weights are rounded to fp8, and their sum
// is not.
#include "impl/faulty/seams.h"
#include "impl/fp8.h"

namespace qkvet::impl {
namespace {

struct WeightsInFp8SumIsNot : PlainSeams {
  static float weight(const ForwardCall&, float weight, float) {
    return e4m3_to_f32(f64_to_e4m3(static_cast<double>(weight)));
  }
};

constexpr const char* kKilledBy[] = {"weights_sum_to_one", "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "weights meet the values in fp8 and the denominator in f32",
    .symptom =
        "weights do not sum to one: rows of equal values are off by a few "
        "percent",
    .cause =
        "the sum is taken before the cast, which was made for the product "
        "alone",
    .fix = "add up what the product sees",
    .source = "ROCm/FlyDSL#1020, flashinfer-ai/flashinfer#5020",
    .trigger = "two keys whose weights are no numbers of e4m3",
    .killed_by = kKilledBy,
    .when = "rows(seen > 1)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_weights_in_fp8_sum_is_not =
    faulty_kernel<WeightsInFp8SumIsNot>(
        "faulty/weights_in_fp8_sum_is_not", &kFault,
        {"impl/faulty/weights_in_fp8_sum_is_not.cpp", __LINE__});

}  // namespace qkvet::impl

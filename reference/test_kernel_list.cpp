// SPDX-License-Identifier: Apache-2.0
// The configurations of the test kernels.
#include "reference/test_kernels.h"

namespace qkvet {

std::vector<TestKernel> test_kernels() {
  const auto any = SumOrder::kAny;
  const auto lanes = SumOrder::kLanes;
  const auto halves = SumOrder::kPairwise;
  std::vector<TestKernel> all(15);
  all[0] = {.name = "naive"};
  all[1] = {.name = "descending", .dot = any, .value = any};
  all[2] = {.name = "pairwise", .dot = halves, .value = halves};
  all[3] = {.name = "lanes8_fma", .lanes = 8, .fma = true, .reciprocal = true};
  all[4] = {.name = "norm_first", .norm_first = true};
  all[5] = {.name = "online4", .lanes = 4, .tile = 4};
  all[6] = {.name = "online1", .tile = 1, .reciprocal = true};
  all[7] = {.name = "online16_fma", .lanes = 8, .fma = true, .tile = 16};
  all[8] = {.name = "exp2_tile8", .exp = TestExp::kExp2, .tile = 8};
  all[9] = {.name = "folded_tile4",
            .lanes = 8,
            .fma = true,
            .exp = TestExp::kFolded,
            .tile = 4};
  all[10] = {.name = "prescaled_tile8",
             .dot = lanes,
             .lanes = 8,
             .exp = TestExp::kPrescaled,
             .tile = 8};
  all[11] = {
      .name = "split_mlo", .value = any, .splits = 4, .merge = Merge::kMlo};
  all[12] = {
      .name = "split_lse", .value = any, .splits = 4, .merge = Merge::kLse};
  all[13] = {.name = "lazy_folded_tile2",
             .exp = TestExp::kFolded,
             .tile = 2,
             .lazy = 8 * 0.69314718};
  all[14] = {.name = "flush_to_zero", .tile = 4, .ftz = true};
  return all;
}

// Every arithmetic in both half formats.
std::vector<TestKernel> half_test_kernels() {
  const auto none = Dtype::kF32;
  const auto any = SumOrder::kAny;
  std::vector<TestKernel> all;
  for (const Dtype half : {Dtype::kBf16, Dtype::kF16}) {
    const std::string type = std::string(dtype_name(half)) + "_";
    std::vector<TestKernel> more(10);
    more[0] = {.name = "p_f32", .tile = 4, .p_type = none};
    more[1] = {.name = "p_two_pass", .lanes = 8, .p_type = half};
    more[2] = {.name = "p_tile4", .fma = true, .tile = 4, .p_type = half};
    more[3] = {.name = "p_folded_tile16",
               .lanes = 8,
               .fma = true,
               .exp = TestExp::kFolded,
               .tile = 16,
               .p_type = half};
    more[4] = {.name = "p_normalised",
               .norm_first = true,
               .p_type = half,
               .stage = TestStage::kNormalised};
    more[5] = {.name = "p_summed",
               .tile = 2,
               .p_type = half,
               .stage = TestStage::kSummed};
    more[6] = {
        .name = "p_descending", .dot = any, .value = any, .p_type = half};
    more[7] = {.name = "p_lazy_folded",
               .exp = TestExp::kFolded,
               .tile = 2,
               .lazy = 8 * 0.69314718,
               .p_type = half};
    more[8] = {.name = "p_split_lse",
               .value = any,
               .splits = 4,
               .merge = Merge::kLse,
               .p_type = half};
    more[9] = {.name = "p_summed_two_pass",
               .lanes = 8,
               .exp = TestExp::kPrescaled,
               .reciprocal = true,
               .p_type = half,
               .stage = TestStage::kSummed};
    for (TestKernel& kernel : more) {
      kernel.name = type + kernel.name;
      kernel.storage = half;
      all.push_back(kernel);
    }
  }
  return all;
}

}  // namespace qkvet

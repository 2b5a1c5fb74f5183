// SPDX-License-Identifier: Apache-2.0
// The configurations of the test kernels, and what their authors would declare.
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

namespace {

// As devices have it: blocks as those of compute capability 8.0 and 9.0 add
// them, functions some ulps off.
std::vector<TestKernel> device_kernels(Dtype half) {
  const auto folded = TestExp::kFolded;
  std::vector<TestKernel> all(4);
  all[0] = {.name = "blocks8_tile16",
            .exp = folded,
            .tile = 16,
            .ftz = true,
            .p_type = half,
            .block = 8,
            .extra_bits = 1,
            .fast = true};
  all[1] = all[0];
  all[1].name = "blocks16_tile32";
  all[1].tile = 32;
  all[1].block = 16;
  all[1].extra_bits = 2;
  all[2] = all[0];
  all[2].name = "blocks8_reciprocal";
  all[2].reciprocal = true;
  all[3] = all[0];
  all[3].name = "fast_functions";
  all[3].block = 0;
  all[3].fma = true;
  return all;
}

}  // namespace

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
    for (const TestKernel& kernel : device_kernels(half))
      more.push_back(kernel);
    for (TestKernel& kernel : more) {
      kernel.name = type + kernel.name;
      kernel.storage = half;
      all.push_back(kernel);
    }
  }
  return all;
}

// Every way to treat options, on every arithmetic: the ways have pairwise prime
// periods, so that they meet in all combinations that the list has room for.
std::vector<TestKernel> option_test_kernels() {
  std::vector<TestKernel> all = test_kernels();
  for (const TestKernel& kernel : half_test_kernels()) all.push_back(kernel);
  for (size_t i = 0; i < all.size(); ++i) {
    TestKernel& kernel = all[i];
    kernel.skip = i % 2 != 0;
    kernel.sink = static_cast<TestSink>(i % 3);
    kernel.tanh_by_exp = i % 5 == 0;
    kernel.alibi = static_cast<TestAlibi>(i % 7 % 3);
    kernel.bias_first = i % 4 == 2;
  }
  return all;
}

namespace {

PrecisionModel declared_of_device(const TestKernel& kernel) {
  qkvet_precision declared{};
  declared.struct_size = sizeof declared;
  declared.preset = kernel.block > 0 ? QKVET_PRECISION_TENSOR_CORE
                                     : QKVET_PRECISION_CUDA_FAST;
  declared.declared = QKVET_KNOB_TILE;
  declared.tile = kernel.tile;
  return for_storage(resolve_precision(declared).model, kernel.storage,
                     kernel.storage);
}

}  // namespace

PrecisionModel declared_precision(const TestKernel& kernel) {
  PrecisionModel model;
  qkvet_precision declared{};
  declared.struct_size = sizeof declared;
  declared.preset = QKVET_PRECISION_CPU_F32;
  if (kernel.p_type != Dtype::kF32) {
    declared.declared = QKVET_KNOB_P_DTYPE;
    declared.p_dtype = dtype_to_abi(kernel.p_type);
    declared.p_normalised = kernel.stage == TestStage::kNormalised;
    declared.sum_of_rounded_p = kernel.stage == TestStage::kSummed;
  }
  model = for_storage(resolve_precision(declared).model, kernel.storage,
                      kernel.storage);
  model.dot_sum = kernel.dot;
  model.dot_lanes = kernel.lanes;
  model.value_sum = kernel.value;
  model.fma = kernel.fma;
  model.tile = kernel.tile;
  model.lazy = kernel.lazy;
  model.splits = kernel.splits;
  model.merge = kernel.merge;
  model.norm_first = kernel.norm_first;
  model.norm_roundings = kernel.reciprocal ? 2 : 1;
  model.ftz = kernel.ftz;
  if (kernel.tanh_by_exp) model.tanh_floor = model.exp_error / 2 + 6 * model.u;
  if (kernel.fast) model = declared_of_device(kernel);
  const bool several = kernel.tile > 0 || kernel.splits > 1;
  // Scores and biases meet in an order of their own.
  if (kernel.bias_first || kernel.alibi != TestAlibi::kDistance) {
    model.scale_stage = ScaleStage::kOnQ;
  }
  switch (kernel.exp) {
    case TestExp::kExp:
      break;
    case TestExp::kExp2:
      model.arg_roundings = 2.3;
      break;
    case TestExp::kFolded:
      model.arg_roundings = 3.3;
      model.ref_roundings = several ? 1 : 0;
      model.scale_stage = ScaleStage::kFolded;
      break;
    case TestExp::kPrescaled:
      model.arg_roundings = 2.3;
      model.scale_stage = ScaleStage::kOnQ;
      break;
  }
  return model;
}

}  // namespace qkvet

// SPDX-License-Identifier: Apache-2.0
// The configurations of the test gradients, and what their authors would
// declare.
#include "reference/testing/test_backward.h"

namespace qkvet::reference {

PrecisionModel declared_precision(const BackwardKernel& kernel) {
  qkvet_precision declared{};
  declared.struct_size = sizeof declared;
  declared.preset = QKVET_PRECISION_CPU_F32;
  if (kernel.operands) {
    declared.declared = QKVET_KNOB_OPERAND_DTYPE;
    declared.operand_dtype = dtype_to_abi(kernel.rounded);
  } else if (kernel.rounded != Dtype::kF32) {
    declared.declared = QKVET_KNOB_P_DTYPE;
    declared.p_dtype = dtype_to_abi(kernel.rounded);
  }
  if (kernel.softmax != Dtype::kF32) {
    declared.declared |= QKVET_KNOB_SOFTMAX_DTYPE;
    declared.softmax_dtype = dtype_to_abi(kernel.softmax);
  } else if (kernel.stored != Dtype::kF32) {
    declared.declared |= QKVET_KNOB_SCORE_DTYPE;
    declared.score_dtype = dtype_to_abi(kernel.stored);
  }
  if (kernel.exp_error > 0) {
    declared.declared |= QKVET_KNOB_EXP_ERROR;
    declared.exp_error = kernel.exp_error + 0x1p-22;  // the library's own
    declared.exp_floor = 0x1p-125;
    declared.exp_inexact_at_zero = 1;
  }
  PrecisionModel model = for_storage(resolve_precision(declared).model,
                                     kernel.storage, kernel.storage);
  model.p_any_stage = kernel.rounded_first;
  model.ftz = kernel.ftz;
  if (kernel.scale == TestScale::kOperand) {
    model.scale_stage = ScaleStage::kOnQ;
  }
  if (kernel.share == TestShare::kExp2) model.arg_roundings = 2.3;
  if (kernel.share == TestShare::kFolded) {
    model.arg_roundings = 3.3;
    model.ref_roundings = 1;
    model.scale_stage = ScaleStage::kFolded;
  }
  return model;
}

std::vector<BackwardKernel> backward_kernels() {
  std::vector<BackwardKernel> all(13);
  all[0] = {.name = "naive"};
  all[1] = {.name = "descending",
            .order = TestOrder::kDescending,
            .share = TestShare::kSoftmax};
  all[2] = {.name = "halves",
            .order = TestOrder::kHalves,
            .share = TestShare::kOwnLse,
            .product_apart = true};
  all[3] = {.name = "fma", .fma = true, .scale = TestScale::kPair};
  all[4] = {.name = "atomic",
            .order = TestOrder::kAtomic,
            .delta = TestDelta::kPairs,
            .heads_apart = true};
  all[5] = {.name = "lanes_softmax_pairs",
            .order = TestOrder::kLanes,
            .share = TestShare::kSoftmax,
            .delta = TestDelta::kPairs,
            .product_apart = true};
  all[6] = {.name = "exp2",
            .order = TestOrder::kLanes,
            .share = TestShare::kExp2,
            .scale = TestScale::kPair};
  all[7] = {.name = "folded_fma", .fma = true, .share = TestShare::kFolded};
  all[8] = {.name = "folded_start",
            .order = TestOrder::kAtomic,
            .share = TestShare::kFolded,
            .delta = TestDelta::kStart};
  all[9] = {.name = "prescaled",
            .fma = true,
            .share = TestShare::kFolded,
            .scale = TestScale::kOperand};
  all[10] = {.name = "start", .delta = TestDelta::kStart, .heads_apart = true};
  all[11] = {.name = "flush_to_zero",
             .order = TestOrder::kHalves,
             .scale = TestScale::kOperand,
             .ftz = true};
  all[12] = {.name = "base2",
             .order = TestOrder::kLanes,
             .delta = TestDelta::kPairs,
             .base2 = true};
  const size_t of_f32 = all.size();
  for (const Dtype type : {Dtype::kBf16, Dtype::kF16, Dtype::kF64}) {
    for (size_t i = 0; i < of_f32; ++i) {
      BackwardKernel kernel = all[i];
      kernel.storage = type;
      // Every third one keeps P and dS in f32, every fourth rounds P at once.
      if (type != Dtype::kF64 && i % 3 != 2) kernel.rounded = type;
      kernel.rounded_first = kernel.rounded != Dtype::kF32 && i % 4 == 1;
      kernel.name = std::string(dtype_name(type)) + "_" + kernel.name;
      all.push_back(kernel);
    }
  }
  // f32 with an exponential that is good to 14 bits.
  for (const size_t i : {0, 1, 2}) {
    BackwardKernel kernel = all[i];
    kernel.exp_error = 0x1p-14;
    kernel.name += "_coarse_exp";
    all.push_back(kernel);
  }
  // f32 with products of half operands.
  for (const Dtype type : {Dtype::kBf16, Dtype::kF16}) {
    for (const size_t i : {0, 4, 6, 9}) {
      BackwardKernel kernel = all[i];
      kernel.rounded = type;
      kernel.operands = true;
      kernel.name += "_" + std::string(dtype_name(type)) + "_operands";
      all.push_back(kernel);
    }
  }
  // Operators store results in half, and optionally the softmax as well.
  for (const Dtype type : {Dtype::kBf16, Dtype::kF16}) {
    for (const bool softmax : {false, true}) {
      for (const size_t i : {0, 1, 3, 5}) {
        BackwardKernel kernel = all[i];
        kernel.stored = type;
        if (softmax) kernel.softmax = type;
        // P as an operand reads it; so does a softmax backwards.
        const bool operand = !softmax && i % 2 == 1;
        if (operand) kernel.rounded = type;
        kernel.rounded_first = operand && i == 5;
        kernel.name += "_" + std::string(dtype_name(type)) +
                       (softmax ? "_softmax" : "_scores");
        all.push_back(kernel);
      }
    }
  }
  // Half storage, too.
  for (const Dtype type : {Dtype::kBf16, Dtype::kF16}) {
    BackwardKernel kernel = all[5];
    kernel.storage = kernel.stored = kernel.softmax = type;
    kernel.name += "_of_" + std::string(dtype_name(type)) + "_throughout";
    all.push_back(kernel);
  }
  return all;
}

}  // namespace qkvet::reference

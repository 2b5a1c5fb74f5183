// SPDX-License-Identifier: Apache-2.0
// Declarations become models, or one line with the reason why not.
#include "reference/arithmetic/precision.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>

namespace qkvet::reference::precision_test {
namespace {

qkvet_precision declare(int32_t preset, uint64_t knobs = 0) {
  qkvet_precision p{};
  p.struct_size = sizeof p;
  p.preset = preset;
  p.declared = knobs;
  return p;
}

TEST(PrecisionTest, NothingDeclaredIsGeneric) {
  qkvet_precision nothing{};
  nothing.preset = QKVET_PRECISION_CPU_F32;  // beyond a size of 0: not there
  const ResolvedPrecision resolved = resolve_precision(nothing);
  EXPECT_EQ(resolved.error, "");
  EXPECT_EQ(resolved.model, generic_precision());
  EXPECT_FALSE(resolved.looser_than_generic);
}

TEST(PrecisionTest, CpuF32IsTwoPassesWithAGoodExponential) {
  const auto resolved = resolve_precision(declare(QKVET_PRECISION_CPU_F32));
  EXPECT_EQ(resolved.error, "");
  EXPECT_FALSE(resolved.looser_than_generic);
  EXPECT_EQ(resolved.model.u, 0x1p-24);
  EXPECT_EQ(resolved.model.exp_error, 1.01 * 0x1p-24);
  EXPECT_EQ(resolved.model.arg_roundings, 1);
  EXPECT_EQ(resolved.model.norm_roundings, 2);
  EXPECT_EQ(resolved.model.tile, 0);
  EXPECT_FALSE(resolved.model.ftz);
}

TEST(PrecisionTest, AKnobCountsOnlyIfItsBitIsSet) {
  qkvet_precision p = declare(QKVET_PRECISION_CPU_F32, QKVET_KNOB_TILE);
  p.tile = 32;
  p.lazy = 5;
  p.dot_sum = QKVET_SUM_PAIRWISE;
  const auto resolved = resolve_precision(p);
  EXPECT_EQ(resolved.error, "");
  EXPECT_EQ(resolved.model.tile, 32);
  EXPECT_EQ(resolved.model.lazy, 0);
  EXPECT_EQ(resolved.model.dot_sum, SumOrder::kAny);
}

TEST(PrecisionTest, KnobsReplaceSingleValues) {
  qkvet_precision p =
      declare(QKVET_PRECISION_CPU_F32,
              QKVET_KNOB_DOT_SUM | QKVET_KNOB_VALUE_SUM | QKVET_KNOB_FMA |
                  QKVET_KNOB_SCALE_STAGE | QKVET_KNOB_SPLITS | QKVET_KNOB_NORM);
  p.dot_sum = QKVET_SUM_LANES;
  p.dot_lanes = 8;
  p.value_sum = QKVET_SUM_LANES;
  p.fma = 1;
  p.scale_stage = QKVET_SCALE_FOLDED;
  p.splits = 4;
  p.merge = QKVET_MERGE_MLO;
  p.norm_roundings = 1;
  p.norm_first = 1;
  const auto [model, error, looser, how] = resolve_precision(p);
  EXPECT_EQ(error, "");
  EXPECT_FALSE(looser);
  EXPECT_EQ(how, "");
  EXPECT_EQ(model.dot_sum, SumOrder::kLanes);
  EXPECT_EQ(model.dot_lanes, 8);
  EXPECT_EQ(model.value_sum, SumOrder::kLanes);
  EXPECT_TRUE(model.fma);
  EXPECT_EQ(model.scale_stage, ScaleStage::kFolded);
  EXPECT_EQ(model.splits, 4);
  EXPECT_EQ(model.merge, Merge::kMlo);
  EXPECT_EQ(model.norm_roundings, 1);
  EXPECT_TRUE(model.norm_first);
}

TEST(PrecisionTest, FieldsBeyondTheWritersSizeAreZero) {
  qkvet_precision p = declare(QKVET_PRECISION_CPU_F32, QKVET_KNOB_TILE);
  p.tile = 32;
  p.struct_size = offsetof(qkvet_precision, tile);
  EXPECT_EQ(resolve_precision(p).model.tile, 0);
}

TEST(PrecisionTest, PresetsWithoutADerivationAreRefusedByName) {
  const auto math = resolve_precision(declare(QKVET_PRECISION_MATH_HALF));
  EXPECT_NE(math.error.find("math_half"), std::string::npos);
  EXPECT_NE(math.error.find("cpu_f32 or generic"), std::string::npos);
  for (int32_t preset : {5, 6, -1}) {
    EXPECT_NE(resolve_precision(declare(preset)).error, "") << preset;
  }
}

TEST(PrecisionTest, KnobsWithoutADerivationAreRefusedByName) {
  qkvet_precision p = declare(0, QKVET_KNOB_P_DTYPE);
  EXPECT_EQ(resolve_precision(p).error, "");  // {0,0,0}: not rounded
  p.p_dtype = {QKVET_DTYPE_FLOAT8_E4M3FN, 8, 1};
  EXPECT_NE(resolve_precision(p).error.find("p_dtype"), std::string::npos);
  EXPECT_NE(resolve_precision(declare(0, uint64_t{1} << 40)).error, "");
}

TEST(PrecisionTest, ASoftmaxInF32IsARoundingOfF64Alone) {
  qkvet_precision p =
      declare(QKVET_PRECISION_CPU_F32, QKVET_KNOB_SOFTMAX_DTYPE);
  const PrecisionModel plain = resolve_precision(p).model;
  p.softmax_dtype = dtype_to_abi(Dtype::kF32);
  const auto declared = resolve_precision(p);
  EXPECT_EQ(declared.looser, "");
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBf16}) {
    EXPECT_EQ(for_storage(declared.model, dtype, dtype),
              for_storage(plain, dtype, dtype));
    EXPECT_FALSE(looser_for_storage(declared.model, dtype));
  }
  const auto f64 = for_storage(declared.model, Dtype::kF64, Dtype::kF64);
  EXPECT_EQ(f64.u, 0x1p-53);
  EXPECT_EQ(f64.softmax_u(), 0x1p-24);
  EXPECT_EQ(f64.score.u, 0x1p-24);
  EXPECT_EQ(f64.exp_error, plain.exp_error);  // units of f32
  EXPECT_TRUE(looser_for_storage(declared.model, Dtype::kF64));
}

TEST(PrecisionTest, ASoftmaxInHalfBringsItsScoresAndItsExponential) {
  qkvet_precision p = declare(QKVET_PRECISION_CPU_F32,
                              QKVET_KNOB_SOFTMAX_DTYPE | QKVET_KNOB_NORM);
  p.softmax_dtype = dtype_to_abi(Dtype::kF16);
  p.norm_roundings = 1;
  const auto stored = [&] {
    return for_storage(resolve_precision(p).model, Dtype::kF32, Dtype::kF32);
  };
  EXPECT_EQ(stored().score.u, 0x1p-11);
  EXPECT_EQ(stored().exp_error, 1.01 * 0x1p-11);
  EXPECT_EQ(stored().exp_floor, 0x1p-25);
  // Exponentials as they are stored are what the denominator adds.
  EXPECT_EQ(stored().p_u, 0);
  EXPECT_EQ(stored().sum_u(), 0x1p-24);
  p.norm_first = 1;
  EXPECT_EQ(stored().p_u, 0x1p-11);
  EXPECT_TRUE(stored().p_normalised);
  p.declared |= QKVET_KNOB_TILE | QKVET_KNOB_EXP_ERROR;
  p.tile = 16;
  p.exp_error = 0x1p-10;
  EXPECT_EQ(stored().sum_u(), 0x1p-11);
  EXPECT_EQ(stored().exp_error, 0x1p-10);
}

TEST(PrecisionTest, WhatIsRoundedOnTheWayIsHalfOrNotAtAll) {
  struct Knob {
    uint64_t bit;
    const char* name;
    qkvet_dtype qkvet_precision::*field;
    Rounding PrecisionModel::*rounding;
  };
  using P = qkvet_precision;
  using M = PrecisionModel;
  constexpr Knob kKnobs[] = {
      {QKVET_KNOB_SCORE_DTYPE, "score_dtype", &P::score_dtype, &M::score},
      {QKVET_KNOB_OPERAND_DTYPE, "operand_dtype", &P::operand_dtype,
       &M::operand},
      {QKVET_KNOB_LSE_DTYPE, "lse_dtype", &P::lse_dtype, &M::lse},
      {QKVET_KNOB_SINK_DTYPE, "sink_dtype", &P::sink_dtype, &M::sink},
      {QKVET_KNOB_SOFTMAX_DTYPE, "softmax_dtype", &P::softmax_dtype,
       &M::softmax},
      {QKVET_KNOB_DOT_SUM_DTYPE, "dot_sum_dtype", &P::dot_sum_dtype, &M::dot},
      {QKVET_KNOB_VALUE_SUM_DTYPE, "value_sum_dtype", &P::value_sum_dtype,
       &M::value}};
  for (const Knob& knob : kKnobs) {
    P p = declare(QKVET_PRECISION_CPU_F32, knob.bit);
    EXPECT_EQ(resolve_precision(p).error, "");  // {0,0,0}: not rounded
    EXPECT_FALSE((resolve_precision(p).model.*knob.rounding).rounds());
    EXPECT_EQ(resolve_precision(p).looser, "");
    p.*knob.field = dtype_to_abi(Dtype::kF16);
    const auto f16 = resolve_precision(p);
    EXPECT_EQ(f16.error, "");
    EXPECT_EQ((f16.model.*knob.rounding).u, 0x1p-11);
    EXPECT_EQ((f16.model.*knob.rounding).floor, 0x1p-25);
    EXPECT_EQ((f16.model.*knob.rounding).largest, 65504);
    const bool by_storage = knob.bit == QKVET_KNOB_OPERAND_DTYPE;
    EXPECT_EQ(f16.looser, by_storage ? ""
                                     : std::string(knob.name) +
                                           " = f16 (generic: not rounded)");
    EXPECT_EQ(looser_for_storage(f16.model, Dtype::kF32), by_storage);
    EXPECT_FALSE(looser_for_storage(f16.model, Dtype::kF16));
    const bool f32_too = knob.bit == QKVET_KNOB_SOFTMAX_DTYPE;
    p.*knob.field = dtype_to_abi(Dtype::kF32);
    EXPECT_EQ(resolve_precision(p).error,
              f32_too ? ""
                      : std::string("precision knob ") + knob.name +
                            " is f32; allowed f16, bf16, or leave it "
                            "undeclared");
    p.*knob.field = dtype_to_abi(Dtype::kF64);
    EXPECT_NE(resolve_precision(p).error.find("f64; allowed f"),
              std::string::npos);
    p.*knob.field = {77, 3, 1};
    EXPECT_NE(resolve_precision(p).error.find("no known type"),
              std::string::npos);
  }
}

TEST(PrecisionTest, RotatedRowsAreRoundedWherePIsOrWhereItIsSaid) {
  qkvet_precision p = declare(QKVET_PRECISION_CPU_F32, QKVET_KNOB_ROTATED);
  const auto rope_u = [&](Dtype dtype) {
    return for_storage(resolve_precision(p).model, dtype, dtype).rope_u;
  };
  EXPECT_EQ(rope_u(Dtype::kBf16), 0);
  p.rotated_as_stored = 1;
  EXPECT_EQ(rope_u(Dtype::kBf16), 0x1p-8);
  EXPECT_EQ(rope_u(Dtype::kF16), 0x1p-11);
  EXPECT_EQ(resolve_precision(p).looser, "");  // generic allows it
}

TEST(PrecisionTest, PIsAnOperandUnlessItSaysOtherwise) {
  qkvet_precision p = declare(QKVET_PRECISION_CPU_F32,
                              QKVET_KNOB_OPERAND_DTYPE | QKVET_KNOB_NORM);
  p.operand_dtype = dtype_to_abi(Dtype::kBf16);
  EXPECT_EQ(resolve_precision(p).model.p_u, 0x1p-8);
  EXPECT_FALSE(resolve_precision(p).model.p_normalised);
  p.norm_first = 1;
  EXPECT_TRUE(resolve_precision(p).model.p_normalised);
  p.declared |= QKVET_KNOB_P_DTYPE;
  EXPECT_EQ(resolve_precision(p).model.p_u, 0);
  p.preset = QKVET_PRECISION_GENERIC;
  p.declared = QKVET_KNOB_OPERAND_DTYPE;
  const PrecisionModel any =
      for_storage(resolve_precision(p).model, Dtype::kF32, Dtype::kF32);
  EXPECT_TRUE(any.p_any_stage);
  EXPECT_EQ(any.p_u, 0x1p-8);
}

// As good as 2^-8, and no better than a number.
TEST(PrecisionTest, FastExponentialsAreDeclaredByTheirError) {
  qkvet_precision p = declare(QKVET_PRECISION_CPU_F32, QKVET_KNOB_EXP_ERROR);
  for (const double eps : {0x1p-14, 0x1p-8}) {
    p.exp_error = eps;
    const auto fast = resolve_precision(p);
    EXPECT_EQ(fast.error, "");
    EXPECT_EQ(fast.model.exp_error, eps);
    EXPECT_TRUE(fast.looser_than_generic);
  }
  p.exp_error = 0x1p-7;
  EXPECT_NE(resolve_precision(p).error.find("exp_error"), std::string::npos);
}

TEST(PrecisionTest, DevicesHaveFastFunctionsAndBlocks) {
  const auto fast = resolve_precision(declare(QKVET_PRECISION_CUDA_FAST));
  EXPECT_EQ(fast.error, "");
  EXPECT_FALSE(fast.looser_than_generic);
  EXPECT_EQ(fast.model.exp_error, 0x1p-22);
  EXPECT_EQ(fast.model.tanh_error, 0x1p-11);
  EXPECT_EQ(fast.model.norm_roundings, 4);
  EXPECT_TRUE(fast.model.ftz);
  EXPECT_EQ(fast.model.block_u, 0);
  const auto cores = resolve_precision(declare(QKVET_PRECISION_TENSOR_CORE));
  EXPECT_EQ(cores.error, "");
  EXPECT_FALSE(cores.looser_than_generic);
  EXPECT_EQ(cores.model.block_u, 0x1p-23);
  EXPECT_EQ(cores.model.block_terms, 8);
  EXPECT_EQ(cores.model.exp_error, 0x1p-22);
}

TEST(PrecisionTest, BlocksCanBeDeclaredByThemselvesOrTakenAway) {
  qkvet_precision p =
      declare(QKVET_PRECISION_FLASH_HALF, QKVET_KNOB_TENSOR_CORE);
  p.tensor_core = 1;
  const auto blocks = resolve_precision(p);
  EXPECT_EQ(blocks.error, "");
  EXPECT_EQ(blocks.model.block_u, 0x1p-23);
  EXPECT_TRUE(blocks.model.unmeasured);
  EXPECT_TRUE(blocks.looser_than_generic);
  EXPECT_EQ(blocks.looser, "tensor_core = 1 (generic: 0)");
  p.preset = QKVET_PRECISION_TENSOR_CORE;
  EXPECT_FALSE(resolve_precision(p).looser_than_generic);
  p.tensor_core = 0;
  EXPECT_EQ(resolve_precision(p).model.block_u, 0);
}

TEST(PrecisionTest, OnlyWhatWasNotMeasuredIsDoubted) {
  const PrecisionModel cpu = generic_precision();
  EXPECT_EQ(doubted(cpu), cpu);
  const PrecisionModel cores =
      resolve_precision(declare(QKVET_PRECISION_TENSOR_CORE)).model;
  EXPECT_TRUE(cores.unmeasured);
  const PrecisionModel doubts = doubted(cores);
  EXPECT_EQ(doubts.block_align, 1);
  EXPECT_EQ(doubts.block_terms, 4);
  EXPECT_EQ(doubts.exp_error, 0x1p-21);
  // Values that the author declares as numbers are not doubled.
  qkvet_precision p = declare(QKVET_PRECISION_CUDA_FAST, QKVET_KNOB_EXP_ERROR);
  p.exp_error = 0x1p-23;
  EXPECT_EQ(doubted(resolve_precision(p).model).exp_error, 0x1p-23);
}

TEST(PrecisionTest, TanhHasAnErrorOfItsOwn) {
  EXPECT_EQ(generic_precision().tanh_error, 8 * 0x1p-24);
  EXPECT_EQ(generic_precision().tanh_floor, 10 * 0x1p-24);
  const auto cpu = resolve_precision(declare(QKVET_PRECISION_CPU_F32)).model;
  EXPECT_EQ(cpu.tanh_error, 4 * 0x1p-24);
  EXPECT_EQ(cpu.tanh_floor, 0);
  qkvet_precision p = declare(0, QKVET_KNOB_TANH_ERROR);
  p.tanh_error = 0x1p-11;  // tanh.approx
  const auto fast = resolve_precision(p);
  EXPECT_EQ(fast.error, "");
  EXPECT_EQ(fast.model.tanh_error, 0x1p-11);
  EXPECT_EQ(fast.model.tanh_floor, 0);
  EXPECT_TRUE(fast.looser_than_generic);
  p.tanh_error = 0x1p-22;
  EXPECT_FALSE(resolve_precision(p).looser_than_generic);
  p.tanh_error = 1;
  EXPECT_NE(resolve_precision(p).error.find("tanh_error"), std::string::npos);
}

TEST(PrecisionTest, TanhMayHaveAFloorBesideIt) {
  qkvet_precision p = declare(QKVET_PRECISION_CPU_F32, QKVET_KNOB_TANH_ERROR);
  p.tanh_error = 0x1p-22;
  p.tanh_floor = 0x1p-15;
  const auto floor = resolve_precision(p);
  EXPECT_EQ(floor.error, "");
  EXPECT_EQ(floor.model.tanh_floor, 0x1p-15);
  EXPECT_NE(floor.looser.find("tanh_floor"), std::string::npos);
  // A struct that ends before it has none.
  p.struct_size = offsetof(qkvet_precision, tanh_floor);
  EXPECT_EQ(resolve_precision(p).model.tanh_floor, 0);
  p.struct_size = sizeof p;
  p.tanh_floor = 0x1p-7;
  EXPECT_NE(resolve_precision(p).error.find("tanh_floor"), std::string::npos);
}

TEST(PrecisionTest, ALogarithmHasAnErrorOfItsOwn) {
  EXPECT_EQ(generic_precision().log_error, 0);
  qkvet_precision p = declare(QKVET_PRECISION_CPU_F32, QKVET_KNOB_LOG_ERROR);
  p.log_error = 5 * 0x1p-24;
  EXPECT_FALSE(resolve_precision(p).looser_than_generic);
  p.log_error = 0x1p-11;
  const auto coarse = resolve_precision(p);
  EXPECT_EQ(coarse.error, "");
  EXPECT_EQ(coarse.model.log_error, 0x1p-11);
  EXPECT_EQ(coarse.looser,
            "log_error = 0.00048828125 (generic: 2.98023224e-07)");
  EXPECT_EQ(for_storage(coarse.model, Dtype::kF64, Dtype::kF64).log_error,
            0x1p-11);
  EXPECT_TRUE(looser_for_storage(coarse.model, Dtype::kF64));
  p.log_error = 0x1p-7;
  EXPECT_NE(resolve_precision(p).error.find("log_error"), std::string::npos);
}

TEST(PrecisionTest, FlashHalfRoundsPToTheStorageType) {
  const auto flash = resolve_precision(declare(QKVET_PRECISION_FLASH_HALF));
  EXPECT_EQ(flash.error, "");
  EXPECT_FALSE(flash.looser_than_generic);
  EXPECT_EQ(flash.model.tile, 16);
  EXPECT_EQ(flash.model.arg_roundings, 3.3);
  EXPECT_EQ(flash.model.ref_roundings, 1);
  EXPECT_EQ(flash.model.p_u, 0);
  const auto bf16 = for_storage(flash.model, Dtype::kBf16, Dtype::kF32);
  EXPECT_EQ(bf16.p_u, 0x1p-8);
  EXPECT_EQ(bf16.p_floor, 0x1p-134);
  EXPECT_EQ(bf16.output_u, 0x1p-24);
  const auto f16 = for_storage(flash.model, Dtype::kF16, Dtype::kF16);
  EXPECT_EQ(f16.p_u, 0x1p-11);
  EXPECT_EQ(f16.p_floor, 0x1p-25);
  EXPECT_EQ(f16.p_largest, 65504);
  EXPECT_EQ(f16.output_u, 0x1p-11);
  EXPECT_EQ(f16.output_floor, 0x1p-25);
  EXPECT_EQ(f16.output_largest, 65504);
  EXPECT_FALSE(f16.p_normalised || f16.sum_of_rounded_p);
}

TEST(PrecisionTest, StorageInF32ChangesNothing) {
  for (const int32_t preset : {0, 1, 2}) {
    const auto model = resolve_precision(declare(preset)).model;
    EXPECT_EQ(for_storage(model, Dtype::kF32, Dtype::kF32), model);
  }
}

TEST(PrecisionTest, AnUndeclaredHalfKernelMayRoundPAnywhere) {
  const auto generic =
      for_storage(generic_precision(), Dtype::kF16, Dtype::kF16);
  EXPECT_EQ(generic.p_u, 0x1p-11);
  EXPECT_TRUE(generic.p_any_stage);
  const auto cpu = resolve_precision(declare(QKVET_PRECISION_CPU_F32)).model;
  EXPECT_EQ(for_storage(cpu, Dtype::kF16, Dtype::kF16).p_u, 0);
}

TEST(PrecisionTest, ADeclaredTypeOfPIsTakenAsItIs) {
  qkvet_precision p = declare(QKVET_PRECISION_FLASH_HALF, QKVET_KNOB_P_DTYPE);
  EXPECT_FALSE(resolve_precision(p).model.p_as_storage);  // not rounded
  p.p_dtype = {QKVET_DTYPE_BFLOAT, 16, 1};
  p.p_normalised = 1;
  const auto normalised = resolve_precision(p);
  EXPECT_EQ(normalised.error, "");
  EXPECT_FALSE(normalised.looser_than_generic);
  EXPECT_TRUE(normalised.model.p_normalised);
  EXPECT_TRUE(normalised.model.norm_first);
  EXPECT_EQ(for_storage(normalised.model, Dtype::kF16, Dtype::kF16).p_u,
            0x1p-8);
  p.sum_of_rounded_p = 1;
  EXPECT_NE(resolve_precision(p).error.find("p_dtype"), std::string::npos);
  p.p_normalised = 0;
  EXPECT_TRUE(resolve_precision(p).model.sum_of_rounded_p);
  p.p_dtype = {};
  EXPECT_NE(resolve_precision(p).error.find("not to which"), std::string::npos);
  p.sum_of_rounded_p = 0;
  p.p_dtype = dtype_to_abi(Dtype::kF32);
  EXPECT_EQ(resolve_precision(p).model.p_u, 0);
  p = declare(QKVET_PRECISION_FLASH_HALF, QKVET_KNOB_NORM);
  p.norm_roundings = 1;
  p.norm_first = 1;
  EXPECT_TRUE(resolve_precision(p).model.p_normalised);
}

TEST(PrecisionTest, CoarserPThanTheStorageIsLooserThanGeneric) {
  qkvet_precision p = declare(QKVET_PRECISION_CPU_F32, QKVET_KNOB_P_DTYPE);
  const auto looser = [&p](Dtype p_dtype, Dtype kv) {
    p.p_dtype = dtype_to_abi(p_dtype);
    return looser_for_storage(resolve_precision(p).model, kv);
  };
  EXPECT_FALSE(looser(Dtype::kBf16, Dtype::kBf16));
  EXPECT_FALSE(looser(Dtype::kF16, Dtype::kF16));
  EXPECT_TRUE(looser(Dtype::kBf16, Dtype::kF16));
  EXPECT_TRUE(looser(Dtype::kF16, Dtype::kBf16));  // small weights vanish
  EXPECT_TRUE(looser(Dtype::kBf16, Dtype::kF32));
  EXPECT_TRUE(looser(Dtype::kF16, Dtype::kF32));
  const auto flash = resolve_precision(declare(QKVET_PRECISION_FLASH_HALF));
  for (Dtype kv : {Dtype::kF32, Dtype::kF16, Dtype::kBf16}) {
    EXPECT_FALSE(looser_for_storage(flash.model, kv));
    EXPECT_FALSE(looser_for_storage(generic_precision(), kv));
  }
}

TEST(PrecisionTest, PresetsInF64AreInUnitsOfF64) {
  const PrecisionModel generic =
      for_storage(generic_precision(), Dtype::kF64, Dtype::kF64);
  EXPECT_EQ(generic.u, 0x1p-53);
  EXPECT_EQ(generic.exp_error, 0x1p-50);
  EXPECT_EQ(generic.tanh_error, 0x1p-50);
  EXPECT_EQ(generic.output_u, 0x1p-53);
  EXPECT_EQ(generic.p_u, 0);
  EXPECT_EQ(generic.range.lambda(true), 0x1p-1022);
  const PrecisionModel cpu =
      for_storage(resolve_precision(declare(QKVET_PRECISION_CPU_F32)).model,
                  Dtype::kF64, Dtype::kF64);
  EXPECT_EQ(cpu.exp_error, 0x1p-52);
  EXPECT_EQ(cpu.tanh_error, 0x1p-51);
  const PrecisionModel f32 = generic_precision();
  EXPECT_EQ(for_storage(f32, Dtype::kF32, Dtype::kF32), f32);
}

TEST(PrecisionTest, NumbersThatAreDeclaredHoldForF64AsWell) {
  qkvet_precision p = declare(QKVET_PRECISION_CPU_F32,
                              QKVET_KNOB_ACCUMULATOR_U | QKVET_KNOB_EXP_ERROR);
  p.accumulator_u = 0x1p-53;
  p.exp_error = 0x1p-52;
  const auto in_f64 = [&p] {
    const ResolvedPrecision resolved = resolve_precision(p);
    EXPECT_EQ(resolved.error, "");
    EXPECT_FALSE(resolved.looser_than_generic);
    return resolved.model;
  };
  EXPECT_EQ(for_storage(in_f64(), Dtype::kF64, Dtype::kF64).u, 0x1p-53);
  EXPECT_FALSE(looser_for_storage(in_f64(), Dtype::kF64));
  p.accumulator_u = 0x1p-24;  // f32 inside of f64 storage
  EXPECT_EQ(for_storage(in_f64(), Dtype::kF64, Dtype::kF64).u, 0x1p-24);
  EXPECT_TRUE(looser_for_storage(in_f64(), Dtype::kF64));
  EXPECT_FALSE(looser_for_storage(in_f64(), Dtype::kF32));
  p.accumulator_u = 0x1p-53;
  p.exp_error = 0x1p-24;
  EXPECT_TRUE(looser_for_storage(in_f64(), Dtype::kF64));
  p.exp_error = 0x1p-52;
  p.exp_floor = 0x1p-125;
  EXPECT_TRUE(looser_for_storage(in_f64(), Dtype::kF64));
  p = declare(QKVET_PRECISION_CPU_F32, QKVET_KNOB_P_DTYPE);
  EXPECT_FALSE(looser_for_storage(in_f64(), Dtype::kF64));
  p.p_dtype = dtype_to_abi(Dtype::kF32);
  EXPECT_EQ(for_storage(in_f64(), Dtype::kF64, Dtype::kF64).p_u, 0x1p-24);
  EXPECT_EQ(for_storage(in_f64(), Dtype::kF32, Dtype::kF32).p_u, 0);
  EXPECT_TRUE(looser_for_storage(in_f64(), Dtype::kF64));
}

TEST(PrecisionTest, NonsenseIsRefused) {
  const auto refused = [](uint64_t knob, auto set) {
    qkvet_precision p = declare(QKVET_PRECISION_CPU_F32, knob);
    p.splits = 1;
    p.accumulator_u = 0x1p-24;
    set(p);
    return resolve_precision(p).error != "";
  };
  using P = qkvet_precision&;
  EXPECT_TRUE(refused(QKVET_KNOB_EXP_ERROR, [](P p) { p.exp_error = -1e-9; }));
  EXPECT_TRUE(refused(QKVET_KNOB_EXP_ERROR, [](P p) { p.exp_error = NAN; }));
  EXPECT_TRUE(refused(QKVET_KNOB_EXP_ERROR, [](P p) { p.exp_floor = 1; }));
  EXPECT_TRUE(refused(QKVET_KNOB_SPLITS, [](P p) { p.splits = 0; }));
  EXPECT_TRUE(refused(QKVET_KNOB_SPLITS, [](P p) { p.splits = 2; }));
  EXPECT_TRUE(refused(QKVET_KNOB_SPLITS, [](P p) { p.merge = 9; }));
  EXPECT_TRUE(refused(QKVET_KNOB_TILE, [](P p) { p.tile = -1; }));
  EXPECT_TRUE(refused(QKVET_KNOB_LAZY, [](P p) { p.lazy = HUGE_VAL; }));
  EXPECT_TRUE(refused(QKVET_KNOB_NORM, [](P p) { p.norm_roundings = NAN; }));
  EXPECT_TRUE(refused(QKVET_KNOB_SCALE_STAGE, [](P p) { p.scale_stage = 3; }));
  EXPECT_TRUE(refused(QKVET_KNOB_VALUE_SUM, [](P p) { p.value_sum = -1; }));
  EXPECT_TRUE(
      refused(QKVET_KNOB_DOT_SUM, [](P p) { p.dot_sum = QKVET_SUM_LANES; }));
  const uint64_t u = QKVET_KNOB_ACCUMULATOR_U;
  EXPECT_TRUE(refused(u, [](P p) { p.accumulator_u = 0.25; }));
  EXPECT_TRUE(refused(u, [](P p) { p.accumulator_u = 0; }));
  EXPECT_FALSE(refused(u, [](P) {}));
}

TEST(PrecisionTest, LooserThanGenericIsSeen) {
  const auto looser = [](uint64_t knob, auto set) {
    qkvet_precision p = declare(QKVET_PRECISION_CPU_F32, knob);
    p.splits = 1;
    p.merge = QKVET_MERGE_LSE;
    set(p);
    const auto resolved = resolve_precision(p);
    EXPECT_EQ(resolved.error, "");
    return resolved.looser_than_generic;
  };
  using P = qkvet_precision&;
  EXPECT_TRUE(looser(QKVET_KNOB_EXP_ERROR, [](P p) { p.exp_error = 1e-6; }));
  EXPECT_FALSE(looser(QKVET_KNOB_EXP_ERROR, [](P p) { p.exp_error = 1e-7; }));
  EXPECT_TRUE(looser(QKVET_KNOB_TILE, [](P p) { p.tile = 8; }));
  EXPECT_FALSE(looser(QKVET_KNOB_TILE, [](P p) { p.tile = 16; }));
  EXPECT_FALSE(looser(QKVET_KNOB_TILE, [](P p) { p.tile = 0; }));
  EXPECT_TRUE(looser(QKVET_KNOB_SPLITS, [](P p) { p.splits = 16; }));
  EXPECT_TRUE(looser(QKVET_KNOB_LAZY, [](P p) { p.lazy = 6; }));
  EXPECT_TRUE(looser(QKVET_KNOB_NORM, [](P p) { p.norm_roundings = 4; }));
  EXPECT_TRUE(
      looser(QKVET_KNOB_ACCUMULATOR_U, [](P p) { p.accumulator_u = 0x1p-23; }));
  EXPECT_TRUE(looser(QKVET_KNOB_DEFAULT_SCALE_ERROR,
                     [](P p) { p.default_scale_error = 3; }));
}

}  // namespace
}  // namespace qkvet::reference::precision_test

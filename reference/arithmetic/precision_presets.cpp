// SPDX-License-Identifier: Apache-2.0
// The presets of bounds.md, "Presets", and what tensor cores add to them.
#include "reference/arithmetic/precision_presets.h"

#include <algorithm>

namespace qkvet::reference {
namespace {

// Unit roundoff of f32, round to nearest.
constexpr double kU = 0x1p-24;
// Absolute error of an exponential that underflows: half the least normal f32
// would do for flushing to zero; 2^-125 also covers polynomials that clamp
// their argument just above the subnormals.
constexpr double kExpFloor = 0x1p-125;
// glibc documents expf within 1 ulp and measures 0.502; 1.01 units of u leave
// room for the final rounding.
constexpr double kExpErrorCpu = 1.01 * kU;
// Four ulps: the loosest vector library in use.
constexpr double kExpErrorGeneric = 8 * kU;
// glibc documents tanhf within 2 ulps, which are at most 4 units of u.
constexpr double kTanhErrorCpu = 4 * kU;
constexpr double kTanhErrorGeneric = 8 * kU;
// tanh made of an exponential, 1 - 2 / (exp(2x) + 1), is as far off near 0 as
// it is near 1: half of what exp is, and six roundings (bounds.md, "Options").
constexpr double kTanhFloorGeneric = kExpErrorGeneric / 2 + 6 * kU;
// Stale-maximum kernels let weights grow to 2^8.
constexpr double kLazyGeneric = 8 * 0x1.62e42fefa39efp-1;

// The fast functions of CUDA devices (CUDA C++ Programming Guide, "Intrinsic
// Functions"; PTX ISA, "ex2", "tanh", "lg2", "div"): exp2 within 2 ulps, tanh
// within 2^-11, a quotient within 2 ulps, 1/sqrt as a root and a reciprocal of
// one ulp each. An ulp is at most 2 units of u.
constexpr double kExpErrorFast = 4 * kU;
constexpr double kTanhErrorFast = 0x1p-11;
// As kTanhFloorGeneric, with that quotient: 2 / (exp(2x) + 1) is below 2.
constexpr double kTanhFloorFast = kExpErrorFast / 2 + 12 * kU;
constexpr double kDivisionFast = 4;
constexpr double kScaleErrorFast = 4;

// Devices of compute capability 8.0 and later: blocks of 8 products or more on
// a grid of one bit or more below f32 (Khattak and Mikaitis 2025). Those of 7.0
// have blocks of 4 and no further bit.
constexpr double kTruncated = 0x1p-23;
constexpr double kAlignedFiner = 0.5;
constexpr int kBlockOfDevices = 8;
constexpr int kSmallestBlock = 4;

PrecisionModel cpu_f32_precision() {
  PrecisionModel model;
  model.u = kU;
  model.exp_error = kExpErrorCpu;
  model.exp_floor = kExpFloor;
  model.arg_roundings = 1;
  model.norm_roundings = 2;
  model.tanh_error = kTanhErrorCpu;
  return model;
}

// Tiles of an online softmax, P rounded to the storage type before its
// normalisation, the scale folded into a fused exp2.
PrecisionModel flash_half_precision() {
  PrecisionModel model = cpu_f32_precision();
  model.tile = 16;
  model.arg_roundings = 3.3;
  model.ref_roundings = 1;
  model.p_as_storage = true;
  return model;
}

// CUDA cores with fast functions: flash_half, flushed to zero.
PrecisionModel cuda_fast_precision() {
  PrecisionModel model = flash_half_precision();
  model.scale_stage = ScaleStage::kFolded;
  model.exp_error = kExpErrorFast;
  model.fast_log = true;
  model.tanh_error = kTanhErrorFast;
  model.tanh_floor = kTanhFloorFast;
  model.norm_roundings = kDivisionFast;
  model.default_scale_error = kScaleErrorFast;
  model.ftz = true;
  model.unmeasured = true;
  return model;
}

}  // namespace

PrecisionModel generic_precision() {
  PrecisionModel model;
  model.u = kU;
  model.scale_stage = ScaleStage::kOnQ;
  model.scale_split = true;
  model.tile = 16;
  model.exp_error = kExpErrorGeneric;
  model.exp_floor = kExpFloor;
  model.arg_roundings = 4;
  model.ref_roundings = 1;
  model.lazy = kLazyGeneric;
  model.tanh_error = kTanhErrorGeneric;
  model.tanh_floor = kTanhFloorGeneric;
  model.splits = 8;
  model.merge = Merge::kLse;
  model.norm_roundings = 3;
  model.norm_first = true;
  model.ftz = true;
  model.extra_rescales = 1;
  model.p_as_storage = true;
  model.p_any_stage = true;
  return model;
}

void add_in_blocks(PrecisionModel& model) {
  model.block_u = kTruncated;
  model.block_align = kAlignedFiner;
  model.block_terms = kBlockOfDevices;
  model.unmeasured = true;
}

PrecisionModel preset_precision(int32_t preset) {
  if (preset == QKVET_PRECISION_CPU_F32) return cpu_f32_precision();
  if (preset == QKVET_PRECISION_FLASH_HALF) return flash_half_precision();
  if (preset == QKVET_PRECISION_CUDA_FAST) return cuda_fast_precision();
  if (preset != QKVET_PRECISION_TENSOR_CORE) return generic_precision();
  PrecisionModel model = cuda_fast_precision();
  add_in_blocks(model);
  return model;
}

PrecisionModel doubted(PrecisionModel model) {
  if (!model.unmeasured) return model;
  if (model.block_u > 0) {
    model.block_align = 1;
    model.block_terms = std::min(model.block_terms, kSmallestBlock);
  }
  // Declared numbers are kept.
  if ((model.literal & QKVET_KNOB_EXP_ERROR) == 0) model.exp_error *= 2;
  if ((model.literal & QKVET_KNOB_TANH_ERROR) == 0) {
    model.tanh_error *= 2;
    model.tanh_floor *= 2;
  }
  return model;
}

double block_cost(const PrecisionModel& model, int64_t n, int64_t N,
                  int64_t starts) {
  if (model.block_u == 0 || n <= 1) return 0;
  const int64_t blocks = (N + model.block_terms - 1) / model.block_terms;
  const auto sums = static_cast<double>(std::min(blocks + starts - 1, n - 1));
  return model.block_u *
         (model.block_align * static_cast<double>(n - 1) + 2 * sums);
}

}  // namespace qkvet::reference

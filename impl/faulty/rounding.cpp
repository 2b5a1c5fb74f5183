// SPDX-License-Identifier: Apache-2.0
// Faults of storage: what is rounded where it must not be, or leaves the range
// of its type.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <new>

#include "impl/abi/declare.h"
#include "impl/abi/fp8.h"
#include "impl/abi/half.h"
#include "impl/abi/in_f32.h"
#include "impl/abi/tensor_view.h"
#include "impl/faulty/fault.h"
#include "impl/faulty/kernels.h"
#include "impl/skeletons/f64_rows.h"
#include "impl/skeletons/hooks.h"
#include "impl/skeletons/plain_scores.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {

// Half storage in calls whose k and v alone are half, and q and o are f32, as
// caches are stored: k and v are widened, which is exact, and what the fault
// rounds is rounded to their type.

// All of one half type, or k and v alone.
inline constexpr qkvet_capabilities kHalfAndBesideF32 = [] {
  qkvet_capabilities c = kHalfCapabilities;
  for (const qkvet_dtype& type : {kF16, kBf16}) {
    c.dtypes[c.dtype_count++] = {kF32, type, kF32};
  }
  return c;
}();

// What such a fault rounds to: the storage, or that of k and v, which a kernel
// made by BesideF32 carries in the place where others say what their fault is.
inline Storage rounded_storage(const ForwardCall& call) {
  return call.storage != Storage::kF32
             ? call.storage
             : *static_cast<const Storage*>(call.user);
}

// A tensor of half as contiguous f32.
class Widened {
 public:
  // False: there is no memory.
  bool widen(Storage type, qkvet_tensor* tensor) {
    const Stored from = stored(*tensor, type);
    const int64_t* const shape = tensor->shape;
    int64_t count = 1;
    for (int32_t axis = 3; axis >= 0; --axis) {
      strides_[axis] = count;
      count *= shape[axis];
    }
    values_.reset(new (std::nothrow) float[static_cast<size_t>(count)]);
    if (values_ == nullptr) {
      return false;
    }
    for (int64_t n = 0; n < count; ++n) {
      values_[n] = from.get(n / strides_[0], n / strides_[1] % shape[1],
                            n / strides_[2] % shape[2], n % shape[3]);
    }
    tensor->data = values_.get();
    tensor->byte_offset = 0;
    tensor->strides = strides_;
    tensor->dtype = kF32;
    return true;
  }

 private:
  std::unique_ptr<float[]> values_;
  int64_t strides_[4] = {};
};

// The kernel of such a fault: a hook that asks rounded_storage().
template <class Hooks>
struct BesideF32 {
  static qkvet_status supports(const qkvet_kernel* self,
                               const qkvet_forward_args* args,
                               qkvet_text* why) {
    qkvet_forward_args known = {};
    Storage type = Storage::kF32;
    const qkvet_status status = read_struct(args, &known, why);
    if (status != QKVET_OK || !is_beside_f32(known, &type)) {
      return status == QKVET_OK ? supports_forward(self, args, why) : status;
    }
    known.k.dtype = known.v.dtype = kF32;
    const qkvet_kernel in_f32 = of_f32(*self, &type);
    return supports_forward(&in_f32, &known, why);
  }

  static qkvet_status forward(const qkvet_kernel* self, qkvet_context* context,
                              const qkvet_forward_args* args,
                              const qkvet_exec* exec, qkvet_text* why) {
    qkvet_forward_args known = {};
    Storage type = Storage::kF32;
    qkvet_status status = supports(self, args, why);
    status = status == QKVET_OK ? read_struct(args, &known, why) : status;
    if (status != QKVET_OK) {
      return status;
    }
    if (!is_beside_f32(known, &type)) {
      return HooksKernel<Hooks>::kForward(self, context, args, exec, why);
    }
    Widened k, v;
    if (!k.widen(type, &known.k) || !v.widen(type, &known.v)) {
      return refuse(why, QKVET_OUT_OF_MEMORY, "no memory to widen k and v");
    }
    const qkvet_kernel in_f32 = of_f32(*self, &type);
    return HooksKernel<Hooks>::kForward(&in_f32, context, &known, exec, why);
  }

 private:
  static bool is_beside_f32(const qkvet_forward_args& args, Storage* type) {
    return is_same(args.q.dtype, kF32) && is_same(args.o.dtype, kF32) &&
           is_same(args.k.dtype, args.v.dtype) &&
           storage_of(args.k.dtype, type) && *type != Storage::kF32;
  }
  static qkvet_kernel of_f32(const qkvet_kernel& self, Storage* type) {
    qkvet_kernel kernel = self;
    kernel.capabilities = &kF32Capabilities;
    kernel.user = type;
    return kernel;
  }
};

template <class Hooks>
constexpr qkvet_kernel half_fault(const char* name, const char* description,
                                  Place place) {
  qkvet_kernel kernel =
      plain_kernel(name, description, place, &kHooksPrecision,
                   BesideF32<Hooks>::forward, &kHalfAndBesideF32);
  kernel.supports = BesideF32<Hooks>::supports;
  return kernel;
}

// The output is accumulated in its storage type.
struct AccumulatesInHalf : PlainHooks {
  static float add_value(const ForwardCall& call, float acc, float term) {
    return round_to(rounded_storage(call), acc + term);
  }
};
QKVET_FAULT(accumulates_in_half) = {
    .kernel = half_fault<AccumulatesInHalf>,
    .mechanism = "P v is rounded to the storage type after every key",
    .symptom =
        "outputs lose digits as rows grow longer; beyond some hundred keys of "
        "one sign they stop growing",
    .cause = "the accumulator has the type of o",
    .fix = "accumulate in f32 and round once at the end",
    .source = "textbook",
    .trigger = "half storage, and a row with two keys or more",
    .killed_by = {"agrees_with_oracle"},
    .when = "(dtype != f32 || dtype.kv != f32) && rows(seen > 1)",
};

// The sum of the exponentials is kept in the storage type. In bf16 it stops at
// 256: 256 + 1 rounds to 256.
struct DenominatorInHalf : PlainHooks {
  static float add(const ForwardCall& call, float sum, float weight) {
    return round_to(rounded_storage(call), sum + weight);
  }
};
QKVET_FAULT(denominator_in_half) = {
    .kernel = half_fault<DenominatorInHalf>,
    .mechanism =
        "the denominator is rounded to the storage type after every key",
    .symptom =
        "the weights of long rows sum to more than one, and lse is too small",
    .cause = "a sum that inherits the type of what it adds",
    .fix = "sum in f32",
    .source = "textbook",
    .trigger =
        "half storage, and a row with some tens of keys of similar weight",
    .killed_by = {"weights_sum_to_one", "agrees_with_oracle"},
    .when = "(dtype != f32 || dtype.kv != f32) && rows(seen > 1)",
};

// The exponentials are rounded to the storage type, divided by their sum and
// rounded again. One rounding of P may be declared; here none is, because its
// author takes both casts for free.
struct PRoundedTwice : PlainHooks {
  static float weight(const ForwardCall& call, float weight, float sum) {
    return round_to(rounded_storage(call),
                    round_to(rounded_storage(call), weight) / sum);
  }
  static float output(const ForwardCall&, float acc, float) { return acc; }
};
QKVET_FAULT(p_rounded_twice) = {
    .kernel = half_fault<PRoundedTwice>,
    .mechanism =
        "weights pass through the storage type before and after their "
        "normalisation",
    .symptom =
        "outputs are off by up to two roundings of each weight, more than by "
        "their own rounding",
    .cause =
        "a softmax that casts its result, called on scores whose exponentials "
        "were cast already",
    .fix =
        "keep the weights in f32 until the product with V, or round them once "
        "there and declare it",
    .source = "textbook",
    .trigger =
        "half storage, and a row with two keys whose weights are no powers of "
        "two",
    .killed_by = {"agrees_with_oracle"},
    .when = "(dtype != f32 || dtype.kv != f32) && rows(seen > 1)",
};

// o goes to bf16 by dropping its low 16 bits.
struct Bf16Truncates : PlainHooks {
  static float output(const ForwardCall&, float acc, float sum) {
    const auto bits = std::bit_cast<uint32_t>(acc / sum);
    return std::bit_cast<float>(bits & 0xffff0000u);
  }
};
QKVET_FAULT(bf16_truncates) = {
    .kernel = plain_fault<Bf16Truncates, &kBf16Capabilities>,
    .mechanism = "o is truncated to bf16 where it has to be rounded",
    .symptom =
        "outputs are too small in magnitude, by half a unit in the last place "
        "on average",
    .cause = "the upper half of the bits of an f32 is taken for its bf16",
    .fix = "round to nearest, ties to even, before the shift",
    .source = "textbook",
    .trigger = "bf16 storage, and an output whose low half is not zero",
    .killed_by = {"agrees_with_oracle"},
    .when = "dtype == bf16 && rows(seen > 1)",
};

// Weights are truncated in the sum of values alone.
struct WeightsTruncatedForValues : PlainHooks {
  static float weight(const ForwardCall&, float weight, float) {
    return std::bit_cast<float>(std::bit_cast<uint32_t>(weight) & 0xffff0000u);
  }
};
QKVET_FAULT(weights_truncated_for_values) = {
    .kernel = plain_fault<WeightsTruncatedForValues, &kBf16Capabilities>,
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
    .killed_by = {"weights_sum_to_one", "agrees_with_oracle"},
    .when = "dtype == bf16 && rows(seen > 1)",
};

// F64 storage whose output is accumulated in f32.
struct F64InF32 : F64Hooks {
  static double add_value(double acc, double term) {
    return static_cast<double>(static_cast<float>(acc) +
                               static_cast<float>(term));
  }
};
QKVET_FAULT(f64_in_f32) = {
    .kernel = f64_kernel<F64InF32>,
    .mechanism = "the output of f64 storage is accumulated in f32",
    .symptom = "outputs carry seven digits where sixteen are stored",
    .cause = "an accumulator whose type was written for f32 and kept",
    .fix = "accumulate in the type of the tensors",
    .source = "textbook",
    .trigger = "values that are no numbers of f32",
    .killed_by = {"agrees_with_oracle"},
    .when = "dtype == f64 && rows(seen > 0)",
};

constexpr qkvet_capabilities kF16WithMask =
    capabilities_with(kCommonOptions | QKVET_OPTION_MASK, {kF16});

// The number that stands for a hidden score is infinite in f16.
struct HiddenScoresOverflowF16 : OptionHooks {
  // Where a key is seen, hidden ones have weight 0 and are left out.
  static float empty_row(const ForwardCall& call, RowAt at, int64_t c) {
    const float hidden =
        from_half(Storage::kF16, to_half(Storage::kF16, -1e9f));
    const float weight = std::exp(hidden - hidden);
    float sum = 0, acc = 0;
    for (int64_t j = 0; j < call.keys; ++j) {
      sum += weight;
      acc += weight * call.v.at(at.b, at.h / call.group(), j)[c];
    }
    return acc / sum;
  }

  static qkvet_status compute(const ForwardCall& call, qkvet_text* why) {
    const std::unique_ptr<float[]> scratch(
        new (std::nothrow) float[static_cast<size_t>(call.keys)]);
    if (scratch == nullptr) {
      return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the scores");
    }
    using Kernel = OptionsKernel<HiddenScoresOverflowF16>;
    Kernel::Memory memory = {scratch.get(), OptionHooks::kNone};
    Kernel::compute(call, &memory);
    return QKVET_OK;
  }
};
QKVET_FAULT(hidden_scores_overflow_f16) = {
    .kernel = forward_fault<forward_in_f32<HiddenScoresOverflowF16::compute>,
                            &kF16WithMask>,
    .mechanism = "hidden scores are -1e9, which f16 stores as -infinity",
    .symptom = "right in f32 and bf16; NaN in f16, in rows that see nothing",
    .cause =
        "a sentinel that is chosen for the range of f32 passes through the "
        "type of the tensors",
    .fix =
        "treat rows without a key before the softmax, or take the lowest "
        "number of the type",
    .source = "tatp22/linformer-pytorch#19, monatis/ggmlc#13",
    .trigger = "f16, and a row that sees no key",
    .killed_by = {"rows_without_a_key_follow_the_dialect",
                  "agrees_with_oracle"},
    .when = "rows(seen == 0)",
};

// Weights are rounded to fp8, and their sum is not.
struct WeightsInFp8SumIsNot : PlainHooks {
  static float weight(const ForwardCall&, float weight, float) {
    return e4m3_to_f32(f64_to_e4m3(static_cast<double>(weight)));
  }
};
QKVET_FAULT(weights_in_fp8_sum_is_not) = {
    .kernel = plain_fault<WeightsInFp8SumIsNot>,
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
    .killed_by = {"weights_sum_to_one", "agrees_with_oracle"},
    .when = "rows(seen > 1)",
};

constexpr qkvet_precision kPutOffPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.tile = 2;
  p.lazy = 5.545177444479562;  // 8 ln 2
  return p;
}();

// Weights that a maximum out of date lets grow leave the range of fp8. Only the
// end of the range of e4m3 is here and not its steps, which would show in every
// call.
template <class Hooks>
struct RowsPutOffRescaling : PlainScores<Hooks> {
  static constexpr float kRange = 256;  // of weights of a fresh maximum
  // Below 8 ln 2 = 5.5451...: the lag is computed with a rounding of its own.
  static constexpr float kLag = 5.5f;

  using typename PlainScores<Hooks>::Memory;
  using PlainScores<Hooks>::score;
  using PlainScores<Hooks>::sees;

  // Sums so far; those of values stand in o.
  struct Running {
    float reference, sum;
  };

  static void rescale(const ForwardCall& call, float max, Running* row,
                      float* o) {
    if (max <= row->reference + kLag) {
      return;
    }
    const float factor = std::exp(row->reference - max);
    row->reference = max;
    row->sum *= factor;
    for (int64_t c = 0; c < call.value_width; ++c) {
      o[c * call.o.step[3]] *= factor;
    }
  }

  static void add_tile(const ForwardCall& call, RowAt at, int64_t begin,
                       float* weights, Running* row) {
    float* const o = call.o.at(at.b, at.h, at.i);
    const int64_t end = std::min(begin + half_tile(), call.keys);
    float max = OptionHooks::kNone;
    for (int64_t j = begin; j < end; ++j) {
      if (sees(call, at, j)) {
        weights[j] = score(call, at, j);
        max = std::fmax(max, weights[j]);
      }
    }
    rescale(call, max, row, o);
    const RowAt kv = Hooks::kv_head(call, at);
    for (int64_t j = begin; j < end; ++j) {
      if (!sees(call, at, j)) {
        continue;
      }
      const float weight = std::exp(weights[j] - row->reference);
      row->sum += weight;
      const float stored = std::min(kRange * weight, kLargestE4m3) / kRange;
      for (int64_t c = 0; c < call.value_width; ++c) {
        o[c * call.o.step[3]] +=
            stored * call.v.at(kv.b, kv.h, j)[c * call.v.step[3]];
      }
    }
  }

  static void row(const ForwardCall& call, RowAt at, Memory* memory) {
    float* const o = call.o.at(at.b, at.h, at.i);
    Running row = {OptionHooks::kNone, 0};
    for (int64_t c = 0; c < call.value_width; ++c) {
      o[c * call.o.step[3]] = 0;
    }
    for (int64_t j = 0; j < call.keys; j += half_tile()) {
      add_tile(call, at, j, memory->weights, &row);
    }
    const bool seen = row.reference > OptionHooks::kNone;
    for (int64_t c = 0; seen && c < call.value_width; ++c) {
      o[c * call.o.step[3]] /= row.sum;
    }
    if (call.lse.data != nullptr) {
      *call.lse.at(at.b, at.h, at.i) =
          seen ? row.reference + std::log(row.sum) : OptionHooks::kNone;
    }
  }
};

QKVET_FAULT(put_off_rescaling_leaves_fp8) = {
    .kernel =
        option_fault_on<RowsPutOffRescaling, OptionHooks, 0, &kPutOffPrecision>,
    .mechanism =
        "weights of 1 are stored as 256, and a rescaling is put off until they "
        "are 256",
    .symptom =
        "rows sum to less than one where later scores are larger than the "
        "first, by too little to rescale",
    .cause = "two tricks, each right alone, share one range",
    .fix =
        "keep the range for weights of up to 2^8, or rescale as soon as the "
        "maximum grows",
    .source = "Dao-AILab/flash-attention#2577, Dao-AILab/flash-attention#2694",
    .trigger =
        "keys of different tiles of 2, the later with a score that is larger "
        "by 0.6 to 5.5",
    .killed_by = {"weights_sum_to_one", "agrees_with_oracle"},
    .when = "Tk > 2 && rows(seen > 1)",
    .tiled = true,
};

// Large values are cut off.
struct ValuesSaturate : OptionHooks {
  static float value(float v) { return std::fmin(std::fmax(v, -4.0f), 4.0f); }
};
QKVET_FAULT(values_saturate) = {
    .kernel = option_fault<ValuesSaturate>,
    .mechanism =
        "values beyond 4 are cut off at 4, as on the way into a narrow type",
    .symptom = "outliers in V are flattened, everything else is right",
    .cause = "values quantised with a fixed range",
    .fix = "scale by the largest value of the block, or keep the type",
    .source = "textbook, cf. InternLM/lmdeploy#4849",
    .trigger = "an element of V beyond 4 that some row sees",
    .killed_by = {"scaled_values_scale_output", "agrees_with_oracle"},
    .when = "",
};

// Values without their sign.
struct ValuesLoseSign : OptionHooks {
  static float value(float v) { return std::fabs(v); }
};
QKVET_FAULT(values_lose_sign) = {
    .kernel = option_fault<ValuesLoseSign>,
    .mechanism = "values are read without their sign",
    .symptom = "outputs are never negative",
    .cause = "unsigned codes read where signed ones were written",
    .fix = "read values in the type in which they were stored",
    .source = "textbook",
    .trigger = "a negative element of V that some row sees",
    .killed_by = {"scaled_values_scale_output", "rows_stay_in_hull",
                  "agrees_with_oracle"},
    .when = "",
};

}  // namespace qkvet::impl

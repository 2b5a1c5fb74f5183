// SPDX-License-Identifier: Apache-2.0
// Faults of storage: what is rounded where it must not be, or leaves the range
// of its type.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <new>

#include "impl/call/declare.h"
#include "impl/call/fp8.h"
#include "impl/call/half.h"
#include "impl/call/in_f32.h"
#include "impl/call/scratch.h"
#include "impl/call/tensor_view.h"
#include "impl/faulty/fault.h"
#include "impl/faulty/kernels.h"
#include "impl/skeletons/f64_rows.h"

namespace qkvet::impl {

// Half storage in calls whose k and v alone are half, and q and o are f32, as
// caches are stored: k and v are widened, which is exact, and what the fault
// rounds is rounded to their type.

// All of one half type, or k and v alone.
inline constexpr qkvet_capabilities kHalfAndBesideF32 = [] {
  qkvet_capabilities c = kHalfCapabilities;
  for (const qkvet_dtype& type : {kF16, kBf16})
    c.dtypes[c.dtype_count++] = {kF32, type, kF32};
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
    if (values_ == nullptr) return false;
    for (int64_t n = 0; n < count; ++n)
      values_[n] = from.get(n / strides_[0], n / strides_[1] % shape[1],
                            n / strides_[2] % shape[2], n % shape[3]);
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
constexpr ForwardFunction in_f32 =
    forward_in_f32<OptionsKernel<Hooks>::compute_whole>;
template <class Hooks>
struct BesideF32 {
  static qkvet_status supports(const qkvet_kernel* self,
                               const qkvet_forward_args* args,
                               qkvet_text* why) {
    qkvet_forward_args known = {};
    Storage type = Storage::kF32;
    const qkvet_status status = read_struct(args, &known, why);
    if (status != QKVET_OK || !is_beside_f32(known, &type))
      return status == QKVET_OK ? supports_forward(self, args, why) : status;
    known.k.dtype = known.v.dtype = kF32;
    const qkvet_kernel widened = of_f32(*self, &type);
    return supports_forward(&widened, &known, why);
  }

  static qkvet_status forward(const qkvet_kernel* self, qkvet_context* context,
                              const qkvet_forward_args* args,
                              const qkvet_exec* exec, qkvet_text* why) {
    qkvet_forward_args known = {};
    Storage type = Storage::kF32;
    QKVET_TRY(supports(self, args, why));
    QKVET_TRY(read_struct(args, &known, why));
    if (!is_beside_f32(known, &type))
      return in_f32<Hooks>(self, context, args, exec, why);
    Widened k, v;
    if (!k.widen(type, &known.k) || !v.widen(type, &known.v))
      return refuse(why, QKVET_OUT_OF_MEMORY, "no memory to widen k and v");
    const qkvet_kernel widened = of_f32(*self, &type);
    return in_f32<Hooks>(&widened, context, &known, exec, why);
  }
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
constexpr qkvet_kernel kHalfFault =
    with(kForwardFault<BesideF32<Hooks>::forward, &kHalfAndBesideF32>,
         &qkvet_kernel::supports, BesideF32<Hooks>::supports);

struct AccumulatesInHalf : OptionHooks {
  static float add_value(const ForwardCall& call, float acc, float term) {
    return round_to(rounded_storage(call), acc + term);
  }
};
QKVET_FAULT(accumulates_in_half, kHalfFault<AccumulatesInHalf>) = {
    .when = "(dtype != f32 || dtype.kv != f32) && rows(seen > 1)",
    .cause = "P v is rounded to the storage type after every key: the "
             "accumulator has the type of o",
    .fix = "accumulate in f32 and round once at the end",
    .source = "ikawrakow/ik_llama.cpp#1196",
    .killed_by = {"agrees_with_oracle"},
};

// In bf16 the sum stops at 256: 256 + 1 rounds to 256.
struct DenominatorInHalf : OptionHooks {
  static float add(const ForwardCall& call, RowAt, int64_t, float sum,
                   float weight) {
    return round_to(rounded_storage(call), sum + weight);
  }
};
QKVET_FAULT(denominator_in_half, kHalfFault<DenominatorInHalf>) = {
    .when = "(dtype != f32 || dtype.kv != f32) && rows(seen > 1)",
    .cause = "the denominator is rounded to the storage type after every key: "
             "the sum has the type of its terms",
    .fix = "sum in f32",
    .source =
        "huggingface/candle#3727, sonos/tract#2586, tenstorrent/tt-metal#52045",
    .killed_by = {"weights_sum_to_one", "agrees_with_oracle"},
};

// One rounding of P may be declared; here none is, because its author takes
// both casts for free.
struct PRoundedTwice : OptionHooks {
  static float met(const ForwardCall& call, float weight, float sum) {
    return round_to(rounded_storage(call),
                    round_to(rounded_storage(call), weight) / sum);
  }
  static float output(const ForwardCall&, float acc, float) { return acc; }
};
QKVET_FAULT(p_rounded_twice, kHalfFault<PRoundedTwice>) = {
    .when = "(dtype != f32 || dtype.kv != f32) && rows(seen > 1)",
    .cause = "weights are rounded to the storage type before and after their "
             "normalisation: softmax and exponentials are both cast",
    .fix = "keep the weights in f32 until the product with V, or round them "
           "once there and declare it",
    .killed_by = {"agrees_with_oracle"},
};

struct Bf16Truncates : OptionHooks {
  static float output(const ForwardCall&, float acc, float sum) {
    const auto bits = std::bit_cast<uint32_t>(acc / sum);
    return std::bit_cast<float>(bits & 0xffff0000u);
  }
};
QKVET_FAULT(bf16_truncates, kPlainFault<Bf16Truncates, &kBf16Capabilities>) = {
    .when = "dtype == bf16 && rows(seen > 1)",
    .cause = "o is truncated to bf16 where it has to be rounded: the upper "
             "half of an f32 is taken for its bf16",
    .fix = "round to nearest, ties to even, before the shift",
    .killed_by = {"agrees_with_oracle"},
};

struct WeightsTruncatedForValues : OptionHooks {
  static float met(const ForwardCall&, float weight, float) {
    return std::bit_cast<float>(std::bit_cast<uint32_t>(weight) & 0xffff0000u);
  }
};
QKVET_FAULT(weights_truncated_for_values,
            kPlainFault<WeightsTruncatedForValues, &kBf16Capabilities>) = {
    .when = "dtype == bf16 && rows(seen > 1)",
    .cause = "weights are truncated to bf16 for the product with V, after "
             "their sum is taken",
    .fix = "round to nearest, and add up the weights that the product uses",
    .killed_by = {"weights_sum_to_one", "agrees_with_oracle"},
};

struct F64InF32 : F64Hooks {
  static double add_value(double acc, double term) {
    return static_cast<double>(static_cast<float>(acc) +
                               static_cast<float>(term));
  }
};
QKVET_FAULT(f64_in_f32, f64_kernel<F64InF32>("", "", {})) = {
    .when = "dtype == f64 && rows(seen > 0)",
    .cause = "the output of f64 storage is accumulated in f32: the "
             "accumulator's type was written for f32",
    .fix = "accumulate in the type of the tensors",
    .killed_by = {"agrees_with_oracle"},
};

constexpr qkvet_capabilities kF16WithMask =
    capabilities_with(kCommonOptions | QKVET_OPTION_MASK, {kF16});

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
};
QKVET_FAULT(hidden_scores_overflow_f16,
            kPlainFault<HiddenScoresOverflowF16, &kF16WithMask>) = {
    .when = "rows(seen == 0)",
    .cause = "hidden scores are -1e9, which f16 stores as -infinity: the "
             "sentinel was chosen for f32",
    .fix = "treat rows without a key before the softmax, or take the lowest "
           "number of the type",
    .source = "tatp22/linformer-pytorch#19, monatis/ggmlc#13",
    .killed_by = {"rows_without_a_key_follow_the_dialect",
                  "agrees_with_oracle"},
};

struct WeightsInFp8SumIsNot : OptionHooks {
  static float met(const ForwardCall&, float weight, float) {
    return e4m3_to_f32(f64_to_e4m3(static_cast<double>(weight)));
  }
};
QKVET_FAULT(weights_in_fp8_sum_is_not, kPlainFault<WeightsInFp8SumIsNot>) = {
    .when = "rows(seen > 1)",
    .cause = "weights multiply the values in fp8 and enter the denominator in "
             "f32: the sum is taken before the cast",
    .fix = "add up the weights that the product uses",
    .source = "ROCm/FlyDSL#1020, flashinfer-ai/flashinfer#5020",
    .killed_by = {"weights_sum_to_one", "agrees_with_oracle"},
};

constexpr qkvet_precision kPutOffPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.tile = 2;
  p.lazy = 5.545177444479562;  // 8 ln 2
  return p;
}();

// Only the end of the range of e4m3 is here and not its steps, which would show
// in every call.
struct PutOffRescaling : TiledHooks {
  static constexpr float kRange = 256;  // of weights of a fresh maximum
  // Below 8 ln 2 = 5.5451...: the lag is computed with a rounding of its own.
  static constexpr float kLag = 5.5f;

  static float raised(float old, float max) {
    return max <= old + kLag ? old : max;
  }
  static float met(const ForwardCall&, float weight, float) {
    return std::min(kRange * weight, kLargestE4m3) / kRange;
  }
};
QKVET_FAULT(
    put_off_rescaling_leaves_fp8,
    kOptionFaultOn<TiledRows, PutOffRescaling, 0, &kPutOffPrecision>) = {
    .when = "Tk > 2 && rows(seen > 1)",
    .cause = "weights of 1 are stored as 256, and a rescaling is put off until "
             "they are 256: both need the range of fp8",
    .fix = "keep the range for weights of up to 2^8, or rescale as soon as the "
           "maximum grows",
    .source = "Dao-AILab/flash-attention#2577, Dao-AILab/flash-attention#2694",
    .killed_by = {"weights_sum_to_one", "agrees_with_oracle"},
    .tiled = true,
};

struct ValuesSaturate : OptionHooks {
  static float value(float v) { return std::fmin(std::fmax(v, -4.0f), 4.0f); }
};
QKVET_FAULT(values_saturate, kOptionFault<ValuesSaturate>) = {
    .cause = "values beyond 4 are cut off at 4: they are quantised with a "
             "fixed range",
    .fix = "scale by the largest value of the block, or keep the type",
    .source = "textbook, cf. InternLM/lmdeploy#4849",
    .killed_by = {"scaled_values_scale_output", "agrees_with_oracle"},
};

struct ValuesLoseSign : OptionHooks {
  static float value(float v) { return std::fabs(v); }
};
QKVET_FAULT(values_lose_sign, kOptionFault<ValuesLoseSign>) = {
    .cause =
        "values are read without their sign: signed codes are read as unsigned",
    .fix = "read values in the type in which they were stored",
    .killed_by = {"scaled_values_scale_output", "rows_stay_in_hull"},
};

}  // namespace qkvet::impl

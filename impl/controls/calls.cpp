// SPDX-License-Identifier: Apache-2.0
// Controls that take other calls than the rest: one that refuses pairs of
// options, one that takes pages alone, one in f64.
#include "impl/abi/in_f32.h"
#include "impl/abi/tensor_view.h"
#include "impl/controls/control.h"
#include "impl/skeletons/f64_rows.h"
#include "impl/skeletons/serving_skeleton.h"

namespace qkvet::impl {
namespace {

constexpr Arithmetic kNaive = {};

// Takes a mask, a bias or the causal rule, and one of them a call, as PyTorch's
// attention does.
qkvet_status refuse_pairs(const qkvet_forward_args* args, qkvet_text* why) {
  qkvet_forward_args known = {};
  const qkvet_status status = read_struct(args, &known, why);
  if (status != QKVET_OK) {
    return status;
  }
  const int hiding = !is_absent(known.mask) + !is_absent(known.bias) +
                     (known.causal != QKVET_CAUSAL_NONE);
  return hiding > 1 ? refuse(why, QKVET_UNSUPPORTED,
                             "one of mask, bias and the causal rule is taken a "
                             "call")
                    : QKVET_OK;
}

qkvet_status supports_either(const qkvet_kernel* self,
                             const qkvet_forward_args* args, qkvet_text* why) {
  const qkvet_status status = refuse_pairs(args, why);
  return status == QKVET_OK ? supports_forward(self, args, why) : status;
}

qkvet_status forward_either(const qkvet_kernel* self, qkvet_context* context,
                            const qkvet_forward_args* args,
                            const qkvet_exec* exec, qkvet_text* why) {
  const qkvet_status status = refuse_pairs(args, why);
  return status == QKVET_OK
             ? kRowForward<Controlled>(self, context, args, exec, why)
             : status;
}

constexpr qkvet_capabilities kEitherCapabilities = [] {
  qkvet_capabilities c = kDeclaredCapabilities<kNaive>;
  c.flags |= QKVET_FLAG_MASK_OR_BIAS | QKVET_FLAG_BIAS_OR_CAUSAL;
  return c;
}();

constexpr qkvet_dialect kEitherDialect = [] {
  qkvet_dialect d = options_dialect();
  d.mask_and_causal = QKVET_MASK_AND_CAUSAL_REFUSED;
  return d;
}();

// Keys and values in pages of 4 or 16 tokens, and in no other form, as most
// kernels of servers have it.
constexpr Arithmetic kOnline16 = {.tile = 16};
using Serving = ServingKernel<ServingHooks, compute_arithmetic<kOnline16>>;

constexpr qkvet_capabilities kPagesCapabilities = [] {
  qkvet_capabilities c = capabilities_with(
      (kAllOptions & ~QKVET_OPTION_PACKED) | kServingOptions, {kF32, kBf16});
  c.flags |= QKVET_FLAG_PAGES_ONLY;
  c.page_size_count = 2;
  c.page_sizes[0] = 4;
  c.page_sizes[1] = 16;
  return c;
}();

qkvet_status supports_pages(const qkvet_kernel* self,
                            const qkvet_forward_args* args, qkvet_text* why) {
  ServingCall serving;
  const qkvet_status status = read_serving(self, args, &serving, why);
  return status != QKVET_OK || serving.page_size == 4 || serving.page_size == 16
             ? status
             : refuse(why, QKVET_UNSUPPORTED,
                      "k and v must be pages of 4 or 16 tokens");
}

qkvet_status forward_pages(const qkvet_kernel* self, qkvet_context* context,
                           const qkvet_forward_args* args,
                           const qkvet_exec* exec, qkvet_text* why) {
  const qkvet_status status = supports_pages(self, args, why);
  return status == QKVET_OK ? Serving::forward(self, context, args, exec, why)
                            : status;
}

// f64 storage and double arithmetic, sequential sums. It is judged under the
// double-double oracle with u = 2^-53.
using InDouble = F64Hooks;

// As jax.nn.dot_product_attention does it in f64: scores become f32, and are
// f64 again as weights.
struct SoftmaxInF32 : F64Hooks {
  static double softmax(double max, int64_t n, double* w, double* sum) {
    const auto top = static_cast<float>(max);
    float total = 0;
    for (int64_t j = 0; j < n; ++j) {
      const float weight = std::exp(static_cast<float>(w[j]) - top);
      total += weight;
      w[j] = weight;
    }
    for (int64_t j = 0; j < n; ++j) {
      w[j] = static_cast<float>(w[j]) / total;
    }
    *sum = 1;
    return top + std::log(total);
  }
};

constexpr qkvet_precision kSoftmaxInF32 = [] {
  qkvet_precision p = {};
  p.struct_size = sizeof(p);
  p.preset = QKVET_PRECISION_CPU_F32;
  p.declared = QKVET_KNOB_DOT_SUM | QKVET_KNOB_NORM | QKVET_KNOB_SOFTMAX_DTYPE;
  p.dot_sum = QKVET_SUM_LANES;
  p.dot_lanes = 1;
  p.norm_roundings = 1;
  p.norm_first = 1;
  p.softmax_dtype = kF32;
  return p;
}();

}  // namespace

QKVET_CONTROL(one_mask_a_call) = [] {
  qkvet_kernel kernel = arithmetic_kernel<kNaive>(
      "controls/one_mask_a_call", "refuses two of mask, bias and causal",
      QKVET_PLACE);
  kernel.capabilities = &kEitherCapabilities;
  kernel.dialect = &kEitherDialect;
  kernel.supports = supports_either;
  kernel.forward = forward_either;
  return kernel;
}();

QKVET_CONTROL(pages_only) = [] {
  qkvet_kernel kernel = serving_kernel(
      "controls/pages_only", "pages of 4 or 16 tokens and nothing else",
      QKVET_PLACE, &kDeclaredPrecision<kOnline16>, forward_pages,
      &kPagesCapabilities);
  kernel.supports = supports_pages;
  return kernel;
}();

QKVET_CONTROL(f64_plain) =
    f64_kernel<InDouble>("controls/f64_plain",
                         "f64 storage, sequential sums in double", QKVET_PLACE);

QKVET_CONTROL(f64_softmax_in_f32) = f64_kernel<SoftmaxInF32, kSoftmaxInF32>(
    "controls/f64_softmax_in_f32",
    "f64 storage, sums in double, a softmax in float", QKVET_PLACE);

}  // namespace qkvet::impl

// SPDX-License-Identifier: Apache-2.0
// Controls that take other calls than the rest: one that refuses a pair of
// options, one that takes pages alone, one in f64.
#include "impl/controls/control.h"
#include "impl/f64_rows.h"
#include "impl/in_f32.h"
#include "impl/serving_frame.h"
#include "impl/tensor_view.h"

namespace qkvet::impl {
namespace {

constexpr Arithmetic kNaive = {};

// Takes a mask, and takes the causal rule, and refuses both together, as
// PyTorch's attention does.
qkvet_status refuse_both(const qkvet_forward_args* args, qkvet_text* why) {
  qkvet_forward_args known = {};
  const qkvet_status status = read_struct(args, &known, why);
  if (status == QKVET_OK && !is_absent(known.mask) &&
      known.causal != QKVET_CAUSAL_NONE) {
    return refuse(why, QKVET_UNSUPPORTED,
                  "a mask together with the causal rule is not supported");
  }
  return status;
}

qkvet_status supports_either(const qkvet_kernel* self,
                             const qkvet_forward_args* args, qkvet_text* why) {
  const qkvet_status status = refuse_both(args, why);
  return status == QKVET_OK ? supports_forward(self, args, why) : status;
}

qkvet_status forward_either(const qkvet_kernel* self, qkvet_context* context,
                            const qkvet_forward_args* args,
                            const qkvet_exec* exec, qkvet_text* why) {
  const qkvet_status status = refuse_both(args, why);
  return status == QKVET_OK
             ? kRowForward<Controlled>(self, context, args, exec, why)
             : status;
}

constexpr qkvet_dialect kEitherDialect = [] {
  qkvet_dialect d = options_dialect();
  d.mask_and_causal = QKVET_MASK_AND_CAUSAL_REFUSED;
  return d;
}();

// Keys and values in pages of 4 or 16 tokens, and in no other form, as most
// kernels of servers have it.
constexpr Arithmetic kOnline16 = {.tile = 16};
using Serving = ServingKernel<ServingSeams, compute_arithmetic<kOnline16>>;

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
struct InDouble {
  static double add_value(double acc, double term) { return acc + term; }
};

}  // namespace

QKVET_CONTROL(dialect_mask_and_causal) = [] {
  qkvet_kernel kernel =
      arithmetic_kernel<kNaive>("controls/dialect_mask_and_causal",
                                "refuses a mask with causal", QKVET_PLACE);
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

}  // namespace qkvet::impl

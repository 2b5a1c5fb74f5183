// SPDX-License-Identifier: Apache-2.0
// controls/dialect_mask_and_causal: takes a mask, and takes the causal rule,
// and refuses both together, as PyTorch's attention does.
#include "impl/controls/dialect.h"
#include "impl/in_f32.h"
#include "impl/tensor_view.h"

namespace qkvet::impl {
namespace {

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

qkvet_status supports(const qkvet_kernel* self, const qkvet_forward_args* args,
                      qkvet_text* why) {
  const qkvet_status status = refuse_both(args, why);
  return status == QKVET_OK ? supports_forward(self, args, why) : status;
}

qkvet_status forward(const qkvet_kernel* self, qkvet_context* context,
                     const qkvet_forward_args* args, const qkvet_exec* exec,
                     qkvet_text* why) {
  const qkvet_status status = refuse_both(args, why);
  return status == QKVET_OK
             ? kRowForward<NaiveRow>(self, context, args, exec, why)
             : status;
}

constexpr qkvet_dialect kDialect =
    deviating(&qkvet_dialect::mask_and_causal, QKVET_MASK_AND_CAUSAL_REFUSED);

constexpr qkvet_kernel make() {
  qkvet_kernel kernel = dialect_kernel(
      "controls/dialect_mask_and_causal", "refuses a mask with causal",
      {"impl/controls/dialect_mask_and_causal.cpp", __LINE__}, &kDialect,
      forward);
  kernel.supports = supports;
  return kernel;
}

}  // namespace

extern constinit const qkvet_kernel controls_dialect_mask_and_causal = make();

}  // namespace qkvet::impl

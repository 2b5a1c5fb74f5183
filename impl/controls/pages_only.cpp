// SPDX-License-Identifier: Apache-2.0
// controls/pages_only: keys and values in pages of 4 or 16 tokens, and in no
// other form, as most kernels of servers have it.
#include "impl/controls/online.h"
#include "impl/serving_frame.h"

namespace qkvet::impl {
namespace {

using Online16 = Online<OnlineShape{.tile = 16}>;
using Serving = ServingKernel<ServingSeams, compute_rows<Online16>>;

constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.tile = 16;
  return p;
}();

constexpr qkvet_capabilities kCapabilities = [] {
  qkvet_capabilities c = capabilities_with(
      (kAllOptions & ~QKVET_OPTION_PACKED) | kServingOptions, {kF32, kBf16});
  c.flags |= QKVET_FLAG_PAGES_ONLY;
  c.page_size_count = 2;
  c.page_sizes[0] = 4;
  c.page_sizes[1] = 16;
  return c;
}();

qkvet_status supports(const qkvet_kernel* self, const qkvet_forward_args* args,
                      qkvet_text* why) {
  ServingCall serving;
  const qkvet_status status = read_serving(self, args, &serving, why);
  return status != QKVET_OK || serving.page_size == 4 || serving.page_size == 16
             ? status
             : refuse(why, QKVET_UNSUPPORTED,
                      "k and v must be pages of 4 or 16 tokens");
}

qkvet_status forward(const qkvet_kernel* self, qkvet_context* context,
                     const qkvet_forward_args* args, const qkvet_exec* exec,
                     qkvet_text* why) {
  const qkvet_status status = supports(self, args, why);
  return status == QKVET_OK ? Serving::forward(self, context, args, exec, why)
                            : status;
}

}  // namespace

extern constinit const qkvet_kernel controls_pages_only = [] {
  qkvet_kernel kernel = serving_kernel(
      "controls/pages_only", "pages of 4 or 16 tokens and nothing else",
      {"impl/controls/pages_only.cpp", __LINE__}, &kPrecision, forward,
      &kCapabilities);
  kernel.supports = supports;
  return kernel;
}();

}  // namespace qkvet::impl

// SPDX-License-Identifier: Apache-2.0
// Patterns of adapters for foreign kernels: a kernel with one pointer for q, k
// and v, and two that multiply irrelevant elements by 0.
#include <cstddef>

#include "impl/controls/control.h"
#include "impl/skeletons/options_kernel.h"
#include "impl/skeletons/serving_hooks.h"

namespace qkvet::impl {
namespace {

// ---- One block of q, k and v -----------------------------------------------

constexpr Arithmetic kOneByOne = {};

constexpr qkvet_capabilities kOneBlock = [] {
  qkvet_capabilities c = capabilities_with(
      kAllOptions & ~(QKVET_OPTION_CROSS_LENGTHS | QKVET_OPTION_VALUE_WIDTH),
      {kF32, kF16, kBf16});
  c.layouts = QKVET_LAYOUT_PACKED_QKV;
  return c;
}();

std::byte* behind(const qkvet_tensor& tensor, int64_t elements) {
  return static_cast<std::byte*>(tensor.data) + tensor.byte_offset +
         elements * (tensor.dtype.bits / 8);
}

// q, k and v in the layout of the foreign kernel, derived from its one pointer
// and the extents: [B, T, H + 2 Hkv, d].
struct Block {
  int64_t steps[4];
  qkvet_forward_args args;

  explicit Block(const qkvet_forward_args& given) : steps{}, args(given) {
    const int64_t heads = given.q.shape[1], kv_heads = given.k.shape[1];
    const int64_t rows = given.q.shape[2], width = given.q.shape[3];
    const int64_t row = (heads + 2 * kv_heads) * width;
    const int64_t block_steps[] = {rows * row, width, row, 1};
    for (int i = 0; i < 4; ++i) {
      steps[i] = block_steps[i];
    }
    args.k.data = behind(given.q, heads * width);
    args.v.data = behind(given.q, (heads + kv_heads) * width);
    args.k.byte_offset = args.v.byte_offset = 0;
    args.q.strides = args.k.strides = args.v.strides = steps;
  }
};

bool has_elements(const qkvet_tensor& tensor) {
  return tensor.shape[0] > 0 && tensor.shape[2] > 0;
}

// Refuses calls that cannot be passed on, with the reason.
qkvet_status supports_block(const qkvet_kernel* self,
                            const qkvet_forward_args* args, qkvet_text* why) {
  qkvet_forward_args known = {};
  QKVET_TRY(supports_forward(self, args, why));
  QKVET_TRY(read_struct(args, &known, why));
  if (!has_elements(known.q)) {
    return QKVET_OK;
  }
  const Block block(known);
  const bool together = behind(known.k, 0) == block.args.k.data &&
                        behind(known.v, 0) == block.args.v.data &&
                        known.q.shape[2] == known.k.shape[2];
  return together ? QKVET_OK
                  : refuse(why, QKVET_UNSUPPORTED,
                           "q, k and v do not lie in one block");
}

qkvet_status forward_block(const qkvet_kernel* self, qkvet_context* context,
                           const qkvet_forward_args* args,
                           const qkvet_exec* exec, qkvet_text* why) {
  qkvet_forward_args known = {};
  QKVET_TRY(read_struct(args, &known, why));
  const Block block(known);
  const qkvet_forward_args* const from =
      has_elements(known.q) ? &block.args : args;
  return kRowForward<Controlled>(self, context, from, exec, why);
}

// ---- Weights of 0 -----------------------------------------------------------

// Keys and values past the lengths have weights of 0 and join every sum.
struct PaddingTimesZero : OptionHooks {
  static void member(const ForwardCall& whole, int64_t n, ForwardCall* member) {
    float zero = 0;
    for (int64_t h = 0; h < whole.kv_heads; ++h) {
      for (int64_t j = member->keys; j < whole.keys; ++j) {
        for (int64_t c = 0; c < whole.value_width; ++c) {
          zero += 0 * whole.v.at(n, h, j)[c * whole.v.step[3]];
        }
      }
    }
    padding() = zero;
  }
  static float first_value() { return padding(); }

 private:
  static float& padding() {
    thread_local float zero = 0;
    return zero;
  }
};

constexpr qkvet_capabilities kNotPacked =
    capabilities_with(kAllOptions & ~QKVET_OPTION_PACKED, {kF32});
constexpr qkvet_dialect kFinitePadding = [] {
  qkvet_dialect d = options_dialect();
  d.padding_nonfinite = QKVET_PADDING_NOT_IGNORED;
  return d;
}();

// The same for slots after the last token in the last page of a member.
float last_page_times_zero(const ServingCall& s, int64_t b, int64_t kv_head) {
  float zero = 0;
  const int64_t tokens = s.held(b) + s.new_tokens;
  for (int64_t t = tokens; s.page_size > 0 && t % s.page_size != 0; ++t) {
    const Slot slot = s.slot(b, t);
    for (int64_t c = 0; c < s.call.value_width; ++c) {
      zero += 0 * s.v.get(slot.block, kv_head, slot.row, c);
    }
  }
  return zero;
}

qkvet_status forward_pages_whole(const qkvet_kernel* self,
                                 qkvet_context* context,
                                 const qkvet_forward_args* args,
                                 const qkvet_exec* exec, qkvet_text* why) {
  ServingCall s;
  using Serving = ServingKernel<ServingHooks, compute_rows<PlainRow>>;
  QKVET_TRY(Serving::forward(self, context, args, exec, why));
  QKVET_TRY(read_serving(self, args, &s, why));
  const View<float>& o = s.call.o;
  for (int64_t b = 0; b < s.call.batch; ++b) {
    for (int64_t h = 0; h < s.call.heads; ++h) {
      const float zero = last_page_times_zero(s, b, h / s.call.group());
      for (int64_t i = 0; i < s.call.queries; ++i) {
        for (int64_t c = 0; c < s.call.value_width; ++c) {
          o.at(b, h, i)[c * o.step[3]] += zero;
        }
      }
    }
  }
  return QKVET_OK;
}

constexpr qkvet_dialect kFiniteSlots = [] {
  qkvet_dialect d = options_dialect();
  d.unowned_nonfinite = QKVET_UNOWNED_NOT_IGNORED;
  return d;
}();

}  // namespace

QKVET_CONTROL(qkv_pointer, "one pointer to a block of q, k and v",
              kArithmeticKernel<kOneByOne>, &qkvet_kernel::capabilities,
              &kOneBlock, &qkvet_kernel::supports, supports_block,
              &qkvet_kernel::forward,
              forward_if<forward_block, supports_block>);

QKVET_CONTROL(padding_times_zero, "values beyond the lengths meet weights of 0",
              kernel_of(OptionsKernel<PaddingTimesZero>::forward,
                        &kHooksPrecision, &kNotPacked),
              &qkvet_kernel::dialect, &kFinitePadding);

QKVET_CONTROL(last_page_times_zero,
              "slots behind the last token meet weights of 0",
              serving_kernel("", "", {}, &kServingHooksPrecision,
                             forward_pages_whole, &kServingHooksCapabilities),
              &qkvet_kernel::dialect, &kFiniteSlots);

}  // namespace qkvet::impl

// SPDX-License-Identifier: Apache-2.0
// One plain, correct kernel with named hooks. A fault is a class that derives
// from PlainHooks and replaces one hook; everything else stays correct, so a
// law can find only that fault.
//
//   visible   which keys a row may see          -> scores
//   key       how an element of K is read       -> scores
//   scale     the factor of q k^T               -> scores
//   shift     the number subtracted before exp  -> weights
//   keep      which normalised weights survive  -> values
//   add       one more weight in their sum      -> denominator
//   weight    the weight that meets a value     -> values
//   add_value one more weighted value           -> values
//   output    the sums become an element of o   -> values
//
// Arithmetic: hook_rows.h. Half storage is converted to f32 first and o is
// rounded to it last (in_f32.h); hooks read the storage type from call.storage.
// Speed does not matter here.
//
// Contract: any strides, addresses aligned to elements; stays inside its
// tensors.
#ifndef QKVET_IMPL_SKELETONS_HOOKS_H_
#define QKVET_IMPL_SKELETONS_HOOKS_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>

#include "impl/call/declare.h"
#include "impl/call/forward_view.h"
#include "impl/call/half.h"
#include "impl/call/in_f32.h"
#include "impl/call/scratch.h"
#include "impl/skeletons/hook_rows.h"

namespace qkvet::impl {

template <class Hooks>
struct HooksKernel {
  using Rows = HookRows<Hooks>;

  static void row(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                  float* scratch) {
    const int64_t kv = h / call.group();
    const KeyHead k = {call.k.at(b, kv, 0), call.k.step[2], call.k.step[3],
                       call.keys, call.width};
    float* const o = call.o.at(b, h, i);
    float lse = -std::numeric_limits<float>::infinity();
    // By the correct rule in any fault: a row without keys is not its
    // subject.
    const bool empty = call.visible(i) == 0;
    float sum = 0;
    if (!empty) {
      const float max = Rows::scores(call, call.q.at(b, h, i), k, i, scratch);
      const float shift = Hooks::shift(max);
      sum = Rows::weigh(call, i, shift, scratch);
      lse = shift + std::log(sum);
    }
    for (int64_t c = 0; c < call.value_width; ++c) {
      o[c * call.o.step[3]] =
          empty ? 0
                : Rows::value(call, call.v.at(b, kv, 0), i, c, scratch, sum);
    }
    if (call.lse.data != nullptr) {
      *call.lse.at(b, h, i) = lse;
    }
  }

  static qkvet_status compute(const ForwardCall& call, qkvet_text* why) {
    std::unique_ptr<float[]> scratch;
    QKVET_TRY(allocate(call.keys, &scratch, why));
    for (int64_t b = 0; b < call.batch; ++b) {
      for (int64_t h = 0; h < call.heads; ++h) {
        for (int64_t i = 0; i < call.queries; ++i) {
          row(call, b, h, i, scratch.get());
        }
      }
    }
    return QKVET_OK;
  }

  static constexpr ForwardFunction kForward = forward_in_f32<compute>;
};

// The declaration of this kernel and of those that replace a hook.
inline constexpr qkvet_precision kHooksPrecision = sequential_f32();

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_HOOKS_H_

// SPDX-License-Identifier: Apache-2.0
// The gradient of the layer of layer_skeleton.h, stage by stage from its end:
//
//   dW_O = merged^T dY,  db_O = sum of the rows of dY
//   dA   = dY W_O^T, split into heads
//   dq, dk, dv = the gradient of attention (backward_skeleton.h), turned back
//   dW   = X^T dq, X^T dk, X^T dv, merged; db alike
//   dX   = dq W_Q^T + dk W_K^T + dv W_V^T
//
// The stages are computed once more, in f32; no weights are stored. A fault is
// a class that derives from PlainLayerGradient and replaces one hook:
//
//   turns_back   whether dq and dk are turned back
//   adds_input   whether a projection adds to dX
//   merged       the place of a column of dY W_O^T in [H, T, dv]
//   Attention    the gradient of attention
//   keep         where an element of the gradient of a matrix is written
//   keep_bias    the same for that of a bias
//   first_row    from which row on the gradient of a bias is added up
//
// Arithmetic: every sum one lane, ascending: over the rows (b, t) for matrices
// and biases; over the columns of W_Q, then W_K, then W_V for an element of dX.
// Products are rounded. Every gradient is rounded once.
//
// Contract: as that of layer_skeleton.h. Memory: the stages twice, in f32, and
// the gradient of one attention.
#ifndef QKVET_IMPL_SKELETONS_LAYER_GRADIENT_H_
#define QKVET_IMPL_SKELETONS_LAYER_GRADIENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "impl/call/layer_gradient_call.h"
#include "impl/call/scratch.h"
#include "impl/skeletons/backward_kernel.h"
#include "impl/skeletons/layer_skeleton.h"

namespace qkvet::impl {

struct PlainLayerGradient {
  static bool turns_back() { return true; }
  static bool adds_input(Role) { return true; }
  static int64_t merged(const LayerCall& call, int64_t t, int64_t column) {
    return PlainLayer::merged(call, t, column);
  }
  using Attention =
      BackwardKernel<PlainBackward, BackwardRows<PlainBackward>::piece>;
  static void keep(const Projection& to, int64_t i, int64_t column, float sum) {
    to.matrix.set(i, column, 0, 0, sum);
  }
  static void keep_bias(const Projection& to, int64_t column, float sum) {
    to.bias.set(column, 0, 0, 0, sum);
  }
  static int64_t first_row(const LayerCall&) { return 0; }
};

// [B, heads, T, width], contiguous, in f32.
inline Stored f32_heads(float* data, const LayerCall& call, int64_t heads,
                        int64_t width) {
  return {data,
          Storage::kF32,
          {heads * call.tokens * width, call.tokens * width, width, 1}};
}

// A projection, and the gradient of its result.
struct RoleGradient {
  Role role;
  const Projection& by;
  const Projection& to;
  int64_t heads, width;
  float* split;  // [B, heads, T, width]

  float get(const LayerCall& call, int64_t b, int64_t t, int64_t column) const {
    return split[b * heads * call.tokens * width +
                 PlainLayer::split(call, heads, width, t, column)];
  }
};

template <class Hooks>
struct LayerGradient {
  // to.matrix = from^T grad and to.bias = the sum of the rows of grad.
  template <class From, class Grad>
  static void parameters(const LayerCall& call, const Projection& to,
                         const From& from, const Grad& grad) {
    for (int64_t column = 0; column < to.columns; ++column) {
      for (int64_t i = 0; i < to.rows; ++i) {
        float sum = 0;
        for (int64_t n = 0; n < call.batch * call.tokens; ++n) {
          const int64_t b = n / call.tokens, t = n % call.tokens;
          sum += from(b, t, i) * grad(b, t, column);
        }
        Hooks::keep(to, i, column, sum);
      }
      float sum = 0;
      for (int64_t n = Hooks::first_row(call); n < call.batch * call.tokens;
           ++n) {
        sum += grad(n / call.tokens, n % call.tokens, column);
      }
      if (to.bias.present()) {
        Hooks::keep_bias(to, column, sum);
      }
    }
  }

  // dW_O, db_O and dA.
  static void through_output(const LayerGradientCall& g, const Stages& stages,
                             float* d_attended) {
    const LayerCall& call = g.layer;
    const int64_t columns = call.heads * call.value_width;
    const auto place = [&](int64_t b, int64_t t, int64_t i) {
      return b * columns * call.tokens + PlainLayer::merged(call, t, i);
    };
    parameters(
        call, g.d_w_o,
        [&](int64_t b, int64_t t, int64_t i) {
          return stages.attended[place(b, t, i)];
        },
        [&](int64_t b, int64_t t, int64_t c) { return g.d_y.get(b, t, c); });
    for (int64_t n = 0; n < call.batch * call.tokens; ++n) {
      const int64_t b = n / call.tokens, t = n % call.tokens;
      for (int64_t i = 0; i < columns; ++i) {
        float sum = 0;
        for (int64_t c = 0; c < call.model_width; ++c) {
          sum += g.d_y.get(b, t, c) * call.w_o.matrix.get(i, c);
        }
        d_attended[b * columns * call.tokens + Hooks::merged(call, t, i)] = sum;
      }
    }
  }

  static void through_input(const LayerGradientCall& g,
                            const RoleGradient (&roles)[3]) {
    const LayerCall& call = g.layer;
    for (const RoleGradient& role : roles) {
      parameters(
          call, role.to,
          [&](int64_t b, int64_t t, int64_t i) { return call.x.get(b, t, i); },
          [&](int64_t b, int64_t t, int64_t c) {
            return role.get(call, b, t, c);
          });
    }
    for (int64_t n = 0; n < call.batch * call.tokens; ++n) {
      const int64_t b = n / call.tokens, t = n % call.tokens;
      for (int64_t i = 0; i < call.model_width; ++i) {
        float sum = 0;
        for (const RoleGradient& role : roles) {
          for (int64_t c = 0;
               Hooks::adds_input(role.role) && c < role.to.columns; ++c) {
            sum += role.get(call, b, t, c) * role.by.matrix.get(i, c);
          }
        }
        g.d_x.set(b, t, i, 0, sum);
      }
    }
  }

  static qkvet_status through_attention(const LayerCall& call,
                                        const Stages& stages,
                                        const Stages& d_stages,
                                        qkvet_text* why) {
    BackwardCall b;
    b.forward = heads_of(call, stages);
    const int64_t h = call.heads, kv = call.kv_heads;
    const int64_t d = call.width, dv = call.value_width;
    b.q = f32_heads(stages.q, call, h, d);
    b.k = f32_heads(stages.k, call, kv, d);
    b.v = f32_heads(stages.v, call, kv, dv);
    b.o = f32_heads(stages.attended, call, h, dv);
    b.d_o = f32_heads(d_stages.attended, call, h, dv);
    b.d_q = f32_heads(d_stages.q, call, h, d);
    b.d_k = f32_heads(d_stages.k, call, kv, d);
    b.d_v = f32_heads(d_stages.v, call, kv, dv);
    b.all_keys = b.row_room = call.tokens;
    QKVET_TRY(Hooks::Attention::compute(b, 1, nullptr, why));
    if (Hooks::turns_back()) {
      turn_heads<TurnBack>(call, h, d_stages.q);
      turn_heads<TurnBack>(call, kv, d_stages.k);
    }
    return QKVET_OK;
  }

  // Pieces of `memory`, from *next on.
  static float* take(float** next, int64_t floats) {
    float* const piece = *next;
    *next += floats;
    return piece;
  }
  static Stages take_stages(const LayerCall& call, float** next) {
    const int64_t tokens = call.batch * call.tokens;
    Stages s = {};
    s.q = take(next, tokens * call.heads * call.width);
    s.k = take(next, tokens * call.kv_heads * call.width);
    s.v = take(next, tokens * call.kv_heads * call.value_width);
    s.attended = take(next, tokens * call.heads * call.value_width);
    return s;
  }

  static qkvet_status compute(const LayerGradientCall& g, qkvet_text* why) {
    const LayerCall& call = g.layer;
    const int64_t tokens = call.batch * call.tokens;
    const int64_t floats = 2 * tokens * (call.heads + call.kv_heads) *
                               (call.width + call.value_width) +
                           tokens * call.heads + call.model_width;
    std::unique_ptr<float[]> memory;
    QKVET_TRY(allocate(floats, &memory, why, "no memory for the stages"));
    float* next = memory.get();
    Stages stages = take_stages(call, &next);
    const Stages d_stages = take_stages(call, &next);
    stages.lse = take(&next, tokens * call.heads);
    stages.row = next;
    QKVET_TRY(LayerSkeleton<PlainLayer>::compute_stages(call, stages, why));
    through_output(g, stages, d_stages.attended);
    QKVET_TRY(through_attention(call, stages, d_stages, why));
    through_input(
        g,
        {{Role::kQuery, call.w_q, g.d_w_q, call.heads, call.width, d_stages.q},
         {Role::kKey, call.w_k, g.d_w_k, call.kv_heads, call.width, d_stages.k},
         {Role::kValue, call.w_v, g.d_w_v, call.kv_heads, call.value_width,
          d_stages.v}});
    return QKVET_OK;
  }

  static qkvet_status backward(const qkvet_kernel* self, qkvet_context*,
                               const qkvet_layer_backward_args* args,
                               const qkvet_exec* exec, qkvet_text* why) {
    LayerGradientCall call;
    QKVET_TRY(check_exec(exec, why));
    QKVET_TRY(read_layer_gradient(self, args, &call, why));
    return compute(call, why);
  }
};

template <class Hooks>
inline constexpr qkvet_backward_table kLayerGradientTable =
    layer_gradient_table(LayerGradient<Hooks>::backward);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_LAYER_GRADIENT_H_

// SPDX-License-Identifier: Apache-2.0
// The layer of multi-head self-attention in readable stages, with named hooks:
//
//   project   q, k, v = x W + b        a sum over D for each column
//   split     column h d + c of a row is channel c of head h
//   turn      q and k by their positions, if asked for
//   attend    head by head
//   merge     channel c of head h is column h dv + c of a row
//   project   y = merged W_O + b_O
//
// A fault is a class that derives from PlainLayer and replaces one hook:
//
//   cut        the arguments before they are checked
//   fuse       the place of q, k and v in a fused matrix
//   matrix     which matrix and bias make q, k or v
//   column     the place of a projection's column in that matrix
//   bias       whether a projection adds its bias
//   input      which part of a row of x a column sees
//   split      the place of a projection's column in [H, T, d]
//   stage      rounding of a number between two stages
//   turn       the rotation of q and k
//   mask       which pairs a mask buffer leaves
//   weight     a returned weight
//   merged     the place of a column of merged in [H, T, dv]
//   output     one element of y
//
// Arithmetic: every sum one lane, ascending, products rounded, in f32; the bias
// is added to the finished sum; attention is that of plain_row.h. Inputs are
// converted to f32, y is rounded once, the stages are f32 unless `stage` rounds
// them, and the returned stages are those that the next stage reads.
//
// Contract: any strides; x, matrices, biases and y f32, f16 or bf16 throughout;
// outputs apart from inputs; a contradiction is INVALID_ARGUMENT before
// anything is written (layer_call.h). Memory: the stages, in f32.
#ifndef QKVET_IMPL_SKELETONS_LAYER_SKELETON_H_
#define QKVET_IMPL_SKELETONS_LAYER_SKELETON_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "impl/call/declare.h"
#include "impl/call/forward_view.h"
#include "impl/call/layer_call.h"
#include "impl/call/scratch.h"
#include "impl/call/tensor_view.h"
#include "impl/skeletons/layer_returned.h"
#include "impl/skeletons/plain_row.h"
#include "impl/skeletons/row_skeleton.h"

namespace qkvet::impl {

enum class Role : uint8_t { kQuery, kKey, kValue };

struct InputRange {
  int64_t begin, end;  // columns of x, and rows of the matrix
};

struct PlainLayer {
  // `shape`: memory for one or two extents.
  static void cut(qkvet_layer_args*, int64_t* /*shape*/) {}
  // read_layer() has read them as declared.
  static void fuse(LayerCall*) {}
  static const Projection& matrix(const LayerCall& call, Role role) {
    return role == Role::kQuery ? call.w_q
           : role == Role::kKey ? call.w_k
                                : call.w_v;
  }
  static int64_t column(const LayerCall&, Role, int64_t column) {
    return column;
  }
  static bool bias(Role) { return true; }
  // The inputs of a column of head h (out of `heads`).
  static InputRange input(const LayerCall& call, int64_t /*heads*/,
                          int64_t /*h*/) {
    return {0, call.model_width};
  }
  // [heads, T, width] from column `column` of row t.
  static int64_t split(const LayerCall& call, int64_t /*heads*/, int64_t width,
                       int64_t t, int64_t column) {
    return (column / width * call.tokens + t) * width + column % width;
  }
  static float stage(const LayerCall&, float value) { return value; }
  static void turn(const LayerCall& call, float* q, float* k) {
    turn_heads(call, call.heads, q);
    turn_heads(call, call.kv_heads, k);
  }
  // read_layer() has found the causal rule in the buffer.
  static void mask(const LayerCall&, ForwardCall*) {}
  static double weight(double exponential, double sum) {
    return share_of(exponential, sum);
  }
  static int64_t merged(const LayerCall& call, int64_t t, int64_t column) {
    const int64_t width = call.value_width;
    return (column / width * call.tokens + t) * width + column % width;
  }
  // `merged`: a row, [H dv].
  static float output(const LayerCall& call, const float* merged,
                      int64_t column) {
    float sum = 0;
    for (int64_t i = 0; i < call.w_o.rows; ++i) {
      sum += merged[i] * call.w_o.matrix.get(i, column);
    }
    return call.w_o.bias.present() ? sum + call.w_o.bias.get(column) : sum;
  }
};

// The stages in f32, contiguous.
struct Stages {
  float* q;         // [B, H, T, d]
  float* k;         // [B, Hkv, T, d]
  float* v;         // [B, Hkv, T, dv]
  float* attended;  // [B, H, T, dv]
  float* row;       // [H dv], or [D]: a row of merged or of x
  float* lse;       // [B, H, T], NULL: not wanted
};

// Attention over stages, as a call.
inline ForwardCall heads_of(const LayerCall& call, const Stages& stages) {
  const int64_t t = call.tokens, d = call.width, dv = call.value_width;
  ForwardCall heads;
  heads.batch = call.batch;
  heads.heads = call.heads;
  heads.kv_heads = call.kv_heads;
  heads.queries = heads.keys = t;
  heads.width = d;
  heads.value_width = dv;
  heads.q = {stages.q, {call.heads * t * d, t * d, d, 1}};
  heads.k = {stages.k, {call.kv_heads * t * d, t * d, d, 1}};
  heads.v = {stages.v, {call.kv_heads * t * dv, t * dv, dv, 1}};
  heads.o = {stages.attended, {call.heads * t * dv, t * dv, dv, 1}};
  heads.lse = {stages.lse, {call.heads * t, t, 1}};
  heads.scale = call.scale;
  heads.causal = call.causal;
  return heads;
}

template <class Hooks>
struct LayerSkeleton {
  // x W + b, split into heads: to is [B, heads, T, width].
  static void project(const LayerCall& call, Role role, int64_t heads,
                      int64_t width, float* x, float* to) {
    const Projection& by = Hooks::matrix(call, role);
    const bool biased = by.bias.present() && Hooks::bias(role);
    for (int64_t b = 0; b < call.batch; ++b) {
      float* const member = to + b * heads * call.tokens * width;
      for (int64_t t = 0; t < call.tokens; ++t) {
        for (int64_t i = 0; i < call.model_width; ++i) {
          x[i] = call.x.get(b, t, i);
        }
        for (int64_t column = 0; column < heads * width; ++column) {
          const InputRange range = Hooks::input(call, heads, column / width);
          const int64_t at = Hooks::column(call, role, column);
          float sum = 0;
          for (int64_t i = range.begin; i < range.end; ++i) {
            sum += x[i] * by.matrix.get(i, at);
          }
          sum = biased ? sum + by.bias.get(at) : sum;
          member[Hooks::split(call, heads, width, t, column)] =
              Hooks::stage(call, sum);
        }
      }
    }
  }

  static void turn(const LayerCall& call, const Stages& stages) {
    if (!call.rope.present()) {
      return;
    }
    Hooks::turn(call, stages.q, stages.k);
    const int64_t elements =
        call.batch * (call.heads + call.kv_heads) * call.tokens * call.width;
    for (int64_t n = 0; n < elements; ++n) {  // k follows q
      stages.q[n] = Hooks::stage(call, stages.q[n]);
    }
  }

  static qkvet_status attend(const LayerCall& call, const Stages& stages,
                             qkvet_text* why) {
    ForwardCall heads = heads_of(call, stages);
    if (call.buffer.data != nullptr) {
      Hooks::mask(call, &heads);
    }
    QKVET_TRY(compute_rows<PlainRow>(heads, why));
    if (call.weights.present()) {
      write_weights(heads, call.weights, Hooks::weight);
    }
    const int64_t elements =
        call.batch * call.heads * call.tokens * call.value_width;
    for (int64_t n = 0; n < elements; ++n) {
      stages.attended[n] = Hooks::stage(call, stages.attended[n]);
    }
    return QKVET_OK;
  }

  static void write_outputs(const LayerCall& call, const Stages& stages) {
    const int64_t columns = call.heads * call.value_width;
    for (int64_t b = 0; b < call.batch; ++b) {
      const float* const member = stages.attended + b * columns * call.tokens;
      for (int64_t t = 0; t < call.tokens; ++t) {
        for (int64_t column = 0; column < columns; ++column) {
          stages.row[column] = member[Hooks::merged(call, t, column)];
        }
        for (int64_t column = 0; column < call.model_width; ++column) {
          call.y.set(b, t, column, 0, Hooks::output(call, stages.row, column));
        }
      }
    }
    const ForwardCall heads = heads_of(call, stages);
    return_stages(call, heads, read_only(heads.o));
  }

  // Everything up to the merge.
  static qkvet_status compute_stages(const LayerCall& call,
                                     const Stages& stages, qkvet_text* why) {
    const int64_t d = call.width, dv = call.value_width;
    project(call, Role::kQuery, call.heads, d, stages.row, stages.q);
    project(call, Role::kKey, call.kv_heads, d, stages.row, stages.k);
    project(call, Role::kValue, call.kv_heads, dv, stages.row, stages.v);
    turn(call, stages);
    return attend(call, stages, why);
  }

  static qkvet_status compute(const LayerCall& call, qkvet_text* why) {
    const int64_t tokens = call.batch * call.tokens;
    const int64_t d = call.width, dv = call.value_width;
    const int64_t merged = call.heads * dv;
    const int64_t row = merged < call.model_width ? call.model_width : merged;
    const int64_t floats =
        tokens * (call.heads + call.kv_heads) * (d + dv) + row;
    std::unique_ptr<float[]> memory;
    QKVET_TRY(allocate(floats, &memory, why, "no memory for the stages"));
    Stages stages = {};
    stages.q = memory.get();
    stages.k = stages.q + tokens * call.heads * d;
    stages.v = stages.k + tokens * call.kv_heads * d;
    stages.attended = stages.v + tokens * call.kv_heads * dv;
    stages.row = stages.attended + tokens * merged;
    QKVET_TRY(compute_stages(call, stages, why));
    write_outputs(call, stages);
    return QKVET_OK;
  }

  static qkvet_status forward(const qkvet_kernel* self, qkvet_context*,
                              const qkvet_layer_args* args,
                              const qkvet_exec* exec, qkvet_text* why) {
    qkvet_layer_args known = {};
    int64_t shape[2] = {};
    LayerCall call;
    QKVET_TRY(check_exec(exec, why));
    QKVET_TRY(read_struct(args, &known, why));
    Hooks::cut(&known, shape);
    QKVET_TRY(read_layer(self, known, &call, why));
    if (call.fused != QKVET_FUSED_NONE) {
      Hooks::fuse(&call);
    }
    return compute(call, why);
  }
};

// Stages in f32.
template <class Hooks>
inline constexpr qkvet_layer_table kLayerTable =
    layer_table(LayerSkeleton<Hooks>::forward, kF32);

// Attention and projections alike: one lane, ascending, products rounded.
inline constexpr qkvet_precision kLayerPrecision = sequential_f32();

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_LAYER_SKELETON_H_

// SPDX-License-Identifier: Apache-2.0
// Faults of layers: projections, heads, rows of weights, fused matrices, and
// the mask buffer.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "impl/faulty/fault.h"
#include "impl/skeletons/layer_skeleton.h"

namespace qkvet::impl {
struct SharedProjection : PlainLayer {
  static const Projection& matrix(const LayerCall& call, Role role) {
    const Projection& own = PlainLayer::matrix(call, role);
    return own.columns == call.w_q.columns ? call.w_q : own;
  }
};
QKVET_FAULT(shared_projection, kLayerFault<SharedProjection>) = {
    .when = "Hkv == H || Hkv * dv == H * d",
    .cause = "W_Q and b_Q project q, k and v alike: one linear layer is called "
             "three times",
    .fix = "give each of q, k and v its own matrix",
    .killed_by = {"projections_are_separate", "layer_agrees_with_oracle"},
};

struct ReshapeBeforeProjection : PlainLayer {
  // Head h of `heads` sees its own slice of x, and of the matrix its own block.
  static InputRange input(const LayerCall& call, int64_t heads, int64_t h) {
    if (call.model_width % heads != 0) return PlainLayer::input(call, heads, h);
    const int64_t slice = call.model_width / heads;
    return {h * slice, (h + 1) * slice};
  }
};
QKVET_FAULT(reshape_before_projection, kLayerFault<ReshapeBeforeProjection>) = {
    .when = "H > 1 && D % H == 0 || Hkv > 1 && D % Hkv == 0",
    .cause = "each head is projected from its own slice of x by its own block: "
             "x is reshaped to [B, T, H, D / H] too early",
    .fix = "project the whole row of x, then split the result",
    .killed_by = {"split_and_merge_place_every_element",
                  "layer_agrees_with_oracle"},
};

struct SplitWithoutTranspose : PlainLayer {
  // [T, heads width] taken for [heads, T, width].
  static int64_t split(const LayerCall&, int64_t heads, int64_t width,
                       int64_t t, int64_t column) {
    return t * heads * width + column;
  }
};
QKVET_FAULT(split_without_transpose, kLayerFault<SplitWithoutTranspose>) = {
    .when = "H > 1 && Tq > 1",
    .cause = "the memory of [B, T, H d] is read as [B, H, T, d], without a "
             "transpose",
    .fix = "reshape to [B, T, H, d] first, then transpose heads and tokens",
    .source = "reczoo/FuxiCTR#30",
    .killed_by = {"split_and_merge_place_every_element",
                  "layer_agrees_with_oracle"},
};

struct HeadsNotMerged : PlainLayer {
  // [H, T, dv] taken for [T, H dv].
  static int64_t merged(const LayerCall& call, int64_t t, int64_t column) {
    return t * call.heads * call.value_width + column;
  }
};
QKVET_FAULT(heads_not_merged, kLayerFault<HeadsNotMerged>) = {
    .when = "H > 1 && Tq > 1",
    .cause = "the memory of [B, H, T, dv] is read as [B, T, H dv], without a "
             "transpose",
    .fix = "transpose heads and tokens before the merge",
    .source = "jsbaan/transformer-from-scratch#6, Modalities/modalities#115",
    .killed_by = {"split_and_merge_place_every_element",
                  "layer_agrees_with_oracle"},
};

struct OutputProjectionOmitted : PlainLayer {
  static float output(const LayerCall& call, const float* merged,
                      int64_t column) {
    if (call.w_o.rows != call.model_width)
      return PlainLayer::output(call, merged, column);
    return call.w_o.bias.present() ? merged[column] + call.w_o.bias.get(column)
                                   : merged[column];
  }
};
QKVET_FAULT(output_projection_omitted, kLayerFault<OutputProjectionOmitted>) = {
    .when = "H * dv == D",
    .cause = "the merged heads are returned, and W_O is never used",
    .fix = "multiply the merged heads by W_O",
    .killed_by = {"output_projection_is_applied", "layer_agrees_with_oracle"},
};

struct OutputProjectionTransposed : PlainLayer {
  static float output(const LayerCall& call, const float* merged,
                      int64_t column) {
    const int64_t rows = call.w_o.rows;
    if (rows != call.model_width)
      return PlainLayer::output(call, merged, column);
    float sum = 0;
    for (int64_t i = 0; i < rows; ++i)
      sum += merged[i] * call.w_o.matrix.get(column, i);
    return call.w_o.bias.present() ? sum + call.w_o.bias.get(column) : sum;
  }
};
QKVET_FAULT(output_projection_transposed,
            kLayerFault<OutputProjectionTransposed>) = {
    .when = "H * dv == D && D > 1",
    .cause = "the merged heads are multiplied by the transpose of W_O: the "
             "checkpoint stores it the other way round",
    .fix = "multiply by W_O as it is declared: rows are the inputs",
    .killed_by = {"split_and_merge_place_every_element",
                  "layer_agrees_with_oracle"},
};

struct ValueBiasIgnored : PlainLayer {
  static bool bias(Role role) { return role != Role::kValue; }
};
QKVET_FAULT(value_bias_ignored, kLayerFault<ValueBiasIgnored>) = {
    .when = "b_v",
    .cause = "b_V is not added: one of four biases is not passed on",
    .fix = "add b_V to the projection of the values",
    .killed_by = {"every_bias_counts", "layer_agrees_with_oracle"},
};

struct RopeOnQueryAlone : PlainLayer {
  static void turn(const LayerCall& call, float* q, float* /*k*/) {
    turn_heads(call, call.heads, q);
  }
};
QKVET_FAULT(rope_on_query_alone, kLayerFault<RopeOnQueryAlone>) = {
    .when = "rope && (rope.random || rope.first > 0 || Tq > 1)",
    .cause = "q is rotated, k is not: keys are taken from before the rotation",
    .fix = "rotate k by the positions of its tokens",
    .killed_by = {"layer_agrees_with_oracle"},
};

struct LayerWeightsUnnormalised : PlainLayer {
  static double weight(double exponential, double) { return exponential; }
};
QKVET_FAULT(layer_weights_unnormalised,
            kLayerFault<LayerWeightsUnnormalised>) = {
    .when = "Tq > 1",
    .cause = "exp(score - largest score) is returned as the weight: the "
             "division comes after the store",
    .fix = "divide what is returned by the sum of its row",
    .killed_by = {"layer_weights_sum_to_one", "layer_agrees_with_oracle"},
};

struct SurplusRowsAccepted : PlainLayer {
  static void cut(qkvet_layer_args* args, int64_t* shape) {
    const qkvet_tensor &v = args->w_v, &o = args->w_o;
    if (v.ndim != 2 || o.ndim != 2 || v.shape == nullptr ||
        o.shape == nullptr || args->kv_heads < 1) {
      return;
    }
    const int64_t rows = args->heads * (v.shape[1] / args->kv_heads);
    if (o.shape[0] > rows) {
      shape[0] = rows;
      shape[1] = o.shape[1];
      args->w_o.shape = shape;
    }
  }
};
QKVET_FAULT(surplus_rows_accepted, kLayerFault<SurplusRowsAccepted>) = {
    .when = "mistake == output_rows",
    .cause = "rows of W_O beyond H dv are ignored: its extents are not "
             "compared with the merged heads",
    .fix = "refuse matrices whose extents do not fit, and name both numbers",
    .killed_by = {"mismatched_widths_are_refused"},
};

struct KeyMatrixSizedAsQueryMatrix : PlainLayer {
  // Its elements one behind the other, in rows that are too long for it; what
  // is left of them is 0.
  static const Projection& matrix(const LayerCall& call, Role role) {
    const Projection& own = PlainLayer::matrix(call, role);
    if (role != Role::kKey) return own;
    thread_local std::vector<float> fused;
    thread_local Projection copy;
    const int64_t columns = call.w_q.columns;
    fused.assign(static_cast<size_t>(own.rows * columns), 0);
    for (int64_t n = 0; n < own.rows * own.columns; ++n)
      fused[static_cast<size_t>(n)] =
          own.matrix.get(n / own.columns, n % own.columns);
    copy = own;
    copy.matrix = {fused.data(), Storage::kF32, {columns, 1, 0, 0}};
    return copy;
  }
};
QKVET_FAULT(key_matrix_sized_as_query_matrix,
            kLayerFault<KeyMatrixSizedAsQueryMatrix>) = {
    .when = "H > Hkv && D > 1",
    .cause =
        "W_K is fused with the other matrices by the number of columns of W_Q",
    .fix = "read the extents of every matrix from that matrix",
    .source = "microsoft/onnxruntime#13050",
    .killed_by = {"layer_agrees_with_oracle"},
};

struct FusedEqualThirds : PlainLayer {
  static void fuse(LayerCall* call) {
    const int64_t columns = call->w_qkv.columns;
    const char* part = parts_in_order(call->fused);
    for (int64_t n = 0; n < 3; ++n) {
      Projection* const to = part[n] == 'q'   ? &call->w_q
                             : part[n] == 'k' ? &call->w_k
                                              : &call->w_v;
      // The last one is moved back into the matrix.
      take_part(*call, std::min(n * (columns / 3), columns - to->columns), to);
    }
  }
};
QKVET_FAULT(fused_equal_thirds, kLayerFault<FusedEqualThirds>) = {
    .when = "fused != none && (H > Hkv || dv != d)",
    .cause = "the parts of w_qkv begin at its thirds, though K and V are "
             "narrower: chunk(3) fits multi-head attention alone",
    .fix = "split at H d and H d + Hkv d, and compare the sum with the columns",
    .source = "vllm-project/vllm#13686, AutoGPTQ/AutoGPTQ#436",
    .killed_by = {"fused_equals_separate", "layer_agrees_with_oracle"},
};

struct FusedOrderAssumed : PlainLayer {
  static void fuse(LayerCall* call) {
    take_part(*call, 0, &call->w_q);
    take_part(*call, call->w_q.columns, &call->w_k);
    take_part(*call, call->w_q.columns + call->w_k.columns, &call->w_v);
  }
};
QKVET_FAULT(fused_order_assumed, kLayerFault<FusedOrderAssumed>) = {
    .when = "fused != none && fused != qkv",
    .cause = "the parts of w_qkv are taken as Q, K, V in this order: the "
             "loader was written for one model",
    .fix = "read the order that is declared with the matrix",
    .killed_by = {"fused_equals_separate", "layer_agrees_with_oracle"},
};

struct FusedHeadsInterleaved : PlainLayer {
  static const Projection& matrix(const LayerCall& call, Role role) {
    return call.fused != QKVET_FUSED_NONE ? call.w_qkv
                                          : PlainLayer::matrix(call, role);
  }
  // Every key head has a block: its query heads, its keys and its values, in
  // the declared order.
  static int64_t column(const LayerCall& call, Role role, int64_t column) {
    if (call.fused == QKVET_FUSED_NONE) return column;
    const int64_t group = call.heads / call.kv_heads;
    const int64_t widths[] = {group * call.width, call.width, call.value_width};
    const auto own = static_cast<size_t>(role);
    int64_t before = 0;
    for (const char* part = parts_in_order(call.fused); *part != "qkv"[own];
         ++part) {
      before += widths[*part == 'q' ? 0 : *part == 'k' ? 1 : 2];
    }
    const int64_t block = widths[0] + widths[1] + widths[2];
    return column / widths[own] * block + before + column % widths[own];
  }
};
QKVET_FAULT(fused_heads_interleaved, kLayerFault<FusedHeadsInterleaved>) = {
    .when = "fused != none && Hkv > 1",
    .cause = "columns of w_qkv are taken as [head][q k v] instead of [q k "
             "v][head], as another model stores them",
    .fix = "permute the columns when the checkpoint is converted",
    .source = "huggingface/transformers, GPTNeoXAttention: view(.., heads, 3 "
              "d), against c_attn of GPT-2",
    .killed_by = {"fused_equals_separate", "layer_agrees_with_oracle"},
};

struct MaskBufferUnslicedStride : PlainLayer {
  static void mask(const LayerCall& call, ForwardCall* heads) {
    heads->causal = false;
    heads->options.mask = {call.buffer.data,
                           {0, 0, call.tokens, call.buffer.step[1]}};
  }
};
QKVET_FAULT(mask_buffer_unsliced_stride,
            kLayerFault<MaskBufferUnslicedStride>) = {
    .when = "context > Tq && Tq > 1",
    .cause = "the mask buffer is read with rows of T elements, though they "
             "have C: the slice [:T, :T] is passed as a pointer",
    .fix = "pass the row stride of the buffer, or copy the slice",
    .killed_by = {"layer_agrees_with_oracle"},
};

struct MaskBufferFromTheEnd : PlainLayer {
  static void mask(const LayerCall& call, ForwardCall* heads) {
    heads->causal = false;
    const int64_t first = call.context - call.tokens;
    heads->options.mask = {call.buffer.data + first * call.buffer.step[0],
                           {0, 0, call.buffer.step[0], call.buffer.step[1]}};
  }
};
QKVET_FAULT(mask_buffer_from_the_end, kLayerFault<MaskBufferFromTheEnd>) = {
    .when = "context > Tq && Tq > 1",
    .cause = "a text of T tokens gets rows C - T .. C - 1 of the mask buffer: "
             "the slice is that of a decoding step",
    .fix = "take rows 0 .. T - 1 where the text begins",
    .killed_by = {"layer_agrees_with_oracle"},
};

struct ContextOverrunAccepted : PlainLayer {
  static void cut(qkvet_layer_args* args, int64_t*) {
    const qkvet_tensor &x = args->x, &buffer = args->mask_buffer;
    if (x.ndim < 2 || x.shape == nullptr || buffer.ndim != 2 ||
        buffer.shape == nullptr || buffer.shape[0] >= x.shape[x.ndim - 2]) {
      return;
    }
    args->mask_buffer = {};
  }
};
QKVET_FAULT(context_overrun_accepted, kLayerFault<ContextOverrunAccepted>) = {
    .when = "context > 0",
    .cause = "a mask buffer of fewer than T tokens is dropped, and no key is "
             "hidden: T is not compared with C",
    .fix = "refuse the text, and name both lengths",
    .killed_by = {"context_overrun_is_refused"},
};

struct LayerScaleOfFirstCall : PlainLayer {
  static void cut(qkvet_layer_args* args, int64_t*) {
    if (args->x.ndim < 2) return;
    thread_local std::map<std::array<int64_t, 3>, std::pair<int32_t, float>>
        compiled;
    const auto& known =
        compiled
            .try_emplace({args->x.ndim, args->x.shape[0], args->x.shape[1]},
                         args->scale_given, args->scale)
            .first->second;
    args->scale_given = known.first;
    args->scale = known.second;
  }
};
QKVET_FAULT(layer_scale_of_first_call, kLayerFault<LayerScaleOfFirstCall>) = {
    .cause = "a layer has the scale of the first layer of the process that had "
             "the same extents: it is not in the compiled key",
    .fix = "include every compiled-in number in the key",
    .source = "textbook, cf. flashinfer-ai/flashinfer#4014",
    .killed_by = {"layer_calls_before_change_nothing"},
};

namespace {

// W_O is taken for contiguous.
qkvet_status with_contiguous_w_o(const qkvet_kernel* self,
                                 qkvet_context* context,
                                 const qkvet_layer_args* args,
                                 const qkvet_exec* exec, qkvet_text* why) {
  qkvet_layer_args known = {};
  QKVET_TRY(read_struct(args, &known, why));
  int64_t strides[2] = {};
  if (known.w_o.ndim == 2 && known.w_o.shape != nullptr) {
    strides[0] = known.w_o.shape[1];
    strides[1] = 1;
    known.w_o.strides = strides;
  }
  return kLayerTable<PlainLayer>.forward(self, context, &known, exec, why);
}
inline constexpr qkvet_layer_table kContiguousWo = [] {
  qkvet_layer_table table = kLayerTable<PlainLayer>;
  table.forward = with_contiguous_w_o;
  return table;
}();

}  // namespace

QKVET_FAULT(output_matrix_taken_for_contiguous,
            layer_kernel("", "", {}, &kLayerPrecision, &kContiguousWo)) = {
    .when = "layout != bhtd",
    .cause = "w_o is read as if it were contiguous: a view of the [out, in] of "
             "nn.Linear looks like [in, out]",
    .fix = "take every stride from its tensor",
    .killed_by = {"layer_agrees_with_oracle"},
};

namespace {

// NaN in y becomes 0.
qkvet_status without_nan_in_y(const qkvet_kernel* self, qkvet_context* context,
                              const qkvet_layer_args* args,
                              const qkvet_exec* exec, qkvet_text* why) {
  const qkvet_status status =
      kLayerTable<PlainLayer>.forward(self, context, args, exec, why);
  const qkvet_tensor& y = args->y;
  if (status != QKVET_OK || y.dtype.bits != 32) {
    return status;
  }
  const int64_t rows = y.shape[y.ndim - 2], columns = y.shape[y.ndim - 1];
  const View<float> all = view_of<float>(y);
  for (int64_t b = 0; b < (y.ndim == 3 ? y.shape[0] : 1); ++b) {
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t c = 0; c < columns; ++c) {
        float& value = y.ndim == 3 ? *all.at(b, t, c) : *all.at(t, c, 0);
        value = std::isnan(value) ? 0 : value;
      }
    }
  }
  return status;
}
inline constexpr qkvet_layer_table kWithoutNan = [] {
  qkvet_layer_table table = kLayerTable<PlainLayer>;
  table.forward = without_nan_in_y;
  return table;
}();

}  // namespace

QKVET_FAULT(layer_nan_to_number,
            layer_kernel("", "", {}, &kLayerPrecision, &kWithoutNan)) = {
    .cause = "NaN in y becomes 0: a guard for rows without a key, at the end "
             "of the layer, covers all rows",
    .fix = "write 0 into rows that see no key, and into no others",
    .source = "textbook, cf. pytorch/pytorch#103749",
    .killed_by = {"layer_nan_reaches_its_rows"},
};

}  // namespace qkvet::impl

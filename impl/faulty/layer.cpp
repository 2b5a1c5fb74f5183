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
namespace {

// The kernel of a fault: Hooks derives from PlainLayer and replaces one hook.
template <class Hooks>
constexpr qkvet_kernel layer_fault(const char* name, const char* description,
                                   Place place) {
  return layer_kernel(name, description, place, &kLayerPrecision,
                      &kLayerTable<Hooks>);
}

}  // namespace

// k and v are made with the matrix of q.
struct SharedProjection : PlainLayer {
  static const Projection& matrix(const LayerCall& call, Role role) {
    const Projection& own = PlainLayer::matrix(call, role);
    return own.columns == call.w_q.columns ? call.w_q : own;
  }
};
QKVET_FAULT(shared_projection) = {
    .kernel = layer_fault<SharedProjection>,
    .mechanism = "W_Q and b_Q project q, k and v alike",
    .symptom = "every token attends most to itself; W_K and W_V change nothing",
    .cause =
        "one linear layer is called three times, or one initialiser is reused",
    .fix = "give each of q, k and v its own matrix",
    .source = "textbook",
    .trigger = "matrices that differ, and as many key as query heads",
    .killed_by = {"projections_are_separate", "layer_agrees_with_oracle"},
    .when = "Hkv == H || Hkv * dv == H * d",
};

// x is split into heads before it is projected.
struct ReshapeBeforeProjection : PlainLayer {
  // Head h of `heads` sees its own slice of x, and of the matrix its own block.
  static InputRange input(const LayerCall& call, int64_t heads, int64_t h) {
    if (call.model_width % heads != 0) {
      return PlainLayer::input(call, heads, h);
    }
    const int64_t slice = call.model_width / heads;
    return {h * slice, (h + 1) * slice};
  }
};
QKVET_FAULT(reshape_before_projection) = {
    .kernel = layer_fault<ReshapeBeforeProjection>,
    .mechanism =
        "each head is projected from its own slice of x by its own block of "
        "the matrix",
    .symptom =
        "every shape fits; heads never see the rest of x, and most of the "
        "matrices is never read",
    .cause = "x is reshaped to [B, T, H, D / H] before the projection",
    .fix = "project the whole row of x, then split the result",
    .source = "textbook",
    .trigger =
        "more than one head, a number of heads that divides D, and matrices "
        "with entries off the blocks",
    .killed_by = {"split_and_merge_place_every_element",
                  "layer_agrees_with_oracle"},
    .when = "H > 1 && D % H == 0 || Hkv > 1 && D % Hkv == 0",
};

// A projection is reshaped into heads as it lies in memory.
struct SplitWithoutTranspose : PlainLayer {
  // [T, heads width] taken for [heads, T, width].
  static int64_t split(const LayerCall&, int64_t heads, int64_t width,
                       int64_t t, int64_t column) {
    return t * heads * width + column;
  }
};
QKVET_FAULT(split_without_transpose) = {
    .kernel = layer_fault<SplitWithoutTranspose>,
    .mechanism =
        "the memory of [B, T, H d] is read as [B, H, T, d], without a "
        "transpose",
    .symptom =
        "every shape fits; a head holds pieces of all heads of a few tokens",
    .cause =
        "x.view(B, H, T, d) stands where x.view(B, T, H, d).transpose(1, 2) "
        "belongs",
    .fix = "reshape to [B, T, H, d] first, then transpose heads and tokens",
    .source = "textbook",
    .trigger = "more than one head and more than one token",
    .killed_by = {"split_and_merge_place_every_element",
                  "layer_agrees_with_oracle"},
    .when = "H > 1 && Tq > 1",
};

// Attended goes into W_O head by head, as it lies in memory.
struct HeadsNotMerged : PlainLayer {
  // [H, T, dv] taken for [T, H dv].
  static int64_t merged(const LayerCall& call, int64_t t, int64_t column) {
    return t * call.heads * call.value_width + column;
  }
};
QKVET_FAULT(heads_not_merged) = {
    .kernel = layer_fault<HeadsNotMerged>,
    .mechanism =
        "the memory of [B, H, T, dv] is read as [B, T, H dv], without a "
        "transpose",
    .symptom =
        "every shape fits; tokens and heads are mixed up, and a causal layer "
        "sees the future",
    .cause = "a reshape stands where a transpose and a reshape belong",
    .fix = "transpose heads and tokens before the merge",
    .source = "textbook",
    .trigger = "more than one head and more than one token",
    .killed_by = {"split_and_merge_place_every_element",
                  "layer_agrees_with_oracle"},
    .when = "H > 1 && Tq > 1",
};

// y is what the heads give.
struct OutputProjectionOmitted : PlainLayer {
  static float output(const LayerCall& call, const float* merged,
                      int64_t column) {
    if (call.w_o.rows != call.model_width) {
      return PlainLayer::output(call, merged, column);
    }
    return call.w_o.bias.present() ? merged[column] + call.w_o.bias.get(column)
                                   : merged[column];
  }
};
QKVET_FAULT(output_projection_omitted) = {
    .kernel = layer_fault<OutputProjectionOmitted>,
    .mechanism = "the merged heads are returned, and W_O is never used",
    .symptom =
        "the shapes are right where H dv is D; heads never meet each other",
    .cause = "the last product of the layer is left out",
    .fix = "multiply the merged heads by W_O",
    .source = "textbook",
    .trigger = "H dv equal to D, and a W_O that is not the identity",
    .killed_by = {"output_projection_is_applied", "layer_agrees_with_oracle"},
    .when = "H * dv == D",
};

// The output projection is transposed.
struct OutputProjectionTransposed : PlainLayer {
  static float output(const LayerCall& call, const float* merged,
                      int64_t column) {
    const int64_t rows = call.w_o.rows;
    if (rows != call.model_width) {
      return PlainLayer::output(call, merged, column);
    }
    float sum = 0;
    for (int64_t i = 0; i < rows; ++i) {
      sum += merged[i] * call.w_o.matrix.get(column, i);
    }
    return call.w_o.bias.present() ? sum + call.w_o.bias.get(column) : sum;
  }
};
QKVET_FAULT(output_projection_transposed) = {
    .kernel = layer_fault<OutputProjectionTransposed>,
    .mechanism = "the merged heads are multiplied by the transpose of W_O",
    .symptom =
        "the shapes are right where H dv is D; symmetric matrices hide it",
    .cause = "a checkpoint whose matrices are stored the other way round",
    .fix = "multiply by W_O as it is declared: rows are the inputs",
    .source = "textbook",
    .trigger = "H dv equal to D, above 1, and a W_O that is not symmetric",
    .killed_by = {"split_and_merge_place_every_element",
                  "layer_agrees_with_oracle"},
    .when = "H * dv == D && D > 1",
};

// v is projected without its bias.
struct ValueBiasIgnored : PlainLayer {
  static bool bias(Role role) { return role != Role::kValue; }
};
QKVET_FAULT(value_bias_ignored) = {
    .kernel = layer_fault<ValueBiasIgnored>,
    .mechanism = "b_V is not added",
    .symptom = "y is off by the same row b_V W_O everywhere",
    .cause = "one of four biases is not passed on",
    .fix = "add b_V to the projection of the values",
    .source = "textbook",
    .trigger = "a b_V that is given and not zero",
    .killed_by = {"every_bias_counts", "layer_agrees_with_oracle"},
    .when = "b_v",
};

// A layer that rotates q and leaves k as it is.
struct RopeOnQueryAlone : PlainLayer {
  static void turn(const LayerCall& call, float* q, float* /*k*/) {
    turn_heads(call, call.heads, q);
  }
};
QKVET_FAULT(rope_on_query_alone) = {
    .kernel = layer_fault<RopeOnQueryAlone>,
    .mechanism = "q is rotated, k is not",
    .symptom = "only the first token of a text attends rightly",
    .cause = "keys are taken from before the rotation",
    .fix = "rotate k by the positions of its tokens",
    .source = "textbook",
    .trigger = "a rotation, and a token that does not stand at 0",
    .killed_by = {"layer_agrees_with_oracle"},
    .when = "rope && (rope.random || rope.first > 0 || Tq > 1)",
};

// The weights that are returned are not divided.
struct LayerWeightsUnnormalised : PlainLayer {
  static double weight(double exponential, double) { return exponential; }
};
QKVET_FAULT(layer_weights_unnormalised) = {
    .kernel = layer_fault<LayerWeightsUnnormalised>,
    .mechanism = "exp(score - largest score) is returned for the weight",
    .symptom =
        "the output is right; the weights of a row add up to more than one",
    .cause =
        "the sum is divided out at the end, when the weights are long stored",
    .fix = "divide what is returned by the sum of its row",
    .source = "textbook",
    .trigger = "weights, and a row that sees more than one key",
    .killed_by = {"layer_weights_sum_to_one", "layer_agrees_with_oracle"},
    .when = "Tq > 1",
};

// A W_O that is too long is cut to fit.
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
QKVET_FAULT(surplus_rows_accepted) = {
    .kernel = layer_fault<SurplusRowsAccepted>,
    .mechanism = "rows of W_O beyond H dv are ignored",
    .symptom =
        "a checkpoint of another model loads, and the layer computes something",
    .cause =
        "the loop runs over the columns of merged, and nothing compares them "
        "with W_O",
    .fix = "refuse matrices whose extents do not fit, and name both numbers",
    .source = "textbook",
    .trigger = "a W_O with more rows than H dv",
    .killed_by = {"mismatched_widths_are_refused"},
    .when = "mistake == output_rows",
};

// W_K is copied as if it had the columns of W_Q.
struct KeyMatrixSizedAsQueryMatrix : PlainLayer {
  // Its elements one behind the other, in rows that are too long for it; what
  // is left of them is 0.
  static const Projection& matrix(const LayerCall& call, Role role) {
    const Projection& own = PlainLayer::matrix(call, role);
    if (role != Role::kKey) {
      return own;
    }
    thread_local std::vector<float> fused;
    thread_local Projection copy;
    const int64_t columns = call.w_q.columns;
    fused.assign(static_cast<size_t>(own.rows * columns), 0);
    for (int64_t n = 0; n < own.rows * own.columns; ++n) {
      fused[static_cast<size_t>(n)] =
          own.matrix.get(n / own.columns, n % own.columns);
    }
    copy = own;
    copy.matrix = {fused.data(), Storage::kF32, {columns, 1, 0, 0}};
    return copy;
  }
};
QKVET_FAULT(key_matrix_sized_as_query_matrix) = {
    .kernel = layer_fault<KeyMatrixSizedAsQueryMatrix>,
    .mechanism =
        "W_K is fused with the other matrices by the number of columns of W_Q",
    .symptom =
        "right if there are as many key heads as query heads; else keys are "
        "made of other rows, and of zeros",
    .cause = "an optimiser asks one weight for the size of all three",
    .fix = "read the extents of every matrix from that matrix",
    .source = "microsoft/onnxruntime#13050",
    .trigger = "Hkv < H and D > 1",
    .killed_by = {"layer_agrees_with_oracle"},
    .when = "H > Hkv && D > 1",
};

// A fused matrix is cut into three equal parts.
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
QKVET_FAULT(fused_equal_thirds) = {
    .kernel = layer_fault<FusedEqualThirds>,
    .mechanism =
        "the parts of w_qkv begin at its thirds, though K and V are narrower",
    .symptom =
        "right for as many key heads as query heads; with grouped heads K and "
        "V are made of columns of Q and of each other",
    .cause =
        "the split is written for multi-head attention, as chunk(3), and a "
        "model with grouped heads is loaded",
    .fix = "split at H d and H d + Hkv d, and compare the sum with the columns",
    .source = "vllm-project/vllm#13686",
    .trigger = "fused projections whose parts differ in width",
    .killed_by = {"fused_equals_separate", "layer_agrees_with_oracle"},
    .when = "fused != none && (H > Hkv || dv != d)",
};

// A fused matrix is cut as Q, K, V, whatever is declared.
struct FusedOrderAssumed : PlainLayer {
  static void fuse(LayerCall* call) {
    take_part(*call, 0, &call->w_q);
    take_part(*call, call->w_q.columns, &call->w_k);
    take_part(*call, call->w_q.columns + call->w_k.columns, &call->w_v);
  }
};
QKVET_FAULT(fused_order_assumed) = {
    .kernel = layer_fault<FusedOrderAssumed>,
    .mechanism = "the parts of w_qkv are taken as Q, K, V in this order",
    .symptom =
        "checkpoints of one family of models work; those of another give "
        "fluent nonsense",
    .cause = "the order of one model is written into the loader",
    .fix = "read the order that is declared with the matrix",
    .source = "textbook",
    .trigger = "fused projections in another order than Q, K, V",
    .killed_by = {"fused_equals_separate", "layer_agrees_with_oracle"},
    .when = "fused != none && fused != qkv",
};

// A fused matrix is read head by head.
struct FusedHeadsInterleaved : PlainLayer {
  static const Projection& matrix(const LayerCall& call, Role role) {
    return call.fused != QKVET_FUSED_NONE ? call.w_qkv
                                          : PlainLayer::matrix(call, role);
  }
  // Every key head has a block: its query heads, its keys and its values, in
  // the declared order.
  static int64_t column(const LayerCall& call, Role role, int64_t column) {
    if (call.fused == QKVET_FUSED_NONE) {
      return column;
    }
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
QKVET_FAULT(fused_heads_interleaved) = {
    .kernel = layer_fault<FusedHeadsInterleaved>,
    .mechanism =
        "columns of w_qkv are taken as [head][q k v] and not as [q k v][head]",
    .symptom = "every shape fits, and heads are made of pieces of each other",
    .cause =
        "the matrix of a model that keeps the parts of a head together is "
        "taken for one that keeps the heads of a part together, or the other "
        "way round",
    .fix = "permute the columns when the checkpoint is converted",
    .source =
        "huggingface/transformers, GPTNeoXAttention: view(.., heads, 3 d), "
        "against c_attn of GPT-2",
    .trigger = "fused projections and more than one key head",
    .killed_by = {"fused_equals_separate", "layer_agrees_with_oracle"},
    .when = "fused != none && Hkv > 1",
};

// The rows of a mask buffer are taken T apart.
struct MaskBufferUnslicedStride : PlainLayer {
  static void mask(const LayerCall& call, ForwardCall* heads) {
    heads->causal = false;
    heads->options.mask = {call.buffer.data,
                           {0, 0, call.tokens, call.buffer.step[1]}};
  }
};
QKVET_FAULT(mask_buffer_unsliced_stride) = {
    .kernel = layer_fault<MaskBufferUnslicedStride>,
    .mechanism =
        "the mask buffer is read with rows of T elements, though they have C",
    .symptom =
        "right for texts of the full context; shorter ones see the future, and "
        "miss the past",
    .cause =
        "the slice [:T, :T] is handed on as a pointer, and the stride of the "
        "buffer is lost",
    .fix = "pass the row stride of the buffer, or copy the slice",
    .source = "textbook",
    .trigger = "a mask buffer for more than T tokens, and T > 1",
    .killed_by = {"layer_agrees_with_oracle"},
    .when = "context > Tq && Tq > 1",
};

// The last rows of a mask buffer are used.
struct MaskBufferFromTheEnd : PlainLayer {
  static void mask(const LayerCall& call, ForwardCall* heads) {
    heads->causal = false;
    const int64_t first = call.context - call.tokens;
    heads->options.mask = {call.buffer.data + first * call.buffer.step[0],
                           {0, 0, call.buffer.step[0], call.buffer.step[1]}};
  }
};
QKVET_FAULT(mask_buffer_from_the_end) = {
    .kernel = layer_fault<MaskBufferFromTheEnd>,
    .mechanism =
        "a text of T tokens gets rows C - T .. C - 1 of the mask buffer",
    .symptom = "every token sees the whole text where the text is short",
    .cause =
        "the slice [-T:, :T], or that of a step of decoding with an empty "
        "cache",
    .fix = "take rows 0 .. T - 1 where the text begins",
    .source = "textbook",
    .trigger = "a mask buffer for more than T tokens, and T > 1",
    .killed_by = {"layer_agrees_with_oracle"},
    .when = "context > Tq && Tq > 1",
};

// A text beyond the mask buffer goes on without it.
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
QKVET_FAULT(context_overrun_accepted) = {
    .kernel = layer_fault<ContextOverrunAccepted>,
    .mechanism =
        "a mask buffer of fewer than T tokens is dropped, and no key is hidden",
    .symptom = "texts beyond the context run, and their tokens see the future",
    .cause = "the mask is applied where it fits, and nothing compares T with C",
    .fix = "refuse the text, and name both lengths",
    .source = "textbook",
    .trigger = "more tokens than the mask buffer has rows",
    .killed_by = {"context_overrun_is_refused"},
    .when = "context > 0",
};

// The scale is part of what is compiled for a shape.
struct LayerScaleOfFirstCall : PlainLayer {
  static void cut(qkvet_layer_args* args, int64_t*) {
    if (args->x.ndim < 2) {
      return;
    }
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
QKVET_FAULT(layer_scale_of_first_call) = {
    .kernel = layer_fault<LayerScaleOfFirstCall>,
    .mechanism =
        "a layer has the scale of the first layer of the process that had the "
        "same extents",
    .symptom =
        "right for one model; the second one of like extents, with a scale of "
        "its own, has weights that are too sharp or too flat",
    .cause = "a compiled layer whose key has extents and no numbers",
    .fix = "put what is compiled in into the key",
    .source = "textbook, cf. flashinfer-ai/flashinfer#4014",
    .trigger = "two layers of the same extents with two scales",
    .killed_by = {"layer_calls_before_change_nothing"},
    .when = "",
};

namespace {

// W_O is taken for contiguous.
qkvet_status with_contiguous_w_o(const qkvet_kernel* self,
                                 qkvet_context* context,
                                 const qkvet_layer_args* args,
                                 const qkvet_exec* exec, qkvet_text* why) {
  qkvet_layer_args known = {};
  const qkvet_status status = read_struct(args, &known, why);
  if (status != QKVET_OK) {
    return status;
  }
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
constexpr qkvet_kernel contiguous_w_o_fault(const char* name,
                                            const char* description,
                                            Place place) {
  return layer_kernel(name, description, place, &kLayerPrecision,
                      &kContiguousWo);
}

}  // namespace

QKVET_FAULT(output_matrix_taken_for_contiguous) = {
    .kernel = contiguous_w_o_fault,
    .mechanism = "w_o is read as if it were contiguous, whatever its strides",
    .symptom =
        "right with a matrix of its own; with weights that are kept "
        "transposed, y is that of the other matrix",
    .cause =
        "nn.Linear keeps [out, in], and the view of it looks like [in, out]",
    .fix = "take every stride from its tensor",
    .source = "textbook",
    .trigger = "strides of w_o that are not those of its extents",
    .killed_by = {"layer_agrees_with_oracle"},
    .when = "layout != bhtd",
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
constexpr qkvet_kernel without_nan_fault(const char* name,
                                         const char* description, Place place) {
  return layer_kernel(name, description, place, &kLayerPrecision, &kWithoutNan);
}

}  // namespace

QKVET_FAULT(layer_nan_to_number) = {
    .kernel = without_nan_fault,
    .mechanism = "NaN in y becomes 0",
    .symptom = "training goes on with a broken token, and no loss is NaN",
    .cause = "a guard against rows without a key at the end of the layer",
    .fix = "write 0 into rows that see no key, and into no others",
    .source = "textbook, cf. pytorch/pytorch#103749",
    .trigger = "NaN in x",
    .killed_by = {"layer_nan_reaches_its_rows"},
    .when = "",
};

namespace {

// Without stages the path that rotates is not taken.
qkvet_status unrotated_without_stages(const qkvet_kernel* self,
                                      qkvet_context* context,
                                      const qkvet_layer_args* args,
                                      const qkvet_exec* exec, qkvet_text* why) {
  qkvet_layer_args known = {};
  const qkvet_status status = read_struct(args, &known, why);
  if (status != QKVET_OK) {
    return status;
  }
  if (known.q.data == nullptr) {
    known.rope = QKVET_ROPE_NONE;
    known.rope_cos = known.rope_sin = known.positions = {};
  }
  return kLayerTable<PlainLayer>.forward(self, context, &known, exec, why);
}
inline constexpr qkvet_layer_table kUnrotatedWithoutStages = [] {
  qkvet_layer_table table = kLayerTable<PlainLayer>;
  table.forward = unrotated_without_stages;
  return table;
}();
constexpr qkvet_kernel without_stages_fault(const char* name,
                                            const char* description,
                                            Place place) {
  return layer_kernel(name, description, place, &kLayerPrecision,
                      &kUnrotatedWithoutStages);
}

}  // namespace

QKVET_FAULT(layer_unrotated_without_stages) = {
    .kernel = without_stages_fault,
    .mechanism = "q and k are rotated where they are written as stages alone",
    .symptom = "right while the stages are asked for",
    .cause = "the rotation is part of the store of a stage",
    .fix = "rotate before the stage is stored, or not",
    .source = "textbook",
    .trigger = "a rotation, and a call without stages",
    .killed_by = {"layer_agrees_with_oracle"},
    .when = "rope",
};

}  // namespace qkvet::impl

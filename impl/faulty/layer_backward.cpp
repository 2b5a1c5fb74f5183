// SPDX-License-Identifier: Apache-2.0
// Faults of the gradients of layers: the layer itself is right.
#include <array>
#include <cstdint>
#include <map>

#include "impl/faulty/kernels.h"
#include "impl/skeletons/layer_gradient.h"
#include "impl/skeletons/layer_skeleton.h"

namespace qkvet::impl {
// dX lacks what came back through the values.
struct LayerBackwardValuePathMissing : PlainLayerGradient {
  static bool adds_input(Role role) { return role != Role::kValue; }
};
QKVET_FAULT(layer_backward_value_path_missing) = {
    .kernel = layer_backward_fault<LayerBackwardValuePathMissing>,
    .mechanism =
        "of the three gradients that reach x, through queries, keys and "
        "values, the last one is not added",
    .symptom =
        "every parameter is right, and the layer below learns from a part of "
        "its gradient",
    .cause =
        "three products are written into one buffer, and one of them is "
        "forgotten or overwritten",
    .fix = "dX = dq W_Q^T + dk W_K^T + dv W_V^T: add all three",
    .source = "textbook",
    .trigger = "every case whose values reach y",
    .killed_by = {"lone_token_gradients_are_exact",
                  "layer_backward_is_the_adjoint",
                  "layer_backward_agrees_with_oracle"},
    .when = "",
};

// dq and dk are not turned back.
struct LayerBackwardNotTurnedBack : PlainLayerGradient {
  static bool turns_back() { return false; }
};
QKVET_FAULT(layer_backward_not_turned_back) = {
    .kernel = layer_backward_fault<LayerBackwardNotTurnedBack>,
    .mechanism =
        "the gradients of rotated queries and keys are taken for those of what "
        "left the projections",
    .symptom = "W_Q and W_K learn in directions that change with the position",
    .cause =
        "a rotation that is applied in the forward pass and left out of the "
        "backward one",
    .fix =
        "turn dq and dk by the negative angle before they enter the "
        "projections",
    .source = "textbook",
    .trigger = "a rotation (RoPE) at positions above 0",
    .killed_by = {"layer_backward_is_the_adjoint",
                  "layer_backward_agrees_with_oracle"},
    .when = "rope",
};

// The gradient of the merged heads is not split.
struct LayerBackwardHeadsNotSplit : PlainLayerGradient {
  static int64_t merged(const LayerCall& call, int64_t t, int64_t column) {
    return t * call.heads * call.value_width + column;
  }
};
QKVET_FAULT(layer_backward_heads_not_split) = {
    .kernel = layer_backward_fault<LayerBackwardHeadsNotSplit>,
    .mechanism =
        "rows of dY W_O^T are taken for heads as they lie, without the "
        "transpose of heads and tokens",
    .symptom =
        "the extents are right; gradients of tokens and heads are mixed, and "
        "the future reaches the past",
    .cause =
        "a reshape to [B, H, T, dv] where [B, T, H, dv] and a transpose belong",
    .fix = "undo the merge: column h dv + c of row t is channel c of head h",
    .source = "textbook",
    .trigger = "several heads and tokens",
    .killed_by = {"layer_future_gradients_are_zero",
                  "layer_backward_is_the_adjoint",
                  "layer_backward_agrees_with_oracle"},
    .when = "H > 1 && Tq > 1",
};

// The gradient of a matrix is stored transposed.
struct LayerBackwardWeightsTransposed : PlainLayerGradient {
  static void keep(const Projection& to, int64_t i, int64_t column, float sum) {
    const bool square = to.rows == to.columns;
    to.matrix.set(square ? column : i, square ? i : column, 0, 0, sum);
  }
};
QKVET_FAULT(layer_backward_weights_transposed) = {
    .kernel = layer_backward_fault<LayerBackwardWeightsTransposed>,
    .mechanism =
        "the gradient of a square matrix is dy^T x where x^T dy belongs",
    .symptom =
        "the shapes are right where rows equal columns, and a step of an "
        "optimiser goes somewhere else",
    .cause =
        "weights that one framework stores as [out, in] and another as [in, "
        "out]",
    .fix =
        "a gradient lies as its matrix does: rows are inputs, columns are "
        "outputs",
    .source = "textbook",
    .trigger = "a square matrix above 1 by 1",
    .killed_by = {"lone_token_gradients_are_exact",
                  "layer_backward_is_the_adjoint",
                  "layer_backward_agrees_with_oracle"},
    .when =
        "(D == H * d || D == Hkv * d || D == H * dv || D == Hkv * dv) && D > 1",
};

// Only the last query head of a group reaches W_K and W_V.
struct LayerBackwardGroupKeepsLastHead : PlainLayerGradient {
  // In place of what the heads in front of it have added.
  static qkvet_status add(const BackwardPiece& piece, qkvet_context* context,
                          qkvet_text* why) {
    const ForwardCall& call = *piece.call;
    if (piece.first == 0) {
      set_all(piece.d_k, call.keys * call.width, 0);
      set_all(piece.d_v, call.keys * call.value_width, 0);
    }
    return BackwardRows<PlainBackward>::piece(piece, context, why);
  }
  using Attention = BackwardKernel<PlainBackward, add>;
};
QKVET_FAULT(layer_backward_group_keeps_last_head) = {
    .kernel = layer_backward_fault<LayerBackwardGroupKeepsLastHead>,
    .mechanism =
        "every query head writes dk and dv of its key/value head, and none "
        "adds to them",
    .symptom =
        "the gradients of W_K and W_V are those of the last query head of a "
        "group",
    .cause =
        "code for one key/value head a query head, with an index that now "
        "repeats",
    .fix = "sum over the query heads of a group before the projections",
    .source = "textbook",
    .trigger = "grouped heads",
    .killed_by = {"lone_token_gradients_are_exact",
                  "layer_backward_is_the_adjoint",
                  "layer_backward_agrees_with_oracle"},
    .when = "Hkv < H",
};

// The gradient is that of a layer without its causal mask.
struct SeesAll : PlainBackward {
  static bool sees(const ForwardCall&, int64_t, int64_t, int64_t, int64_t) {
    return true;
  }
};

struct LayerBackwardMaskForgotten : PlainLayerGradient {
  using Attention = BackwardKernel<SeesAll, BackwardRows<SeesAll>::piece>;
};
QKVET_FAULT(layer_backward_mask_forgotten) = {
    .kernel = layer_backward_fault<LayerBackwardMaskForgotten>,
    .mechanism =
        "the weights are computed again for the gradient, and the causal mask "
        "is not applied to them",
    .symptom =
        "the loss falls as it should not: tokens learn from what stands in "
        "front of them in time",
    .cause = "a flag of the forward pass that is not kept for the backward one",
    .fix = "mask the recomputed scores as the forward pass did",
    .source = "textbook",
    .trigger = "causal and more than one token",
    .killed_by = {"layer_future_gradients_are_zero",
                  "layer_backward_is_the_adjoint",
                  "layer_backward_agrees_with_oracle"},
    .when = "causal && Tq > 1",
};

// The gradient of a bias is that of the last member of the batch.
struct LayerBackwardBiasOfLastMember : PlainLayerGradient {
  static int64_t first_row(const LayerCall& call) {
    return (call.batch - 1) * call.tokens;
  }
};
QKVET_FAULT(layer_backward_bias_of_last_member) = {
    .kernel = layer_backward_fault<LayerBackwardBiasOfLastMember>,
    .mechanism =
        "the gradient of a bias is added up over the tokens of a member, and "
        "every member overwrites that of the one in front of it",
    .symptom =
        "with one member all is right; with more, biases learn from the last "
        "one alone",
    .cause = "a loop over members around code for one, whose sum begins anew",
    .fix = "add up over all rows of the batch",
    .source = "textbook",
    .trigger = "B above 1 and a bias",
    .killed_by = {"lone_token_gradients_are_exact",
                  "layer_backward_is_the_adjoint",
                  "layer_backward_agrees_with_oracle"},
    .when = "B > 1 && (b_q || b_v || b_o)",
};

// Gradients of biases are written in whole lanes.
struct LayerBackwardBiasInWholeLanes : PlainLayerGradient {
  static void keep_bias(const Projection& to, int64_t column, float sum) {
    to.bias.set(column, 0, 0, 0, sum);
    const bool last = column + 1 == to.columns && column > 0;
    for (int64_t c = column + 1; last && c % 4 != 0; ++c) {
      to.bias.set(c, 0, 0, 0, 0);
    }
  }
};
QKVET_FAULT(layer_backward_bias_in_whole_lanes) = {
    .kernel = layer_backward_fault<LayerBackwardBiasInWholeLanes>,
    .mechanism =
        "the last store of the gradient of a bias writes 4 columns, be they "
        "there or not",
    .symptom = "behind the last column memory of somebody else is overwritten",
    .cause = "a vector that is stored in whole lanes",
    .fix = "mask the last store, or write the rest column by column",
    .source = "textbook",
    .trigger = "a bias with more than one column and no multiple of 4",
    .killed_by = {"layer_backward_reads_only_its_inputs"},
    .when =
        "(b_q && H * d % 4 != 0) || (b_k && Hkv * d % 4 != 0) || (b_v && Hkv * "
        "dv % 4 != 0) || (b_o && D % 4 != 0)",
};

// The causal rule is part of what is compiled for a shape.
struct CausalOfFirstCall : PlainBackward {
  static bool sees(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                   int64_t j) {
    thread_local std::map<std::array<int64_t, 3>, bool> compiled;
    ForwardCall known = call;
    known.causal =
        compiled
            .try_emplace({call.heads, call.queries, call.width}, call.causal)
            .first->second;
    return PlainBackward::sees(known, b, h, i, j);
  }
};
struct LayerBackwardCausalOfFirstCall : PlainLayerGradient {
  using Attention =
      BackwardKernel<CausalOfFirstCall, BackwardRows<CausalOfFirstCall>::piece>;
};
QKVET_FAULT(layer_backward_causal_of_first_call) = {
    .kernel = layer_backward_fault<LayerBackwardCausalOfFirstCall>,
    .mechanism =
        "the gradient of a layer has the causal rule of the first one of the "
        "process that had the same extents",
    .symptom =
        "right for one model; an encoder trained after a decoder of like "
        "extents learns from half of its pairs",
    .cause = "a compiled gradient whose key has extents and no options",
    .fix = "put the options into the key",
    .source = "textbook, cf. Dao-AILab/flash-attention#2645",
    .trigger = "two layers of the same extents, of which one is causal",
    .killed_by = {"layer_backward_calls_before_change_nothing"},
    .when = "",
};

}  // namespace qkvet::impl

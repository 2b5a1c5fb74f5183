// SPDX-License-Identifier: Apache-2.0
// Faults of the gradients of layers: the layer itself is right.
#include <array>
#include <cstdint>
#include <map>

#include "impl/faulty/kernels.h"
#include "impl/skeletons/layer_gradient.h"
#include "impl/skeletons/layer_skeleton.h"

namespace qkvet::impl {
struct LayerBackwardValuePathMissing : PlainLayerGradient {
  static bool adds_input(Role role) { return role != Role::kValue; }
};
QKVET_FAULT(layer_backward_value_path_missing,
            kLayerBackwardFault<LayerBackwardValuePathMissing>) = {
    .cause = "of the three gradients that reach x, through queries, keys and "
             "values, the last one is not added",
    .fix = "dX = dq W_Q^T + dk W_K^T + dv W_V^T: add all three",
    .killed_by = {"lone_token_gradients_are_exact",
                  "layer_backward_is_the_adjoint"},
};

struct LayerBackwardNotTurnedBack : PlainLayerGradient {
  static bool turns_back() { return false; }
};
QKVET_FAULT(layer_backward_not_turned_back,
            kLayerBackwardFault<LayerBackwardNotTurnedBack>) = {
    .when = "rope",
    .cause = "the gradients of rotated queries and keys are used as those "
             "before the rotation: backward leaves the rotation out",
    .fix = "turn dq and dk by the negative angle before they enter the "
           "projections",
    .killed_by = {"layer_backward_is_the_adjoint",
                  "layer_backward_agrees_with_oracle"},
};

struct LayerBackwardHeadsNotSplit : PlainLayerGradient {
  static int64_t merged(const LayerCall& call, int64_t t, int64_t column) {
    return t * call.heads * call.value_width + column;
  }
};
QKVET_FAULT(layer_backward_heads_not_split,
            kLayerBackwardFault<LayerBackwardHeadsNotSplit>) = {
    .when = "H > 1 && Tq > 1",
    .cause = "rows of dY W_O^T are read as heads without the transpose of "
             "heads and tokens",
    .fix = "undo the merge: column h dv + c of row t is channel c of head h",
    .killed_by = {"layer_future_gradients_are_zero",
                  "layer_backward_is_the_adjoint"},
};

struct LayerBackwardWeightsTransposed : PlainLayerGradient {
  static void keep(const Projection& to, int64_t i, int64_t column, float sum) {
    const bool square = to.rows == to.columns;
    to.matrix.set(square ? column : i, square ? i : column, 0, 0, sum);
  }
};
QKVET_FAULT(layer_backward_weights_transposed,
            kLayerBackwardFault<LayerBackwardWeightsTransposed>) = {
    .when =
        "(D == H * d || D == Hkv * d || D == H * dv || D == Hkv * dv) && D > 1",
    .cause = "the gradient of a square matrix is dy^T x instead of x^T dy: "
             "frameworks store [out, in] or [in, out]",
    .fix = "store a gradient like its matrix: rows are inputs, columns are "
           "outputs",
    .killed_by = {"lone_token_gradients_are_exact",
                  "layer_backward_is_the_adjoint"},
};

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
QKVET_FAULT(layer_backward_group_keeps_last_head,
            kLayerBackwardFault<LayerBackwardGroupKeepsLastHead>) = {
    .when = "Hkv < H",
    .cause = "query heads overwrite dk and dv of their key/value head instead "
             "of adding to them",
    .fix = "sum over the query heads of a group before the projections",
    .killed_by = {"lone_token_gradients_are_exact",
                  "layer_backward_is_the_adjoint"},
};

struct SeesAll : PlainBackward {
  static bool sees(const ForwardCall&, int64_t, int64_t, int64_t, int64_t) {
    return true;
  }
};

struct LayerBackwardMaskForgotten : PlainLayerGradient {
  using Attention = BackwardKernel<SeesAll, BackwardRows<SeesAll>::piece>;
};
QKVET_FAULT(layer_backward_mask_forgotten,
            kLayerBackwardFault<LayerBackwardMaskForgotten>) = {
    .when = "causal && Tq > 1",
    .cause = "the weights are recomputed for the gradient without the causal "
             "mask: its flag is not kept for backward",
    .fix = "mask the recomputed scores as the forward pass did",
    .killed_by = {"layer_future_gradients_are_zero",
                  "layer_backward_is_the_adjoint"},
};

struct LayerBackwardBiasOfLastMember : PlainLayerGradient {
  static int64_t first_row(const LayerCall& call) {
    return (call.batch - 1) * call.tokens;
  }
};
QKVET_FAULT(layer_backward_bias_of_last_member,
            kLayerBackwardFault<LayerBackwardBiasOfLastMember>) = {
    .when = "B > 1 && (b_q || b_v || b_o)",
    .cause = "the gradient of a bias is summed over the tokens of one batch "
             "element, and each overwrites the last",
    .fix = "add up over all rows of the batch",
    .killed_by = {"lone_token_gradients_are_exact",
                  "layer_backward_is_the_adjoint"},
};

struct LayerBackwardBiasInWholeLanes : PlainLayerGradient {
  static void keep_bias(const Projection& to, int64_t column, float sum) {
    to.bias.set(column, 0, 0, 0, sum);
    const bool last = column + 1 == to.columns && column > 0;
    for (int64_t c = column + 1; last && c % 4 != 0; ++c)
      to.bias.set(c, 0, 0, 0, 0);
  }
};
QKVET_FAULT(layer_backward_bias_in_whole_lanes,
            kLayerBackwardFault<LayerBackwardBiasInWholeLanes>) = {
    .when = "(b_q && H * d % 4 != 0) || (b_k && Hkv * d % 4 != 0) || (b_v && "
            "Hkv * dv % 4 != 0) || (b_o && D % 4 != 0)",
    .cause = "the last store of the gradient of a bias writes 4 columns, also "
             "past its end",
    .fix = "mask the last store, or write the rest column by column",
    .killed_by = {"layer_backward_reads_only_its_inputs"},
};

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
QKVET_FAULT(layer_backward_causal_of_first_call,
            kLayerBackwardFault<LayerBackwardCausalOfFirstCall>) = {
    .cause = "the gradient of a layer has the causal rule of the first one of "
             "the process that had the same extents",
    .fix = "put the options into the key",
    .source = "textbook, cf. Dao-AILab/flash-attention#2645",
    .killed_by = {"layer_backward_calls_before_change_nothing"},
};

}  // namespace qkvet::impl

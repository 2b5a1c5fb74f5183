// SPDX-License-Identifier: Apache-2.0
// Compares the gradient of a layer with the layer itself: the change of the
// output, multiplied with dy and summed, when one row of one input moves, must
// be the gradient of that row in that direction. The change is found by dual
// numbers through the whole layer, so that no formula of a gradient is trusted.
#include "properties/calls/layer_calls.h"
#include "properties/calls/layer_gradient_answer.h"
#include "properties/calls/layer_gradient_calls.h"
#include "properties/calls/subject_calls.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/gradient_judging.h"

namespace qkvet::properties {
namespace of_layer_backward_is_the_adjoint {

// One row of one gradient, and the direction in which its input moves: small
// integers there, 0 elsewhere.
struct Move {
  TensorName tensor = TensorName::kDX;
  int64_t first = 0, width = 0;
  std::vector<double> direction;
};

Move move_of(const Case& value, TensorName tensor, size_t elements) {
  const TensorName input = layer_input_of(tensor);
  const int rank = tensor_rank(input);
  const auto extents = tensor_extents(value.shape, input);
  Move move;
  move.tensor = tensor;
  move.width = extents[static_cast<size_t>(rank - 1)];
  const int64_t rows = static_cast<int64_t>(elements) / move.width;
  const int64_t row = pick_by_seed(value.seed + output_in_draws(tensor), rows);
  move.first = row * move.width;
  move.direction.resize(elements);
  recipe_row(
      make_recipe(RecipeKind::kLattice), ~value.seed, TensorName::kQ, 0, 0, row,
      {move.direction.data() + move.first, static_cast<size_t>(move.width)});
  return move;
}

// Every input is moved in small layers. In others, where dual numbers through
// the whole layer take long, each case moves a third of them.
bool is_moved(const Case& value, TensorName tensor) {
  constexpr int64_t kFewProducts = 4096;
  constexpr uint64_t kOneOf = 3;
  const Shape& s = value.shape;
  const int64_t products =
      s.B * s.Tq *
      (s.D * (2 * s.H * s.d + 2 * s.H * s.dv) + s.H * s.Tq * (s.d + s.dv));
  return products <= kFewProducts ||
         (value.seed + output_in_draws(tensor)) % kOneOf == 0;
}

LayerDirection direction_of(const Move& move) {
  constexpr const double* LayerDirection::*kMembers[] = {
      &LayerDirection::x,   &LayerDirection::w_q, &LayerDirection::w_k,
      &LayerDirection::w_v, &LayerDirection::w_o, &LayerDirection::b_q,
      &LayerDirection::b_k, &LayerDirection::b_v, &LayerDirection::b_o};
  LayerDirection direction;
  direction.*kMembers[static_cast<size_t>(move.tensor) -
                      static_cast<size_t>(TensorName::kDX)] =
      move.direction.data();
  return direction;
}

// "dx[b=0,t=1]", "dw_q[row=1]", or "db_q".
std::string row_name(const Shape& shape, const Move& move) {
  const std::string name = layer_gradient_name(shape, move.tensor, move.first);
  const size_t comma = name.rfind(',');
  if (comma == std::string::npos) return name.substr(0, name.find('['));
  return name.substr(0, comma) + "]";
}

void compare_move(const JudgeInput& input, const Move& move,
                  const std::vector<double>& actual, Judgement& judgement) {
  const LayerGradientTruth& known = *input.calls[0].truth->layer_gradient;
  const auto& bounds = layer_gradient_of(known.bound.bound, move.tensor);
  const auto& reach = layer_gradient_of(known.bound.reach, move.tensor);
  const GradientAlong along =
      gradient_along(actual, move.direction, bounds, reach, move.first,
                     move.width, input.value.q_dtype);
  const auto [change, is_new] = known.changes->try_emplace(move.tensor);
  if (is_new)
    change->second =
        layer_directional_derivative(*known.problem, direction_of(move));
  auto finding = compare_with_bound(
      {along.sum, change->second, along.bound, along.most, Dtype::kF64},
      judgement);
  if (!finding) return;
  finding->where = row_name(input.value.shape, move) + " times a direction";
  finding->looks = "the gradient of this row is not the change of the layer";
  add_failure(judgement, std::move(*finding));
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (const TensorName tensor : kLayerGradients) {
    if (!is_moved(input.value, tensor)) continue;
    const std::vector<double> actual =
        read_layer_gradient(input, input.calls[0], tensor);
    if (!actual.empty())
      compare_move(input, move_of(input.value, tensor, actual.size()), actual,
                   judgement);
  }
  return judgement;
}

}  // namespace of_layer_backward_is_the_adjoint

extern constinit const Law layer_backward_is_the_adjoint{
    "layer_backward_is_the_adjoint",
    "The gradient of a layer is the change of the layer: moved along a row of "
    "one input, y changes as the gradient predicts.",
    "<dy, J dp> = <dp, J^T dy>, dp in one row of x, of a matrix or in a bias",
    "none",
    "layer_backward() applies the transpose of the derivative of the layer.",
    "The sum of |dp| times the bounds of the elements and their own rounding; "
    "the change is computed by dual numbers in double-double.",
    "(d) it needs no formula for a gradient and kills a mistake in the one "
    "that the reference has",
    40,
    Domain{.subject = Subject::kLayerBackward, .allows = kLayerOptions},
    constrain_layer,
    plan_one_call<nullptr>,
    of_layer_backward_is_the_adjoint::judge};

}  // namespace qkvet::properties

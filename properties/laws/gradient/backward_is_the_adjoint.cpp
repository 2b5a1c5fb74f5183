// SPDX-License-Identifier: Apache-2.0
// Compares the gradient with the forward pass itself: the change of the output,
// multiplied with dO and summed, when one row of one input moves, must be the
// gradient of that row in that direction. The change is found by carrying dual
// numbers through a forward pass, so that no formula of a gradient is trusted.
#include "properties/calls/gradient_calls.h"
#include "properties/calls/subject_calls.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/gradient_judging.h"

namespace qkvet::properties {
namespace of_backward_is_the_adjoint {

// One row of one gradient, and the direction in which its input moves: small
// integers there, 0 elsewhere.
struct Move {
  TensorName tensor = TensorName::kDQ;
  int64_t first = 0, width = 0;
  std::vector<double> direction;
};

// The next row that counts, from a random one on; nullopt if there is none. The
// sinks move together.
std::optional<Move> move_of(const JudgeInput& input, TensorName tensor) {
  const Case& value = input.value;
  const auto [B, heads, rows, width] = gradient_extents(value.shape, tensor);
  const bool sinks = tensor == TensorName::kDSink;
  const int64_t count = sinks ? 1 : B * heads * rows;
  const int64_t row_width = sinks ? heads : width;
  const int64_t from =
      count > 0 ? pick_by_seed(value.seed + output_in_draws(tensor), count) : 0;
  for (int64_t n = 0; n < count && row_width > 0; ++n) {
    const int64_t row = (from + n) % count;
    Move move{tensor, row * row_width, row_width, {}};
    const GradientElement at =
        gradient_element(value.shape, tensor, move.first);
    if (!gradient_counts(value, at)) continue;
    move.direction.resize(static_cast<size_t>(count * row_width));
    recipe_row(
        make_recipe(RecipeKind::kLattice), ~value.seed, TensorName::kQ, 0, 0,
        row,
        {move.direction.data() + move.first, static_cast<size_t>(row_width)});
    for (int64_t c = 0; c < row_width; ++c) {
      GradientElement element = at;
      (sinks ? element.h : element.x) = c;
      if (!gradient_counts(value, element))
        move.direction[static_cast<size_t>(move.first + c)] = 0;
    }
    return move;
  }
  return std::nullopt;
}

GradientDirection direction_of(const Move& move) {
  GradientDirection direction;
  const double* const to = move.direction.data();
  switch (move.tensor) {
    case TensorName::kDQ:
      direction.q = to;
      break;
    case TensorName::kDK:
      direction.k = to;
      break;
    case TensorName::kDV:
      direction.v = to;
      break;
    case TensorName::kDBias:
      direction.bias = to;
      break;
    default:
      direction.sink = to;
  }
  return direction;
}

// "dq[b=0,h=1,i=2]", or "dsink".
std::string row_name(const Shape& shape, const Move& move) {
  const std::string name = gradient_name(shape, move.tensor, move.first);
  if (move.tensor == TensorName::kDSink) return name.substr(0, name.find('['));
  return name.substr(0, name.rfind(',')) + "]";
}

void compare_move(const JudgeInput& input, const Move& move,
                  Judgement& judgement) {
  const GradientTruth& known = *input.calls[0].truth->gradient;
  const std::vector<double> actual =
      read_gradient(input, input.calls[0], move.tensor);
  if (actual.empty()) return;
  const std::vector<double>& bounds = bound_of(known.bound, move.tensor);
  const std::vector<double>& reach =
      gradient_of(known.bound.reach, move.tensor);
  const Dtype dtype = storage_type(input.value, move.tensor);
  const GradientAlong along = gradient_along(
      actual, move.direction, bounds, reach, move.first, move.width, dtype);
  const auto [change, is_new] = known.changes->try_emplace(move.tensor);
  if (is_new)
    change->second = directional_derivative(*known.problem, direction_of(move));
  const double truth = change->second;
  auto finding = compare_with_bound(
      {along.sum, truth, along.bound, along.most, Dtype::kF64}, judgement);
  if (!finding) return;
  finding->where = row_name(input.value.shape, move) + " times a direction";
  finding->looks =
      "the gradient of this row is not the change of the forward pass";
  add_failure(judgement, std::move(*finding));
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (const TensorName tensor : kGradients)
    if (const auto move = move_of(input, tensor))
      compare_move(input, *move, judgement);
  return judgement;
}

}  // namespace of_backward_is_the_adjoint

extern constinit const Law backward_is_the_adjoint{
    "backward_is_the_adjoint",
    "The gradient is the change of the forward pass: moved along dx, the "
    "output changes as the gradient predicts.",
    "<dO, J dx> = <dx, J^T dO>, dx in one row of q, k, v, bias or in the sinks",
    "none",
    "backward() applies the transpose of the derivative of forward().",
    "The sum of |dx| times the bounds of the elements and their own rounding; "
    "the change is computed by dual numbers in double-double.",
    "(d) it needs no formula for a gradient and kills a mistake in the one "
    "that both references have",
    90,
    Domain{.subject = Subject::kBackward, .allows = kAllowGradients},
    as_it_is,
    plan_one_call<nullptr>,
    of_backward_is_the_adjoint::judge};

}  // namespace qkvet::properties

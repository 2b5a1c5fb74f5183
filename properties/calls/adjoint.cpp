// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/adjoint.h"

#include <cmath>

#include "core/base/half.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace {

// One row of a gradient, and the direction in which its input moves: small
// integers there, 0 elsewhere.
struct Move {
  size_t first = 0, width = 0;
  std::vector<double> direction;
};

// The next row that counts, from a random one on; nullopt if there is none. The
// sinks move together.
std::optional<Move> move_of(const JudgeInput& input, const Grid& grid,
                            TensorName tensor, size_t elements) {
  const bool sinks = tensor == TensorName::kDSink;
  const int64_t width = sinks ? grid.heads() : grid.width();
  const auto count = static_cast<int64_t>(elements) / width;
  const int64_t from =
      pick_by_seed(input.value.seed + output_in_draws(tensor), count);
  for (int64_t n = 0; n < count; ++n) {
    const int64_t row = (from + n) % count;
    Move move = {static_cast<size_t>(row * width), static_cast<size_t>(width),
                 std::vector<double>(elements)};
    if (!counts(input, grid.at(move.first))) continue;
    recipe_row(make_recipe(RecipeKind::kLattice), ~input.value.seed,
               TensorName::kQ, 0, 0, row,
               {move.direction.data() + move.first, move.width});
    for (size_t c = move.first; c < move.first + move.width; ++c)
      if (!counts(input, grid.at(c))) move.direction[c] = 0;
    return move;
  }
  return std::nullopt;
}

double change_of(const GradientTruth& known, TensorName tensor,
                 const double* direction) {
  using Of = GradientDirection;
  using OfLayer = LayerDirection;
  constexpr const double* Of::*kMembers[] = {&Of::q, &Of::k, &Of::v, &Of::bias,
                                             &Of::sink};
  constexpr const double* OfLayer::*kOfLayer[] = {
      &OfLayer::x,   &OfLayer::w_q, &OfLayer::w_k, &OfLayer::w_v, &OfLayer::w_o,
      &OfLayer::b_q, &OfLayer::b_k, &OfLayer::b_v, &OfLayer::b_o};
  const auto number = [&](TensorName first) {
    return static_cast<size_t>(tensor) - static_cast<size_t>(first);
  };
  Of move;
  OfLayer move_layer;
  if (known.layer == nullptr) {
    move.*kMembers[number(TensorName::kDQ)] = direction;
    return directional_derivative(*known.problem, move);
  }
  move_layer.*kOfLayer[number(TensorName::kDX)] = direction;
  return layer_directional_derivative(*known.layer, move_layer);
}

// The row as it was stored, times the direction, with half a unit in the last
// place of each number.
Bounded along(const CallOutput& actual, const Move& move) {
  constexpr double kDoubleError = 0x1p-50;  // of a sum of few products
  Bounded sum{.dtype = Dtype::kF64};
  for (size_t n = move.first; n < move.first + move.width; ++n) {
    const double step = std::fabs(move.direction[n]);
    if (step == 0) continue;
    sum.actual += actual.values[n] * move.direction[n];
    sum.reach += step * actual.reach_at(n);
    // No number is near NaN or an infinity, so they widen nothing.
    const double size =
        std::isfinite(actual.values[n]) ? std::fabs(actual.values[n]) : 0;
    const double rounding =
        unit_roundoff(actual.dtype) * size + underflow_error(actual.dtype);
    sum.bound += step * (actual.bound_at(n) + rounding +
                         static_cast<double>(move.width) * kDoubleError * size);
  }
  return sum;
}

// "dq[b=0,h=1,i=2]", "dw_q[row=1]", or "dsink".
std::string row_name(const std::string& element) {
  const size_t comma = element.rfind(',');
  return comma == std::string::npos ? element.substr(0, element.find('['))
                                    : element.substr(0, comma) + "]";
}

}  // namespace

void compare_with_change(const JudgeInput& input, TensorName gradient,
                         const char* looks, Judgement& judgement) {
  const CallOutput actual = output_of(input, input.calls[0], gradient);
  if (actual.values.empty()) return;
  const auto move = move_of(input, actual.grid, gradient, actual.values.size());
  if (!move) return;
  const GradientTruth& known = *input.calls[0].truth->gradient;
  const auto [change, is_new] = known.changes->try_emplace(gradient);
  if (is_new)
    change->second = change_of(known, gradient, move->direction.data());
  Bounded number = along(actual, *move);
  number.truth = change->second;
  auto finding = compare_with_bound(number, judgement);
  if (!finding) return;
  finding->where =
      row_name(actual.grid.name(move->first)) + " times a direction";
  finding->looks = looks;
  add_failure(judgement, std::move(*finding));
}

}  // namespace qkvet::properties

// SPDX-License-Identifier: Apache-2.0
// One token only sees itself: with W_Q = W_K = 0 its weight is 1, attention
// returns v, and a gradient goes back the same way. On small integers every
// number on that way is exact, so that each number is known even if stages are
// stored in bf16. The weight itself may be exp(-lse) with a logarithm that is
// some units off at 1: that moves a sum by some units of its terms, far below
// the distance of integers.
#include <cmath>

#include "core/base/half.h"
#include "properties/calls/gradient_calls.h"
#include "properties/calls/layer_calls.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_lone_token_gradients_are_exact {

// Three units for a logarithm, two for an exponential, and one for each later
// product and sum (reference/bounds.md, "Other outputs", "Gradients").
double weight_roundings(const Shape& s) {
  return static_cast<double>(8 + s.D + s.H * s.dv + s.B);
}

// A sum of products, and the sum of their sizes.
struct Sum {
  double value = 0, size = 0;

  void add(double term) {
    value += term;
    size += std::fabs(term);
  }
};

struct Matrix {
  Matrix(int64_t height, int64_t width)
      : rows(height),
        columns(width),
        sums(static_cast<size_t>(height * width)) {}
  Matrix(int64_t height, int64_t width, const std::vector<double>& values)
      : Matrix(height, width) {
    for (size_t n = 0; n < values.size(); ++n) sums[n].add(values[n]);
  }
  Sum& at(int64_t row, int64_t column) {
    return sums[static_cast<size_t>(row * columns + column)];
  }
  const Sum& at(int64_t row, int64_t column) const {
    return sums[static_cast<size_t>(row * columns + column)];
  }

  int64_t rows, columns;
  std::vector<Sum> sums;
};

Matrix transposed(const Matrix& a) {
  Matrix out(a.columns, a.rows);
  for (int64_t row = 0; row < a.rows; ++row)
    for (int64_t column = 0; column < a.columns; ++column)
      out.at(column, row) = a.at(row, column);
  return out;
}

// The size of a sum includes those of its factors: of everything that was added
// up on the way.
Matrix product(const Matrix& a, const Matrix& b) {
  Matrix out(a.rows, b.columns);
  for (int64_t row = 0; row < a.rows; ++row)
    for (int64_t column = 0; column < b.columns; ++column)
      for (int64_t i = 0; i < a.columns; ++i) {
        Sum& sum = out.at(row, column);
        sum.value += a.at(row, i).value * b.at(i, column).value;
        sum.size += a.at(row, i).size * b.at(i, column).size;
      }
  return out;
}

// One row: the sum of all rows.
Matrix summed(const Matrix& a) {
  return product(
      Matrix(1, a.rows, std::vector<double>(static_cast<size_t>(a.rows), 1.0)),
      a);
}

// Columns of query heads from those of key/value heads: all heads of a group
// read the same.
Matrix repeated(const Shape& s, const Matrix& v) {
  Matrix out(v.rows, s.H * s.dv);
  for (int64_t row = 0; row < v.rows; ++row)
    for (int64_t column = 0; column < out.columns; ++column)
      out.at(row, column) =
          v.at(row, column / s.dv / s.group() * s.dv + column % s.dv);
  return out;
}

Matrix added_up(const Shape& s, const Matrix& heads) {
  Matrix out(heads.rows, s.Hkv * s.dv);
  for (int64_t row = 0; row < heads.rows; ++row)
    for (int64_t column = 0; column < heads.columns; ++column) {
      const Sum& from = heads.at(row, column);
      Sum& to = out.at(row, column / s.dv / s.group() * s.dv + column % s.dv);
      to.value += from.value;
      to.size += from.size;
    }
  return out;
}

// Query and key are zero: no number of theirs can be off.
void silence_scores(const Case&, int64_t, Inputs& inputs) {
  for (const TensorName tensor :
       {TensorName::kWq, TensorName::kWk, TensorName::kBq, TensorName::kBk}) {
    std::vector<double>& values = inputs.values(tensor);
    std::fill(values.begin(), values.end(), 0.0);
  }
}

Case constrain(Case value) {
  value.shape.Tq = value.shape.Tk = 1;
  value.x = value.bias = value.d_o = make_recipe(RecipeKind::kLattice);
  // With one 1 a row, sums stay small enough for bf16. Plainer matrices also
  // become this: a simpler case must not be replaced by the original.
  const bool plain =
      value.w.kind == RecipeKind::kZero || value.w.kind == RecipeKind::kOne;
  if (plain) value.w = make_recipe(RecipeKind::kOnehotN);
  if (value.w.kind != RecipeKind::kOnehotN)
    value.w = make_recipe(RecipeKind::kLattice);
  value.set.clear();
  return constrain_layer(std::move(value));
}

Plan plan(const Case&, const KernelInfo&) {
  Plan plan;
  plan.calls.push_back(layer_backward_call(/*truth=*/false, silence_scores));
  return plan;
}

// The required value of every element of this call.
class Known {
 public:
  explicit Known(const JudgeInput& input) : inputs_(*input.calls[0].inputs) {
    const Shape& s = input.value.shape;
    const Matrix x = given(s.B, s.D, TensorName::kX);
    const Matrix w_v = given(s.D, s.Hkv * s.dv, TensorName::kWv);
    const Matrix w_o = given(s.H * s.dv, s.D, TensorName::kWo);
    const Matrix d_y = given(s.B, s.D, TensorName::kDY);
    Matrix v = product(x, w_v);
    const std::vector<double>& b_v = inputs_.values(TensorName::kBv);
    for (int64_t row = 0; row < v.rows && !b_v.empty(); ++row)
      for (int64_t c = 0; c < v.columns; ++c)
        v.at(row, c).add(b_v[static_cast<size_t>(c)]);
    const Matrix d_v = added_up(s, product(d_y, transposed(w_o)));
    d_x_ = product(d_v, transposed(w_v)).sums;
    d_w_v_ = product(transposed(x), d_v).sums;
    d_w_o_ = product(transposed(repeated(s, v)), d_y).sums;
    d_b_v_ = summed(d_v).sums;
    d_b_o_ = summed(d_y).sums;
  }

  Sum at(TensorName gradient, size_t n) const {
    switch (gradient) {
      case TensorName::kDX:
        return d_x_[n];
      case TensorName::kDWv:
        return d_w_v_[n];
      case TensorName::kDWo:
        return d_w_o_[n];
      case TensorName::kDBv:
        return d_b_v_[n];
      case TensorName::kDBo:
        return d_b_o_[n];
      default:
        return {};
    }
  }

 private:
  Matrix given(int64_t rows, int64_t columns, TensorName tensor) const {
    return {rows, columns, inputs_.values(tensor)};
  }

  const Inputs& inputs_;
  std::vector<Sum> d_x_, d_w_v_, d_w_o_, d_b_v_, d_b_o_;
};

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const Known known(input);
  // Integers up to here are exact in storage, and in the stages.
  const double most =
      1 /
      std::max(unit_roundoff(input.value.q_dtype),
               unit_roundoff(input.kernel.stage_dtype(input.value.q_dtype)));
  for (const TensorName tensor : kLayerGradients) {
    const std::vector<double> actual =
        read_output(input, input.calls[0], tensor);
    const Grid grid(input.value.shape, tensor);
    compare_exactly(
        input, input.calls[0], tensor,
        [&](const Element& at) -> std::optional<double> {
          const size_t n = grid.index(at);
          const Sum sum = known.at(tensor, n);
          if (sum.size > most) return std::nullopt;
          const double off = std::fabs(actual[n] - sum.value);
          const double roundings = weight_roundings(input.value.shape);
          return off <= roundings * input.model.u * sum.size ? actual[n]
                                                             : sum.value;
        },
        judgement,
        "one token that sees itself alone: dv is do, and what is left are "
        "products of integers");
  }
  return judgement;
}

}  // namespace of_lone_token_gradients_are_exact

extern constinit const Law lone_token_gradients_are_exact{
    "lone_token_gradients_are_exact",
    "If every sequence of the batch is one token, the gradients of x, W_V, W_O "
    "and the biases are products of integers, and exact; those of W_Q and W_K "
    "are zero.",
    "T = 1, W_Q = W_K = 0: dv = sum_group dy W_O^T, dx = dv W_V^T, dW_V = x^T "
    "dv, "
    "dW_O = v^T dy, db_V = sum_b dv, db_O = sum_b dy, dW_Q = dW_K = 0",
    "one token; x, matrices, biases and dy of small integers",
    "The weight of a lone key is 1, and dq = scale ds k and dk = scale ds q "
    "are 0 with k and q.",
    "exp(0) and 1 / 1 are exact, and integers below 2^p are, in sums of any "
    "order; an element whose terms could exceed them is not compared. A "
    "weight of exp(-log(1)) may be some units off.",
    "(a) it is exact, also where stages in bf16 leave a bound little to say",
    30,
    Domain{.subject = Subject::kLayerBackward,
           .free_data = false,
           .allows = kLayerOptions},
    of_lone_token_gradients_are_exact::constrain,
    of_lone_token_gradients_are_exact::plan,
    of_lone_token_gradients_are_exact::judge};

}  // namespace qkvet::properties

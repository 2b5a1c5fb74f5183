// SPDX-License-Identifier: Apache-2.0
// The twins of a projection and of a layer, in double-double. They share
// nothing with plain_layer.h: a projection starts from its bias and adds outer
// products from the last input to the first; a layer never splits, because each
// head is projected by its own columns of the matrix (the W_i^Q of Vaswani et
// al.); merging walks the rows and divides. Include linear.h or layer.h to call
// them.
#ifndef QKVET_REFERENCE_LAYER_TWIN_LAYER_H_
#define QKVET_REFERENCE_LAYER_TWIN_LAYER_H_

#include <algorithm>
#include <vector>

#include "reference/arithmetic/double_double.h"
#include "reference/layer/layer.h"

namespace qkvet::reference {

struct TwinLayerHooks {
  static int64_t last_input(const LinearProblem& problem) {
    return problem.in - 1;
  }
  static int64_t bias_of(const LinearProblem& /*problem*/, int64_t column) {
    return column;
  }
  // The column of a matrix that is number `c` of head `h`.
  static int64_t head_column(int64_t /*heads*/, int64_t width, int64_t h,
                             int64_t c) {
    return h * width + c;
  }
  // The position of token t of member b.
  static int64_t position(const LayerProblem& problem, int64_t b, int64_t t) {
    return problem.rotation.q_positions[b * problem.shape.Tq + t];
  }
  static const double* value_matrix(const LayerProblem& problem) {
    return problem.w_v;
  }
};

template <class Hooks>
std::vector<double> twin_linear_with(const LinearProblem& problem) {
  std::vector<double> y;
  y.reserve(problem.rows * problem.out);
  std::vector<DoubleDouble> row(problem.out);
  for (int64_t r = 0; r < problem.rows; ++r) {
    for (int64_t j = 0; j < problem.out; ++j) {
      row[j] = 0.0;
      if (problem.bias == nullptr) continue;
      row[j] = problem.bias[Hooks::bias_of(problem, j)];
    }
    for (int64_t i = Hooks::last_input(problem); i >= 0; --i) {
      const double x = problem.x[r * problem.in + i];
      const double* w = problem.w + i * problem.out;
      for (int64_t j = 0; j < problem.out; ++j) {
        row[j] = row[j] + two_product(x, w[j]);
      }
    }
    for (const DoubleDouble& value : row) y.push_back(value.hi);
  }
  return y;
}

// [B,heads,T,width], head by head: x times the columns of that head.
template <class Hooks>
std::vector<double> twin_heads(const LayerProblem& problem, const double* w,
                               const double* bias, int64_t heads,
                               int64_t width) {
  const Shape& shape = problem.shape;
  const int64_t block = shape.Tk * width;  // of one head of one batch member
  std::vector<double> out(shape.B * heads * block);
  std::vector<double> head_w(shape.D * width);
  std::vector<double> head_bias(width);
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t c = 0; c < width; ++c) {
      const int64_t column = Hooks::head_column(heads, width, h, c);
      for (int64_t i = 0; i < shape.D; ++i) {
        head_w[i * width + c] = w[i * heads * width + column];
      }
      if (bias != nullptr) head_bias[c] = bias[column];
    }
    const std::vector<double> rows = twin_linear_with<Hooks>(
        {shape.B * shape.Tk, shape.D, width, problem.x, head_w.data(),
         bias != nullptr ? head_bias.data() : nullptr});
    for (int64_t b = 0; b < shape.B; ++b) {
      std::copy_n(rows.data() + b * block, block,
                  out.data() + (b * heads + h) * block);
    }
  }
  return out;
}

// Element e of [B,T,H dv] is column e mod (H dv), which is head column / dv.
inline std::vector<double> twin_merged(const Shape& shape,
                                       const std::vector<double>& heads) {
  const int64_t columns = shape.H * shape.dv;
  std::vector<double> rows;
  rows.reserve(heads.size());
  for (int64_t e = 0; e < shape.o_elements(); ++e) {
    const int64_t column = e % columns;
    const int64_t position = e / columns;  // b T + t
    const int64_t head = position / shape.Tq * shape.H + column / shape.dv;
    const int64_t row = head * shape.Tq + position % shape.Tq;
    rows.push_back(heads[row * shape.dv + column % shape.dv]);
  }
  return rows;
}

// [B,heads,T,d], element by element: each finds its partner.
template <class Hooks>
void twin_turn(const LayerProblem& problem, int64_t heads,
               std::vector<double>& all) {
  const Shape& shape = problem.shape;
  const Rotation& turn = problem.rotation;
  const int64_t d = shape.d;
  const int64_t r = turn.channels;
  const bool half = turn.style == RopeStyle::kHalf;
  const std::vector<double> from = all;
  for (int64_t e = 0; e < static_cast<int64_t>(all.size()); ++e) {
    const int64_t row = e / d;
    const int64_t c = e % d;
    if (c >= r) continue;
    const int64_t b = row / shape.Tq / heads;
    const int64_t table =
        Hooks::position(problem, b, row % shape.Tq) * (r / 2) +
        (half ? c % (r / 2) : c / 2);
    const bool first = half ? c < r / 2 : c % 2 == 0;
    const double partner =
        from[first ? e + (half ? r / 2 : 1) : e - (half ? r / 2 : 1)];
    const DoubleDouble across =
        two_product(first ? -partner : partner, turn.sin[table]);
    all[e] = (two_product(from[e], turn.cos[table]) + across).hi;
  }
}

template <class Hooks>
LayerOutput twin_layer_with(const LayerProblem& problem) {
  const Shape& shape = problem.shape;
  LayerOutput out;
  out.q =
      twin_heads<Hooks>(problem, problem.w_q, problem.b_q, shape.H, shape.d);
  out.k =
      twin_heads<Hooks>(problem, problem.w_k, problem.b_k, shape.Hkv, shape.d);
  out.v = twin_heads<Hooks>(problem, Hooks::value_matrix(problem), problem.b_v,
                            shape.Hkv, shape.dv);
  if (problem.rotation.style != RopeStyle::kNone) {
    twin_turn<Hooks>(problem, shape.H, out.q);
    twin_turn<Hooks>(problem, shape.Hkv, out.k);
  }
  Problem attention;
  attention.shape = shape;
  attention.causal = problem.causal;
  attention.scale = problem.scale;
  attention.scale_given = problem.scale_given;
  attention.q = out.q.data();
  attention.k = out.k.data();
  attention.v = out.v.data();
  out.attended = twin_forward(attention);
  const std::vector<double> merged = twin_merged(shape, out.attended.o);
  out.y =
      twin_linear_with<Hooks>({shape.B * shape.Tq, shape.H * shape.dv, shape.D,
                               merged.data(), problem.w_o, problem.b_o});
  return out;
}

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_LAYER_TWIN_LAYER_H_

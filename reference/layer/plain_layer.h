// SPDX-License-Identifier: Apache-2.0
// The definitions of a projection and of a layer, in double:
//
//   y_j = sum_i x_i w_ij + b_j
//   q, k, v = split(x W + b);  q, k rotated (plain_rope.h) if asked for
//   heads = plain attention;  y = merge(heads) W + b
//
// Each decision is one member of PlainLayerHooks, for seeded faults to replace.
// Include linear.h or layer.h to call the oracle.
#ifndef QKVET_REFERENCE_LAYER_PLAIN_LAYER_H_
#define QKVET_REFERENCE_LAYER_PLAIN_LAYER_H_

#include <utility>
#include <vector>

#include "reference/attention/plain_rope.h"
#include "reference/layer/layer.h"

namespace qkvet::reference {

// Heads in rows: [B T,heads width] and [B,heads,T,width] hold the same numbers.
struct HeadLayout {
  int64_t B = 0;
  int64_t T = 0;
  int64_t heads = 0;
  int64_t width = 0;

  int64_t elements() const { return B * T * heads * width; }
  int64_t in_rows(int64_t b, int64_t h, int64_t t, int64_t c) const {
    return ((b * T + t) * heads + h) * width + c;
  }
  int64_t in_heads(int64_t b, int64_t h, int64_t t, int64_t c) const {
    return ((b * heads + h) * T + t) * width + c;
  }
};

struct PlainLayerHooks : PlainRopeHooks {
  static double weight(const LinearProblem& problem, int64_t i, int64_t j) {
    return problem.w[i * problem.out + j];
  }
  static double bias(const LinearProblem& problem, int64_t j) {
    return problem.bias != nullptr ? problem.bias[j] : 0;
  }
  // The index from which split reads the element (b, h, t, c) of the heads, and
  // the index to which merge writes it.
  static int64_t split_from(const HeadLayout& layout, int64_t b, int64_t h,
                            int64_t t, int64_t c) {
    return layout.in_rows(b, h, t, c);
  }
  static int64_t merge_to(const HeadLayout& layout, int64_t b, int64_t h,
                          int64_t t, int64_t c) {
    return layout.in_rows(b, h, t, c);
  }
};

template <class Hooks>
std::vector<double> plain_linear_with(const LinearProblem& problem) {
  std::vector<double> y(problem.rows * problem.out);
  for (int64_t r = 0; r < problem.rows; ++r) {
    for (int64_t j = 0; j < problem.out; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < problem.in; ++i) {
        sum += problem.x[r * problem.in + i] * Hooks::weight(problem, i, j);
      }
      y[r * problem.out + j] = sum + Hooks::bias(problem, j);
    }
  }
  return y;
}

template <class Hooks>
std::vector<double> plain_split(const HeadLayout& layout,
                                const std::vector<double>& rows) {
  std::vector<double> heads(layout.elements());
  for (int64_t b = 0; b < layout.B; ++b) {
    for (int64_t h = 0; h < layout.heads; ++h) {
      for (int64_t t = 0; t < layout.T; ++t) {
        for (int64_t c = 0; c < layout.width; ++c) {
          heads[layout.in_heads(b, h, t, c)] =
              rows[Hooks::split_from(layout, b, h, t, c)];
        }
      }
    }
  }
  return heads;
}

template <class Hooks>
std::vector<double> plain_merge(const HeadLayout& layout,
                                const std::vector<double>& heads) {
  std::vector<double> rows(layout.elements());
  for (int64_t b = 0; b < layout.B; ++b) {
    for (int64_t h = 0; h < layout.heads; ++h) {
      for (int64_t t = 0; t < layout.T; ++t) {
        for (int64_t c = 0; c < layout.width; ++c) {
          rows[Hooks::merge_to(layout, b, h, t, c)] =
              heads[layout.in_heads(b, h, t, c)];
        }
      }
    }
  }
  return rows;
}

inline HeadLayout head_layout(const Shape& shape, Projection which) {
  switch (which) {
    case Projection::kQ:
      return {shape.B, shape.Tq, shape.H, shape.d};
    case Projection::kK:
      return {shape.B, shape.Tk, shape.Hkv, shape.d};
    case Projection::kV:
      return {shape.B, shape.Tk, shape.Hkv, shape.dv};
    case Projection::kO:
      return {shape.B, shape.Tq, shape.H, shape.dv};
  }
  return {};
}

template <class Hooks>
LayerOutput plain_layer_with(const LayerProblem& problem) {
  const auto project = [&](Projection which) {
    return plain_split<Hooks>(
        head_layout(problem.shape, which),
        plain_linear_with<Hooks>(projection_stage(problem, which, problem.x)));
  };
  LayerOutput out;
  out.q = project(Projection::kQ);
  out.k = project(Projection::kK);
  out.v = project(Projection::kV);
  if (problem.rotation.style != RopeStyle::kNone) {
    const Problem before = rotation_stage(problem, out.q.data(), out.k.data());
    std::vector<double> q =
        plain_rotate<Hooks>(before.rotation, query_rows(before));
    out.k = plain_rotate<Hooks>(before.rotation, key_rows(before));
    out.q = std::move(q);
  }
  out.attended = plain_forward(
      attention_stage(problem, out.q.data(), out.k.data(), out.v.data()));
  const std::vector<double> merged = plain_merge<Hooks>(
      head_layout(problem.shape, Projection::kO), out.attended.o);
  out.y = plain_linear_with<Hooks>(
      projection_stage(problem, Projection::kO, merged.data()));
  return out;
}

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_LAYER_PLAIN_LAYER_H_

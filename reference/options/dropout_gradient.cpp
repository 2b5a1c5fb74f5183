// SPDX-License-Identifier: Apache-2.0
// The gradient with dropout (bounds.md, "Dropout").
#include <cmath>
#include <limits>

#include "reference/arithmetic/double_double.h"
#include "reference/gradient/gradient_impl.h"
#include "reference/options/dropout_rows.h"

namespace qkvet::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Adds the gradients of one row to sums over rows: T is double or better.
template <class T>
void add_part(const std::vector<double>& from, double factor, int64_t first,
              std::vector<T>& to) {
  for (size_t n = 0; n < from.size(); ++n) {
    T& sum = to[static_cast<size_t>(first) + n];
    sum = sum + T(factor * from[n]);
  }
}

void put_part(const std::vector<double>& from, int64_t first,
              std::vector<double>& to) {
  std::copy(from.begin(), from.end(), to.begin() + first);
}

// Sums over rows of the twin's gradients.
struct TwinSums {
  explicit TwinSums(const Problem& call)
      : k(call.shape.k_elements()),
        v(call.shape.v_elements()),
        sink(call.sink != nullptr ? call.shape.H : 0) {}
  std::vector<DoubleDouble> k, v, sink;
};

std::vector<double> rounded(const std::vector<DoubleDouble>& sums) {
  std::vector<double> out;
  out.reserve(sums.size());
  for (const DoubleDouble& sum : sums) out.push_back(sum.hi);
  return out;
}

// The bounds of single rows, added up.
class DropoutSums {
 public:
  DropoutSums(const DropoutProblem& problem, const DropoutGiven& given,
              const OracleOutput& forward, const PrecisionModel& model)
      : problem_(problem),
        given_(given),
        forward_(forward),
        model_(model),
        row_(problem, forward),
        bound_(zero_bound(problem.forward)) {}

  GradientBound run(const GradientOutput& truth);

 private:
  void add_row(int64_t r);
  void not_counted(int64_t r);
  void finish(const std::vector<double>& truth,
              const std::vector<double>& reach, double rows,
              std::vector<double>& bound) const;

  const DropoutProblem& problem_;
  const DropoutGiven& given_;
  const OracleOutput& forward_;
  const PrecisionModel& model_;
  DropoutRow row_;
  GradientBound bound_;
};

void DropoutSums::add_row(int64_t r) {
  const Shape& s = problem_.forward.shape;
  row_.move_to(r);
  GradientProblem alone;
  alone.forward = row_.problem();
  alone.d_o = given_.d_o + r * s.dv;
  alone.o = given_.o + r * s.dv;
  alone.lse = given_.lse + r;
  alone.lse_in_base2 = given_.lse_in_base2;
  GradientErrors errors;
  errors.inputs.v = row_.value_errors(model_).data();
  const BoundFacts facts(alone.forward, row_.output(), errors.inputs);
  const GradientBound one =
      backward_bound(alone, facts, plain_backward(alone), model_, errors);
  put_part(one.q, r * s.d, bound_.q);
  put_part(one.reach.q, r * s.d, bound_.reach.q);
  put_part(one.bias, r * s.Tk, bound_.bias);
  put_part(one.reach.bias, r * s.Tk, bound_.reach.bias);
  add_part(one.k, 1, row_.kv_head() * s.Tk * s.d, bound_.k);
  add_part(one.reach.k, 1, row_.kv_head() * s.Tk * s.d, bound_.reach.k);
  add_part(one.sink, 1, row_.head(), bound_.sink);
  add_part(one.reach.sink, 1, row_.head(), bound_.reach.sink);
  const double own = kDropoutRoundings * model_.u * second_order(model_.u);
  for (int64_t j = 0; j < s.Tk; ++j) {
    // Not judged: infinity, kept or not.
    const double f = row_.factor(j);
    for (int64_t t = 0; t < s.dv; ++t) {
      const auto from = static_cast<size_t>(j * s.dv + t);
      const auto to =
          static_cast<size_t>((row_.kv_head() * s.Tk + j) * s.dv + t);
      const double b = one.v[from];
      const double reach = f * one.reach.v[from];
      bound_.v[to] += std::isinf(b) ? b : f * b + own * (reach + f * b);
      bound_.reach.v[to] += reach;
    }
  }
}

// Rows and keys beyond the lengths.
void DropoutSums::not_counted(int64_t r) {
  const Shape& s = problem_.forward.shape;
  if (forward_.visible[r] == kRowNotCounted) {
    std::fill_n(bound_.q.begin() + r * s.d, s.d, kInfinity);
    std::fill_n(bound_.bias.begin() + r * s.Tk, s.Tk, kInfinity);
  }
  const int64_t* const kv_len = problem_.forward.kv_len;
  const int64_t b = r / (s.H * s.Tq);
  if (kv_len != nullptr)
    std::fill_n(bound_.bias.begin() + r * s.Tk + kv_len[b], s.Tk - kv_len[b],
                kInfinity);
}

// Rows are added in any order: each addition rounds what there is so far.
void DropoutSums::finish(const std::vector<double>& truth,
                         const std::vector<double>& reach, double rows,
                         std::vector<double>& bound) const {
  const double growth = rows * model_.u / (1 - rows * model_.u);
  const double lambda = model_.range.lambda(model_.ftz);
  for (size_t n = 0; n < bound.size(); ++n) {
    const double size = reach[n] + bound[n];
    if (bound[n] != 0 || reach[n] != 0)
      bound[n] =
          (bound[n] + growth * size) * second_order(model_.u) + rows * lambda;
    const bool safe = size <= model_.range.largest_safe &&
                      std::fabs(truth[n]) + bound[n] < model_.output_largest;
    if (!safe) bound[n] = kInfinity;
  }
}

GradientBound DropoutSums::run(const GradientOutput& truth) {
  const Shape& s = problem_.forward.shape;
  for (int64_t r = 0; r < s.lse_elements(); ++r)
    if (forward_.visible[r] > 0) add_row(r);
  for (int64_t r = 0; r < s.lse_elements(); ++r) not_counted(r);
  const auto of_keys = static_cast<double>(s.group() * s.Tq + 1);
  finish(truth.k, bound_.reach.k, of_keys, bound_.k);
  finish(truth.v, bound_.reach.v, of_keys, bound_.v);
  finish(truth.sink, bound_.reach.sink, static_cast<double>(s.B * s.Tq + 1),
         bound_.sink);
  const int64_t* const kv_len = problem_.forward.kv_len;
  for (int64_t kv = 0; kv_len != nullptr && kv < s.B * s.Hkv; ++kv) {
    const int64_t first = kv * s.Tk + kv_len[kv / s.Hkv];
    const int64_t count = s.Tk - kv_len[kv / s.Hkv];
    std::fill_n(bound_.k.begin() + first * s.d, count * s.d, kInfinity);
    std::fill_n(bound_.v.begin() + first * s.dv, count * s.dv, kInfinity);
  }
  return std::move(bound_);
}

}  // namespace

GradientOutput plain_dropout_backward(const DropoutProblem& problem,
                                      const double* d_o) {
  GradientProblem whole;
  whole.forward = problem.forward;
  whole.d_o = d_o;
  return plain_backward_of<PlainGradientHooks>(
      whole, plain_dropout(problem), {problem.kept, 1 / (1 - problem.p)});
}

GradientOutput twin_dropout_backward(const DropoutProblem& problem,
                                     const double* d_o) {
  const Problem& call = problem.forward;
  const Shape& s = call.shape;
  const OracleOutput forward = twin_forward(call);
  GradientOutput out = zero_gradient(call);
  TwinSums sums(call);
  DropoutRow row(problem, forward);
  for (int64_t r = 0; r < s.lse_elements(); ++r) {
    if (forward.visible[r] <= 0) continue;
    row.move_to(r);
    GradientProblem alone;
    alone.forward = row.problem();
    alone.d_o = d_o + r * s.dv;
    const GradientOutput one = twin_backward(alone);
    put_part(one.q, r * s.d, out.q);
    put_part(one.bias, r * s.Tk, out.bias);
    add_part(one.k, 1, row.kv_head() * s.Tk * s.d, sums.k);
    add_part(one.sink, 1, row.head(), sums.sink);
    for (int64_t j = 0; j < s.Tk; ++j) {
      const auto first = one.v.begin() + j * s.dv;
      add_part(std::vector(first, first + s.dv), row.factor(j),
               (row.kv_head() * s.Tk + j) * s.dv, sums.v);
    }
  }
  out.k = rounded(sums.k);
  out.v = rounded(sums.v);
  out.sink = rounded(sums.sink);
  return out;
}

GradientBound dropout_backward_bound(const DropoutProblem& problem,
                                     const DropoutGiven& given,
                                     const OracleOutput& forward,
                                     const GradientOutput& truth,
                                     const PrecisionModel& model) {
  return DropoutSums(problem, given, forward, model).run(truth);
}

}  // namespace qkvet::reference

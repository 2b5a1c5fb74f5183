// SPDX-License-Identifier: Apache-2.0
// The bound of all gradients of a call, kv head by kv head (bounds.md,
// "Gradients").
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "reference/attention/plain.h"
#include "reference/gradient/gradient_impl.h"

namespace qkvet::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Stands for an operand that became infinite.
constexpr double kOverflows = 1e200;

// Whether some member holds the key.
bool key_counts(const Problem& call, int64_t b, int64_t j) {
  if (call.cu_k != nullptr) {
    return j >= call.cu_k[0] && j < call.cu_k[call.members];
  }
  return call.kv_len == nullptr || j < call.kv_len[b];
}

// A term of dsink, a sum of numbers times 1, waits for the limit that all terms
// make.
constexpr double kOne = 1;
struct SinkTerm {
  int64_t h;
  double size;
};

class Gradients {
 public:
  Gradients(const GradientProblem& problem, const BoundFacts::Impl& facts,
            const GradientOutput& truth, const PrecisionModel& model,
            const GradientErrors& errors)
      : problem_(problem),
        errors_(errors),
        call_(problem.forward),
        shape_(call_.shape),
        facts_(facts),
        truth_(truth),
        m_(model),
        scratch_(shape_, m_.model),
        sinks_(call_.sink != nullptr ? shape_.H : 0, 1),
        bound_(zero_bound(call_)) {}

  GradientBound run();

 private:
  GradientRow row_of(int64_t row) const;
  const double* q_off(int64_t row) const {
    return off_at(errors_.inputs.q, row * shape_.d);
  }
  const double* k_off(int64_t kv, int64_t j) const {
    return off_at(errors_.inputs.k, (kv * shape_.Tk + j) * shape_.d);
  }
  int64_t row_in(int64_t kv, int64_t r) const;
  void head(int64_t kv);
  void row_pairs(int64_t row, const GradientPairs& pairs);
  void not_counted(int64_t row);
  void finish_head(int64_t kv, const GradientSums& q, const GradientSums& k,
                   const GradientSums& v);
  void finish_sink();

  // The errors from element `first` on, if there are any.
  static const double* off_at(const double* errors, int64_t first) {
    return errors != nullptr ? errors + first : nullptr;
  }

  const GradientProblem& problem_;
  const GradientErrors& errors_;
  const Problem& call_;
  const Shape& shape_;
  const BoundFacts::Impl& facts_;
  const GradientOutput& truth_;
  GradientModel m_;
  GradientScratch scratch_;
  GradientSums sinks_;
  std::vector<SinkTerm> sink_terms_;
  GradientBound bound_;
};

GradientRow Gradients::row_of(int64_t row) const {
  GradientRow at;
  at.row = row_view(facts_, row);
  at.g = problem_.d_o + row * shape_.dv;
  at.g_off = off_at(errors_.d_o, row * shape_.dv);
  at.o_given = problem_.o + row * shape_.dv;
  at.o_off = off_at(errors_.o, row * shape_.dv);
  at.lse_given = problem_.lse[row];
  at.lse_in_base2 = problem_.lse_in_base2;
  at.has_sink = at.row.sink != nullptr;
  if (at.has_sink) at.z = *at.row.sink;
  return at;
}

// Row `r` of the group of a kv head, of [B,H,Tq].
int64_t Gradients::row_in(int64_t kv, int64_t r) const {
  return kv * shape_.group() * shape_.Tq + r;
}

// Pairs that no member holds, and rows beyond the lengths.
void Gradients::not_counted(int64_t row) {
  const int64_t head = row / shape_.Tq;
  const PlainPlace place = PlainHooks::place(call_, head / shape_.H,
                                             head % shape_.H, row % shape_.Tq);
  const bool counts = place.i < place.Lq;
  for (int64_t j = 0; j < shape_.Tk; ++j) {
    const int64_t local = j - place.first_k;
    if (counts && local >= 0 && local < place.Lk) continue;
    bound_.bias[row * shape_.Tk + j] = kInfinity;
  }
  if (counts) return;
  std::fill_n(bound_.q.begin() + row * shape_.d, shape_.d, kInfinity);
}

// Bounds that need no other row.
void Gradients::row_pairs(int64_t row, const GradientPairs& pairs) {
  const RowView view = row_view(facts_, row);
  for (int64_t a = 0; a < view.n; ++a) {
    const int64_t pair = row * shape_.Tk + view.key(a);
    const double b = pairs.unjudged ? kInfinity : pairs.s_off[a];
    const double size = std::fabs(truth_.bias[pair]) + b;
    bound_.bias[pair] = size < m_.model.output_largest ? b : kInfinity;
    bound_.reach.bias[pair] = pairs.unjudged ? 0 : pairs.reach[a];
  }
  if (view.sink == nullptr) return;
  const int64_t h = row / shape_.Tq % shape_.H;
  if (pairs.unjudged) {
    sinks_.spoil(h);
    return;
  }
  sinks_.measure(h, pairs.sink_size, pairs.sink_off, pairs.sink, &kOne,
                 nullptr);
  sink_terms_.push_back({h, pairs.sink_size});
}

void Gradients::head(int64_t kv) {
  const int64_t rows = shape_.group() * shape_.Tq;
  ValueFacts values(facts_, kv);
  std::vector<GradientPairs> pairs(rows, GradientPairs(shape_.Tk));
  GradientSums q(rows, shape_.d);
  GradientSums k(shape_.Tk, shape_.d);
  GradientSums v(shape_.Tk, shape_.dv);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t row = row_in(kv, r);
    not_counted(row);
    const GradientRow at = row_of(row);
    if (at.row.n <= 0) continue;
    GradientPairs& all = pairs[r];
    gradient_pairs(at, m_, values, scratch_, all);
    row_pairs(row, all);
    if (all.unjudged) q.spoil(r);
    for (int64_t a = 0; a < at.row.n; ++a) {
      const int64_t j = at.row.key(a);
      if (all.unjudged) {
        k.spoil(j);
        v.spoil(j);
        continue;
      }
      q.measure(r, all.z_size[a], all.z_off[a], all.z[a],
                at.row.k + j * shape_.d, k_off(kv, j));
      k.measure(j, all.z_size[a], all.z_off[a], all.z[a], at.row.q, q_off(row));
      v.measure(j, all.p_size[a], all.p_off[a], at.row.p[a], at.g, at.g_off);
    }
  }
  const double c = facts_.scale;
  const double u = m_.model.u;
  q.limit(truth_.q.data() + row_in(kv, 0) * shape_.d, c, u);
  k.limit(truth_.k.data() + kv * shape_.Tk * shape_.d, c, u);
  v.limit(truth_.v.data() + kv * shape_.Tk * shape_.dv, 1, u);
  for (int64_t r = 0; r < rows; ++r) {
    const GradientPairs& all = pairs[r];
    const int64_t row = row_in(kv, r);
    const GradientRow at = row_of(row);
    for (int64_t a = 0; a < at.row.n && !all.unjudged; ++a) {
      const int64_t j = at.row.key(a);
      q.add(r, all.z_size[a], at.row.k + j * shape_.d, k_off(kv, j));
      k.add(j, all.z_size[a], at.row.q, q_off(row));
      v.add(j, all.p_size[a], at.g, at.g_off);
    }
  }
  finish_head(kv, q, k, v);
}

void Gradients::finish_head(int64_t kv, const GradientSums& q,
                            const GradientSums& k, const GradientSums& v) {
  const int64_t rows = shape_.group() * shape_.Tq;
  const double c = facts_.scale;
  const double scaled =
      2 + (facts_.scale_given ? 0 : m_.model.default_scale_error);
  std::vector<double> of_rows(rows * shape_.d);
  const int64_t q_at = row_in(kv, 0) * shape_.d;
  const int64_t k_at = kv * shape_.Tk * shape_.d;
  const int64_t v_at = kv * shape_.Tk * shape_.dv;
  const double c_off = stored_scale(c, m_.model);
  q.finish(truth_.q.data() + q_at, c, c_off, scaled, m_, of_rows.data(),
           bound_.reach.q.data() + q_at);
  k.finish(truth_.k.data() + k_at, c, c_off, scaled, m_, bound_.k.data() + k_at,
           bound_.reach.k.data() + k_at);
  v.finish(truth_.v.data() + v_at, 1, 0, 1, m_, bound_.v.data() + v_at,
           bound_.reach.v.data() + v_at);
  for (int64_t e = 0; e < rows * shape_.d; ++e) {
    // Rows that are not counted have no term.
    bound_.q[q_at + e] = std::max(bound_.q[q_at + e], of_rows[e]);
  }
  for (int64_t j = 0; j < shape_.Tk; ++j) {
    if (key_counts(call_, kv / shape_.Hkv, j)) continue;
    std::fill_n(bound_.k.begin() + k_at + j * shape_.d, shape_.d, kInfinity);
    std::fill_n(bound_.v.begin() + v_at + j * shape_.dv, shape_.dv, kInfinity);
  }
}

void Gradients::finish_sink() {
  sinks_.limit(truth_.sink.data(), 1, m_.model.u);
  for (const SinkTerm& term : sink_terms_)
    sinks_.add(term.h, term.size, &kOne, nullptr);
  GradientModel m = m_;
  m.model.block_u = 0;  // tensor cores do not add these up
  sinks_.finish(truth_.sink.data(), 1, 0, 1, m, bound_.sink.data(),
                bound_.reach.sink.data());
}

GradientBound Gradients::run() {
  for (int64_t kv = 0; kv < shape_.B * shape_.Hkv; ++kv) head(kv);
  if (call_.sink != nullptr) finish_sink();
  return std::move(bound_);
}

// How far an operand that is off by `off`, or by nothing, is once it is
// rounded. A scale may meet it first, unless that is 0.
std::vector<double> rounded_off(const double* x, const double* off,
                                int64_t count, const PrecisionModel& model,
                                double scale) {
  const Rounding& rounding = model.operand;
  const double lambda = model.range.lambda(model.ftz);
  const double unit = scale > 0 ? 1 / std::min(1.0, scale) : 1;
  const double largest = rounding.largest / std::max(1.0, scale);
  std::vector<double> out(count);
  for (int64_t i = 0; i < count; ++i) {
    const double before = off != nullptr ? off[i] : 0;
    const double size = std::fabs(x[i]) + before;
    // Elements beyond the lengths may be anything.
    if (std::isnan(size) || size == 0) continue;
    const double own = before == 0 && scale == 0
                           ? rounding.exactly(x[i])
                           : rounding.of(size, lambda, unit);
    out[i] = size < largest ? before + own : kOverflows;
  }
  return out;
}

GradientBound rounded_bound(const GradientProblem& problem,
                            const BoundFacts& facts,
                            const GradientOutput& truth,
                            const PrecisionModel& model,
                            const GradientErrors& errors) {
  const Problem& call = problem.forward;
  const Shape& s = call.shape;
  const double c = std::fabs(call.scale);
  const auto q = rounded_off(call.q, errors.inputs.q, s.q_elements(), model, c);
  const auto k = rounded_off(call.k, errors.inputs.k, s.k_elements(), model, c);
  const auto g = rounded_off(problem.d_o, errors.d_o, s.o_elements(), model, 0);
  GradientErrors all = errors;
  all.inputs.q = q.data();
  all.inputs.k = k.data();
  all.d_o = g.data();
  PrecisionModel rounded = model;
  // P and dS are operands, too.
  rounded.p_u = std::max(model.p_u, model.operand.u);
  rounded.p_floor = std::max(model.p_floor, model.operand.floor);
  rounded.p_largest = std::min(model.p_largest, model.operand.largest);
  rounded.operand = {};
  const BoundFacts of_rounded = with_rounded_operands(facts, model);
  return backward_bound(problem, of_rounded, truth, rounded, all);
}

}  // namespace

GradientBound backward_bound(const GradientProblem& problem,
                             const BoundFacts& facts,
                             const GradientOutput& truth,
                             const PrecisionModel& model,
                             const GradientErrors& errors) {
  if (!gradient_not_derived(model).empty()) std::abort();
  if (model.operand.rounds()) {
    return rounded_bound(problem, facts, truth, model, errors);
  }
  return Gradients(problem, facts.impl(), truth, model, errors).run();
}

GradientBound backward_bound(const GradientProblem& problem,
                             const OracleOutput& forward,
                             const GradientOutput& truth,
                             const PrecisionModel& model) {
  return backward_bound(problem, BoundFacts(problem.forward, forward), truth,
                        model);
}

}  // namespace qkvet::reference

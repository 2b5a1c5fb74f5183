// SPDX-License-Identifier: Apache-2.0
// One row of a gradient: how far P, dP, D and dS of each pair may be from the
// truth (bounds.md, "Gradients").
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/power_of_two.h"
#include "reference/gradient/gradient_impl.h"

namespace qkvet::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// c log2 e and lse log2 e round twice each, in proportion to s and lse.
constexpr double kLseAnyhow = 4;
// The arithmetic of the twin, relative to what it adds up.
constexpr double kTwinU = 0x1p-96;
// Roundings of a change of the logarithm's base.
constexpr double kBase2ToLse = 2;
// A sink that has to be added to the lse: its difference, logarithm and sum.
constexpr double kSinkToLse = 8;

int grid_of(const double* x, int64_t count) {
  int grid = kNoGrid;
  for (int64_t t = 0; t < count; ++t) grid = std::min(grid, lowest_bit(x[t]));
  return grid;
}

double abs_sum(const double* x, int64_t count) {
  double sum = 0;
  for (int64_t t = 0; t < count; ++t) sum += std::fabs(x[t]);
  return sum;
}

// One factor of a dot product.
struct Factor {
  const double* x;
  const double* off;  // null: exact
  int grid;
  double sum;  // sum |x|
};

Factor factor_of(const double* x, const double* off, int64_t count) {
  return {x, off, grid_of(x, count), abs_sum(x, count)};
}

// The largest change of the product, and of its terms, by uncertain factors.
double drift_of(const Factor& a, const Factor& b, int64_t count) {
  double drift = 0;
  for (int64_t t = 0; t < count && (a.off != nullptr || b.off != nullptr);
       ++t) {
    const double a_off = a.off != nullptr ? a.off[t] : 0;
    const double b_off = b.off != nullptr ? b.off[t] : 0;
    drift += a_off * std::fabs(b.x[t]) + (std::fabs(a.x[t]) + a_off) * b_off;
  }
  return drift;
}

GradientDot dot_of(const Factor& a, const Factor& b, int64_t count,
                   const GradientModel& m) {
  GradientDot dot;
  for (int64_t t = 0; t < count; ++t) {
    dot.value += a.x[t] * b.x[t];
    dot.size += std::fabs(a.x[t] * b.x[t]);
  }
  dot.drift = drift_of(a, b, count);
  dot.size += dot.drift;
  if (dot.size == 0) return dot;
  const double u = m.model.u;
  const int least = std::min({a.grid, b.grid, a.grid + b.grid});
  const bool exact = dot.drift == 0 &&
                     least >= m.model.range.lambda_exponent(m.model.ftz) &&
                     dot.size * u <= power_of_two(a.grid + b.grid);
  if (exact) return dot;
  const auto n = static_cast<double>(count);
  const double M = (dot.size + std::fabs(dot.value) + dot.drift) / 2;
  dot.floor = m.lambda * (2 * n + 2 + a.sum + b.sum);
  dot.off = dot.drift + dot.floor +
            u * (dot.size + (n - 1) * (M + u * dot.size)) / (1 - 2 * n * u) *
                second_order(u);
  return dot;
}

// The logarithm of the whole denominator, and how far a kernel's may be.
struct LogSum {
  double value = 0;
  double off = 0;
};

LogSum log_sum(const GradientRow& at, const GradientModel& m,
               const RowErrors& errors) {
  const double u = m.model.softmax_u();
  LogSum lse{at.row.lse, std::fabs(at.lse_given - at.row.lse)};
  // A value given in f32 may be rounded like the kernel's own.
  const double given = std::fabs(at.lse_given);
  lse.off +=
      m.model.lse.of(given, m.lambda) + m.model.softmax.of(given, m.lambda);
  // The product, and ln 2 itself; log2 e times the scores is as good.
  if (at.lse_in_base2) {
    lse.off += kBase2ToLse * u * (std::fabs(at.lse_given) + lse.off);
  }
  RowView whole = at.row;
  if (at.has_sink && !at.row.sink_in_lse) {
    const double larger = std::max(lse.value, at.z);
    const double apart = std::fabs(lse.value - at.z);
    lse.value = larger + std::log1p(std::exp(-apart));
    lse.off +=
        kSinkToLse * u * (std::fabs(at.lse_given) + std::fabs(at.z) + 1) +
        2 * errors.epsb + m.model.log_off(1) + sink_rounding(at.row, m.model);
    whole.sink_in_lse = true;
    whole.lse = lse.value;
  }
  const double own = lse_bound(whole, m.model, errors);
  lse.off = std::max(lse.off, own + u * (std::fabs(lse.value) + own));
  return lse;
}

// The error of exp(score - lse), where the score is off by e. `p` is exact.
double share_off(const GradientRow& at, const GradientModel& m,
                 const RowErrors& errors, const LogSum& lse, double score,
                 double e, double dot, double p) {
  const double u = m.model.softmax_u();
  const double x = lse.value - score;
  const double argument =
      m.model.arg_roundings * u / (1 - m.model.arg_roundings * u);
  const double size = std::max(std::fabs(score), std::fabs(lse.value)) +
                      (combines_anyhow(m.model) ? at.row.shift : 0);
  const double E = e + lse.off + argument * (std::fabs(x) + e + lse.off) +
                   m.lse_roundings * u * (size + e + lse.off) + errors.epsb +
                   m.lambda + m.model.softmax.floor +
                   kOracleU * (dot + 2 * std::fabs(score) +
                               std::fabs(lse.value) + std::fabs(x) + 4);
  // The exponential may overflow; a NaN is not judged either.
  if (!(E - x < errors.largest_argument - 1)) return kInfinity;
  constexpr double kSmall = 1.0 / 64;
  const double up =
      E <= kSmall ? p * std::expm1(E) : std::max(0.0, std::exp(E - x) - p);
  return up * (1 + 8 * kOracleU) + m.model.exp_floor;
}

// eP of every key; the sink's comes last, if there is one.
bool shares(const GradientRow& at, const GradientModel& m,
            const RowErrors& errors, GradientScratch& scratch,
            GradientPairs& out) {
  const RowView& row = at.row;
  const LogSum lse = log_sum(at, m, errors);
  bool judged = lse.off < kInfinity;
  for (int64_t a = 0; a < row.n && judged; ++a) {
    const double dot =
        static_cast<double>(row.d + 1) * row.scale * row.magnitude[a] +
        (row.scaled != nullptr ? oracle_option_error(row, a) / kOracleU : 0);
    const double p = row.p[a];
    const double given = share_off(at, m, errors, lse, row.score[a],
                                   scratch.row.score_error[a], dot, p);
    double off =
        std::max(given, weight_bound(row, m.model, errors, scratch.row, a));
    if (m.rounded_first) off += half_rounding(m, p + off, m.half_floor);
    scratch.p_off[a] = off;
    judged = off < kInfinity;
  }
  if (row.sink == nullptr || !judged) return judged;
  const double p = *row.sink_share;
  const double given =
      share_off(at, m, errors, lse, at.z, scratch.row.score_error[row.n], 0, p);
  out.sink_off =
      std::max(given, weight_bound(row, m.model, errors, scratch.row, row.n));
  return out.sink_off < kInfinity;
}

// D = rowsum(g o) or rowsum(P dP): its value, and the larger error.
GradientDot delta(const GradientRow& at, const GradientModel& m,
                  const GradientScratch& scratch) {
  const RowView& row = at.row;
  const double u = m.model.u;
  GradientDot D = dot_of(factor_of(at.g, at.g_off, row.dv),
                         factor_of(at.o_given, at.o_off, row.dv), row.dv, m);
  // Products that a softmax in half stores, and adds up in `u`.
  const Rounding& stored = m.model.softmax;
  D.off += stored.u * D.size + static_cast<double>(row.dv) * stored.floor;
  D.value = 0;
  for (int64_t t = 0; t < row.dv; ++t) {
    D.value += at.g[t] * row.o[t];
    D.off += std::fabs(at.g[t]) * std::fabs(at.o_given[t] - row.o[t]);
  }
  double A = 0;
  double drift = 0;
  double sizes = 0;
  double of_oracle = 0;
  for (int64_t a = 0; a < row.n; ++a) {
    const double p_off = scratch.p_off[a];
    const double size = std::fabs(scratch.dP[a].value) + scratch.dP[a].off;
    A += (row.p[a] + p_off) * size;
    drift += p_off * size + row.p[a] * scratch.dP[a].off;
    sizes += size + 1;
    of_oracle += row.p[a] * scratch.dP[a].size;
  }
  const double limit = u * (A + std::fabs(D.value) + drift) / 2;
  double added = 0;
  double largest = 0;
  for (int64_t a = 0; a < row.n; ++a) {
    const double size = std::fabs(scratch.dP[a].value) + scratch.dP[a].off;
    const double leaf = std::min(limit, (row.p[a] + scratch.p_off[a]) * size);
    added += leaf;
    largest = std::max(largest, leaf);
  }
  const auto n = static_cast<double>(row.n);
  const double from_pairs = drift + any_order(added, largest, A, n, 1, u) +
                            m.lambda * (2 * n + sizes) + stored.u * A +
                            n * stored.floor;
  D.off = std::max(D.off, from_pairs) * second_order(m.model.softmax_u()) +
          (n + 8) * kOracleU * of_oracle;
  D.size = std::max(D.size, A);
  D.off += stored.of(std::fabs(D.value) + D.off, m.lambda);
  return D;
}

// The error of dP - D: a difference, or a sum that starts from -D.
double difference_off(const GradientRow& at, const GradientModel& m,
                      const GradientDot& D, const GradientDot& dP) {
  const double u = m.model.u;
  const double terms = static_cast<double>(at.row.dv) + 1;
  const double y = std::fabs(dP.value) + std::fabs(D.value) + dP.off + D.off;
  const double size = dP.size + std::fabs(D.value) + D.off;
  const double M =
      (size + std::fabs(dP.value - D.value) + dP.drift + D.off) / 2;
  const double started = dP.drift + dP.floor + 2 * m.lambda +
                         u * (dP.size + (terms - 1) * (M + u * size)) /
                             (1 - 2 * terms * u) * second_order(u);
  const double apart = dP.off + m.model.softmax_u() * y;
  return std::max(apart, started) + D.off + kTwinU * dP.size;
}

// dP, as operators hand it on. A product of zeros is 0 in every type.
GradientDot stored_dot(GradientDot dot, const GradientModel& m) {
  if (dot.size > 0) {
    dot.off += m.pair.of(std::fabs(dot.value) + dot.off, m.lambda);
  }
  return dot;
}

// How far the derivative of the cap may be, and what it is.
struct CapSlope {
  double value = 1;
  double off = 0;
};

CapSlope cap_slope(const RowView& row, const GradientModel& m, int64_t a,
                   double e) {
  if (!(row.softcap > 0)) return {};
  const double T = row.softcap;
  const double t =
      row.softcap_after_bias ? row.score[a] / T : std::tanh(row.scaled[a] / T);
  const double moved = e / T;
  const double u = m.model.u + m.pair.u;
  const double off = 2 * std::fabs(t) * moved + moved * moved + 6 * u +
                     m.lambda + 3 * m.pair.floor;
  return {1 - t * t, std::min(off, 1 + 8 * u)};
}

// From dS to dZ, and what half storage makes of it.
void cap_and_round(const GradientRow& at, const GradientModel& m, int64_t a,
                   double dS, double s_off, double e, GradientPairs& out) {
  const double u = m.model.u + m.pair.u;
  const CapSlope f = cap_slope(at.row, m, a, e);
  double off = s_off;
  out.z[a] = std::fabs(f.value * dS);
  if (at.row.softcap > 0) {
    off = f.value * s_off + (std::fabs(dS) + s_off) * f.off;
    off += u * (out.z[a] + off) + m.lambda * (2 + std::fabs(dS) + s_off) +
           m.pair.floor;
  }
  const bool capped = at.row.softcap > 0 && at.row.softcap_after_bias;
  out.s_off[a] = capped ? off : s_off;
  const double grown = std::max(1.0, 1 / at.row.scale);
  // The scale may be a stage of its own.
  double size = out.z[a] + off;
  off += std::min(size, m.pair.of(size, m.lambda, grown));
  size = out.z[a] + off;
  if (m.half_u > 0 && !m.pair_is_operand) {
    off += half_rounding(m, size, m.half_floor * grown);
  }
  const double largest = size * std::max(1.0, at.row.scale);
  out.unjudged =
      out.unjudged || !(largest <= std::min(m.half_largest, m.pair.largest));
  out.z_off[a] = off;
  out.z_size[a] = out.z[a] + off;
}

}  // namespace

GradientModel::GradientModel(const PrecisionModel& of_case) : model(of_case) {
  half_u = of_case.p_u;
  lambda = of_case.range.lambda(of_case.ftz);
  half_floor = std::max(of_case.p_floor, lambda);
  half_largest = of_case.p_largest;
  pair = of_case.score;
  const bool stored_alike =
      of_case.softmax.rounds() && of_case.softmax.to == pair.to;
  if (!stored_alike) share = pair;
  // If operators store their results, the next one reads rounded P.
  rounded_first = (of_case.p_any_stage || pair.rounds()) && of_case.p_u > 0;
  // A stored result is used as an operand of that type without another
  // rounding.
  pair_is_operand = pair.rounds() && half_u == pair.u;
  const bool as_it_stands = of_case.ref_roundings == 0 &&
                            of_case.scale_stage == ScaleStage::kAfterDot;
  lse_roundings = as_it_stands ? 0 : of_case.ref_roundings + kLseAnyhow;
  model.p_u = model.p_floor = 0;
  model.p_any_stage = model.p_normalised = model.sum_of_rounded_p = false;
  model.output_u = model.output_floor = 0;
  model.dot_sum = SumOrder::kAny;
  model.value_sum = SumOrder::kAny;
}

double half_rounding(const GradientModel& m, double x, double floor) {
  return std::min(x, std::max(m.half_u * x, floor));
}

ValueFacts::ValueFacts(const BoundFacts::Impl& facts, int64_t kv)
    : v(facts.v.data() + kv * facts.shape.Tk * facts.shape.dv),
      dv(facts.shape.dv),
      known(facts.shape.Tk),
      grid(facts.shape.Tk),
      sum(facts.shape.Tk) {}

void ValueFacts::look_at(int64_t key) {
  if (known[key] != 0) return;
  known[key] = 1;
  grid[key] = grid_of(v + key * dv, dv);
  sum[key] = abs_sum(v + key * dv, dv);
}

void gradient_pairs(const GradientRow& at, const GradientModel& m,
                    ValueFacts& values, GradientScratch& scratch,
                    GradientPairs& out) {
  const RowView& row = at.row;
  const double u = m.model.softmax_u();
  out.unjudged = true;
  const RowErrors errors = bound_scores(row, m.model, scratch.row);
  if (errors.unjudged ||
      !(4 * static_cast<double>(row.dv + 1) * m.model.u <= 1)) {
    return;
  }
  if (!shares(at, m, errors, scratch, out)) return;
  const Factor g = factor_of(at.g, at.g_off, row.dv);
  for (int64_t a = 0; a < row.n; ++a) {
    const int64_t key = row.key(a);
    values.look_at(key);
    const double* v_off =
        row.v_error != nullptr ? row.v_error + key * row.dv : nullptr;
    const Factor v = {values.v + key * row.dv, v_off, values.grid[key],
                      values.sum[key]};
    scratch.dP[a] = stored_dot(dot_of(g, v, row.dv, m), m);
  }
  const GradientDot D = delta(at, m, scratch);
  const double largest =
      std::min(m.model.range.largest_safe, m.model.softmax.largest);
  out.unjudged = !(D.size <= largest);
  for (int64_t a = 0; a < row.n; ++a) {
    const double p = row.p[a];
    const double p_off = scratch.p_off[a];
    const GradientDot& dP = scratch.dP[a];
    const double dS = p * (dP.value - D.value);
    const double y = std::fabs(dP.value) + std::fabs(D.value) + dP.off + D.off;
    if (!(y + dP.size <= m.model.range.largest_safe) ||
        !(y <= std::min(m.model.softmax.largest, m.pair.largest))) {
      out.unjudged = true;
    }
    const double apart = difference_off(at, m, D, dP);
    double s_off = p_off * std::fabs(dP.value - D.value) + (p + p_off) * apart;
    s_off += u * (std::fabs(dS) + s_off) + m.lambda * (4 + y) +
             3 * m.model.softmax.floor;
    s_off += m.share.of(std::fabs(dS) + s_off, m.lambda);
    s_off *= second_order(u + m.pair.u) * errors.evaluation;
    out.reach[a] = p * (std::fabs(dP.value) + std::fabs(D.value));
    cap_and_round(at, m, a, dS, s_off, scratch.row.score_error[a], out);
    const bool later = m.half_u > 0 && !m.rounded_first;
    out.p_off[a] =
        p_off + (later ? half_rounding(m, p + p_off, m.half_floor) : 0);
    out.p_size[a] = p + out.p_off[a];
  }
  if (row.sink == nullptr) return;
  const double share = *row.sink_share;
  const double size = std::fabs(D.value) + D.off;
  out.sink = share * std::fabs(D.value);
  out.sink_size = (share + out.sink_off) * size;
  out.sink_off = out.sink_off * size + share * D.off +
                 m.model.softmax.of(out.sink_size, m.lambda);
}

}  // namespace qkvet::reference

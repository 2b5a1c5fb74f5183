// SPDX-License-Identifier: Apache-2.0
#include "reference/attention/mpfr_forward.h"

#include <mpfr.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace qkvet::reference {
namespace {

constexpr mpfr_prec_t kBits = 256;

class Real {
 public:
  Real(double value = 0) {  // NOLINT: a number
    mpfr_init2(x_, kBits);
    mpfr_set_d(x_, value, MPFR_RNDN);
  }
  Real(const Real& other) : Real() { mpfr_set(x_, other.x_, MPFR_RNDN); }
  Real& operator=(const Real& other) {
    mpfr_set(x_, other.x_, MPFR_RNDN);
    return *this;
  }
  ~Real() { mpfr_clear(x_); }

  Real& operator+=(const Real& y) {
    mpfr_add(x_, x_, y.x_, MPFR_RNDN);
    return *this;
  }
  friend Real operator+(Real x, const Real& y) { return x += y; }
  friend Real operator-(Real x, const Real& y) {
    mpfr_sub(x.x_, x.x_, y.x_, MPFR_RNDN);
    return x;
  }
  friend Real operator*(Real x, const Real& y) {
    mpfr_mul(x.x_, x.x_, y.x_, MPFR_RNDN);
    return x;
  }
  friend Real operator/(Real x, const Real& y) {
    mpfr_div(x.x_, x.x_, y.x_, MPFR_RNDN);
    return x;
  }
  friend bool operator<(const Real& x, const Real& y) {
    return mpfr_less_p(x.x_, y.x_) != 0;
  }
  Real exp() const {
    Real y;
    mpfr_exp(y.x_, x_, MPFR_RNDN);
    return y;
  }
  Real log() const {
    Real y;
    mpfr_log(y.x_, x_, MPFR_RNDN);
    return y;
  }
  Real tanh() const {
    Real y;
    mpfr_tanh(y.x_, x_, MPFR_RNDN);
    return y;
  }
  double nearest() const { return mpfr_get_d(x_, MPFR_RNDN); }

 private:
  mpfr_t x_;
};

// One row, and the member that holds it.
struct At {
  int64_t b, h, i, kv;
  bool counted;
  int64_t first_key, end_key;
  int64_t diagonal;  // counted over the whole of k
  int64_t member;
  int64_t first_draft = 0;  // the key at which as many are left as rows
};

At place_of(const Problem& p, int64_t b, int64_t h, int64_t i) {
  const Shape& s = p.shape;
  At at = {b, h, i, h / (s.H / s.Hkv), true, 0, s.Tk, 0, b};
  int64_t first = 0, end = s.Tq;
  if (p.q_len != nullptr) end = p.q_len[b];
  if (p.kv_len != nullptr) at.end_key = p.kv_len[b];
  if (p.cu_q != nullptr) {
    end = 0;
    for (int64_t m = 0; m < p.members; ++m) {
      if (i < p.cu_q[m] || i >= p.cu_q[m + 1]) continue;
      at.member = m;
      first = p.cu_q[m];
      end = p.cu_q[m + 1];
      at.first_key = p.cu_k[m];
      at.end_key = p.cu_k[m + 1];
    }
  }
  at.counted = i < end;
  at.first_draft = at.end_key - (end - first);
  const int64_t row = i - first;
  at.diagonal = at.first_key + row;
  if (p.causal != Causal::kTopLeft) {
    at.diagonal += (at.end_key - at.first_key) - (end - first);
  }
  return at;
}

int64_t pair_of(const Problem& p, const At& at, int64_t j) {
  const Shape& s = p.shape;
  return ((at.b * s.H + at.h) * s.Tq + at.i) * s.Tk + j;
}

bool is_listed(const Problem& p, const At& at, int64_t j) {
  const ListedKeys& all = p.listed;
  const Shape& s = p.shape;
  int64_t row = at.b * s.Tq + at.i;
  const int64_t count = all.counts != nullptr ? all.counts[row] : all.entries;
  if (all.heads > 1) {
    row = (at.b * s.Hkv + at.h / s.group()) * s.Tq + at.i;
  }
  int64_t n = 0;
  while (n < count && at.first_key + all.keys[row * all.entries + n] != j) ++n;
  return n < count;
}

// Whether one range contains both the row's position and key j.
bool share_a_range(const Problem& p, const At& at, int64_t j) {
  bool shared = false;
  for (int64_t r = 0; r < p.fields.ranges; ++r) {
    const int64_t* range =
        p.fields.full_ranges + (at.b * p.fields.ranges + r) * 2;
    const int64_t low = std::min(at.diagonal, j) - at.first_key;
    const int64_t high = std::max(at.diagonal, j) - at.first_key;
    shared = shared || (range[0] <= low && high < range[1]);
  }
  return shared;
}

// Whether segments, chunks and trees leave the pair.
bool fields_show(const Problem& p, const At& at, int64_t j) {
  const FieldMasks& f = p.fields;
  if (f.chunk > 0) {
    const auto chunk = [&](int64_t key) {
      return std::floor(static_cast<double>(key - at.first_key) /
                        static_cast<double>(f.chunk));
    };
    if (chunk(at.diagonal) != chunk(j)) return false;
  }
  const int64_t row = at.b * p.shape.Tq + at.i;
  if (f.segments_q != nullptr &&
      (f.segments_q[row] < 0 ||
       f.segments_q[row] != f.segments_k[at.b * p.shape.Tk + j]))
    return false;
  const int64_t draft = j - at.first_draft;
  return f.tree == nullptr || draft < 0 ||
         f.tree[row * p.shape.Tq + draft] != 0;
}

bool is_seen(const Problem& p, const At& at, int64_t j) {
  if (!at.counted || j < at.first_key || j >= at.end_key) return false;
  const int64_t ahead = j - at.diagonal;
  const bool ranged = share_a_range(p, at, j);
  if (p.causal != Causal::kNone && ahead > 0 && !ranged) return false;
  if (p.window && (!ranged || p.fields.in_window)) {
    if (p.window->left >= 0 && -ahead > p.window->left) return false;
    if (p.window->right >= 0 && ahead > p.window->right) return false;
  }
  if (!fields_show(p, at, j)) return false;
  const int64_t pair = pair_of(p, at, j);
  if (p.mask != nullptr && p.mask[pair] == 0) return false;
  if (p.listed.keys != nullptr && !is_listed(p, at, j)) return false;
  const bool capped_away = p.softcap > 0 && p.softcap_after_bias;
  return p.bias == nullptr || capped_away ||
         p.bias[pair] != -std::numeric_limits<double>::infinity();
}

// Channel c of a row at `position`, rotated if the problem has a rotation.
Real channel_of(const Problem& p, const double* row, int64_t position,
                int64_t c) {
  const Rotation& turn = p.rotation;
  if (turn.style == RopeStyle::kNone || c >= turn.channels) return row[c];
  const int64_t pairs = turn.channels / 2;
  const bool half = turn.style == RopeStyle::kHalf;
  const int64_t pair = half ? c % pairs : c / 2;
  const int64_t apart = half ? pairs : 1;
  const Real cos = turn.cos[position * pairs + pair];
  const Real sin = turn.sin[position * pairs + pair];
  const bool first = half ? c < pairs : c % 2 == 0;
  return first ? Real(row[c]) * cos - Real(row[c + apart]) * sin
               : Real(row[c]) * cos + Real(row[c - apart]) * sin;
}

Real score_of(const Problem& p, const At& at, int64_t j) {
  const Shape& s = p.shape;
  const double* q = p.q + ((at.b * s.H + at.h) * s.Tq + at.i) * s.d;
  const double* k = p.k + ((at.b * s.Hkv + at.kv) * s.Tk + j) * s.d;
  Real score;
  const bool turns = p.rotation.style != RopeStyle::kNone;
  const int64_t q_at = turns ? p.rotation.q_positions[at.b * s.Tq + at.i] : 0;
  const int64_t k_at = turns ? p.rotation.k_positions[at.b * s.Tk + j] : 0;
  for (int64_t c = 0; c < s.d; ++c)
    score += channel_of(p, q, q_at, c) * channel_of(p, k, k_at, c);
  score = score * Real(p.scale);
  Real added;
  if (p.bias != nullptr) added += Real(p.bias[pair_of(p, at, j)]);
  if (p.slopes != nullptr) {
    const int64_t from =
        p.places == nullptr ? at.diagonal : p.places[at.diagonal];
    const int64_t to = p.places == nullptr ? j : p.places[j];
    const auto distance = static_cast<double>(std::abs(from - to));
    const int64_t slope = p.member_slopes ? at.member * s.H + at.h : at.h;
    added = added - Real(p.slopes[slope]) * Real(distance);
  }
  if (p.softcap_after_bias) score += added;
  if (p.softcap > 0) {
    score = Real(p.softcap) * (score / Real(p.softcap)).tanh();
  }
  return p.softcap_after_bias ? score : score + added;
}

// Scores are taken against the largest of the row: the exponents of MPFR have
// room for any difference of scores that is judged.
void fill_row(const Problem& p, const At& at, int64_t row, OracleOutput& out) {
  const Shape& s = p.shape;
  std::vector<int64_t> keys;
  for (int64_t j = 0; j < s.Tk; ++j) {
    if (is_seen(p, at, j)) keys.push_back(j);
  }
  out.visible[row] =
      at.counted ? static_cast<int64_t>(keys.size()) : kRowNotCounted;
  if (keys.empty()) {
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    const double none = -std::numeric_limits<double>::infinity();
    // A sink is then all of the softmax.
    const double sink = p.sink != nullptr ? p.sink[at.h] : none;
    const bool sinks = at.counted && sink > none;
    for (int64_t t = 0; t < s.dv; ++t) out.o[row * s.dv + t] = sinks ? 0 : kNaN;
    out.lse[row] = !at.counted ? kNaN : p.sink_in_lse ? sink : none;
    return;
  }
  std::vector<Real> weights;
  Real top = -std::numeric_limits<double>::infinity();
  for (const int64_t j : keys) {
    weights.push_back(score_of(p, at, j));
    if (top < weights.back()) top = weights.back();
  }
  Real sum;
  for (Real& weight : weights) {
    weight = (weight - top).exp();
    sum += weight;
  }
  const Real of_keys = sum;
  if (p.sink != nullptr) sum += (Real(p.sink[at.h]) - top).exp();
  out.lse[row] = (top + (p.sink_in_lse ? sum : of_keys).log()).nearest();
  for (size_t a = 0; a < keys.size(); ++a) {
    const int64_t pair = row * s.Tk + keys[a];
    out.sees[pair] = 1;
    out.weights[pair] = (weights[a] / sum).nearest();
  }
  const double* v = p.v + (at.b * s.Hkv + at.kv) * s.Tk * s.dv;
  for (int64_t t = 0; t < s.dv; ++t) {
    Real value;
    for (size_t a = 0; a < keys.size(); ++a) {
      value += weights[a] * Real(v[keys[a] * s.dv + t]);
    }
    out.o[row * s.dv + t] = (value / sum).nearest();
  }
}

}  // namespace

OracleOutput mpfr_forward(const Problem& problem) {
  // A thousand millions are not enough for exp(-1e9), a finite mask.
  mpfr_set_emin(mpfr_get_emin_min());
  mpfr_set_emax(mpfr_get_emax_max());
  const Shape& s = problem.shape;
  OracleOutput out;
  out.o.resize(s.o_elements());
  out.lse.resize(s.lse_elements());
  out.weights.assign(s.weights_elements(), 0.0);
  out.visible.resize(s.lse_elements());
  out.sees.assign(s.weights_elements(), 0);
  int64_t row = 0;
  for (int64_t b = 0; b < s.B; ++b) {
    for (int64_t h = 0; h < s.H; ++h) {
      for (int64_t i = 0; i < s.Tq; ++i, ++row) {
        fill_row(problem, place_of(problem, b, h, i), row, out);
      }
    }
  }
  return out;
}

}  // namespace qkvet::reference

// SPDX-License-Identifier: Apache-2.0
// Contraction is off in the whole project, so that `a * b + c` rounds twice
// here; std::fma rounds once.
#include "reference/testing/test_backward.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/base/half.h"
#include "reference/attention/plain.h"

namespace qkvet::reference {
namespace {

template <class Real>
class Backward {
 public:
  Backward(const BackwardKernel& kernel, const GradientProblem& problem)
      : kernel_(kernel),
        problem_(problem),
        call_(problem.forward),
        shape_(call_.shape),
        sums_(kernel.order, kernel.fma, kernel.ftz),
        c_(static_cast<Real>(call_.scale)) {
    if (!call_.scale_given) c_ = 1 / std::sqrt(static_cast<Real>(shape_.d));
    c_ = soft(c_);
  }
  GradientOutput run();

 private:
  using Reals = std::vector<Real>;
  static constexpr Real kBase = Real(0x1.71547652b82fep0);  // log2 e
  struct Row {
    int64_t row = 0;
    int64_t h = 0;
    int64_t kv = 0;
    int64_t member = 0;
    int64_t diagonal = 0;  // counted over the whole of k
    std::vector<int64_t> keys;
    Reals q, g, p, z;  // [d], [dv], [n], [n] dZ
    Reals f;           // [n], of dropout
  };

  Real flush(Real x) const { return sums_.flush(x); }
  Reals read(const double* x, int64_t count) const {
    Reals out(count);
    for (int64_t i = 0; i < count; ++i) {
      out[i] = flush(static_cast<Real>(x[i]));
    }
    return out;
  }
  Reals read_operand(const double* x, int64_t count) const {
    Reals out = read(x, count);
    for (Real& value : out) value = kernel_.operands ? rounded(value) : value;
    return out;
  }
  static Real rounded_to(Dtype type, Real x) {
    return type == Dtype::kF32 ? x : static_cast<Real>(round_to(type, x));
  }
  Real rounded(Real x) const { return rounded_to(kernel_.rounded, x); }
  // As operators store it, and as the softmax does.
  Real kept(Real x) const { return rounded_to(kernel_.stored, x); }
  Real soft(Real x) const { return rounded_to(kernel_.softmax, x); }
  Real score(const Row& row, int64_t j, Real& slope) const;
  Real offset(const Row& row, int64_t j) const;
  Real whole_lse(const Row& row) const;
  Real share(Real s, Real m, Real total, Real lse) const;
  // Too large for some arguments, too small for others.
  Real exponential(Real x) const {
    const auto off = static_cast<Real>(kernel_.exp_error);
    if (off == 0) return flush(std::exp(x));
    const bool up = std::fmod(std::fabs(x) * 64, Real(2)) < 1;
    return flush(std::exp(x) * (up ? 1 + off : 1 - off));
  }
  Real folded_share(const Row& row, int64_t j, Real lse) const;
  Real stored_dot(const Reals& x, const Reals& y) const;
  void shares(Row& row, Reals& slopes);
  void pairs(Row& row, const Reals& slopes, GradientOutput& out);
  void finish_row(const Row& row, GradientOutput& out) const;
  void finish_key(int64_t kv, int64_t j, const std::vector<Row>& rows,
                  GradientOutput& out) const;
  Real times_scale(Real x) const {
    Real c = c_;
    if (kernel_.fault == TestBackwardFault::kScale) c *= 1 + Real(0x1p-8);
    if (kernel_.fault == TestBackwardFault::kSlightScale) {
      c *= 1 + Real(0x1p-14);
    }
    return flush(x * c);
  }
  // The factor of dropout.
  Real factor(const Row& row, int64_t j) const {
    if (kernel_.dropout == nullptr) return 1;
    if (kernel_.fault == TestBackwardFault::kOtherMask) j = (j + 1) % shape_.Tk;
    if (kernel_.dropout->kept[row.row * shape_.Tk + j] == 0) return 0;
    const auto p = static_cast<Real>(kernel_.dropout->p);
    return kernel_.fault == TestBackwardFault::kScaledByP ? 1 / p : 1 / (1 - p);
  }
  // A term's factor from dZ, and from k or q.
  Real pair_factor(Real z) const {
    return rounded(kernel_.scale == TestScale::kPair ? kept(times_scale(z))
                                                     : z);
  }
  Real operand(Real x) const {
    return kernel_.scale == TestScale::kOperand ? times_scale(x) : x;
  }
  Real scaled_sum(Real x) const {
    return kernel_.scale == TestScale::kSum ? times_scale(x) : x;
  }

  const BackwardKernel& kernel_;
  const GradientProblem& problem_;
  const Problem& call_;
  const Shape& shape_;
  mutable TestSums<Real> sums_;
  Real c_;
  std::vector<Reals> sink_;  // [H] terms
};

template <class Real>
Real Backward<Real>::offset(const Row& row, int64_t j) const {
  Real b = 0;
  if (call_.slopes != nullptr) {
    const auto apart = static_cast<Real>(std::abs(row.diagonal - j));
    const int64_t at = call_.member_slopes ? row.member * shape_.H : 0;
    b = -flush(static_cast<Real>(call_.slopes[at + row.h]) * apart);
  }
  if (call_.bias == nullptr) return b;
  return flush(b + static_cast<Real>(call_.bias[row.row * shape_.Tk + j]));
}

// The score of a key, and the derivative of its cap.
template <class Real>
Real Backward<Real>::score(const Row& row, int64_t j, Real& slope) const {
  const Reals k =
      read_operand(call_.k + (row.kv * shape_.Tk + j) * shape_.d, shape_.d);
  Real s = 0;
  if (kernel_.scale == TestScale::kOperand) {
    Reals q = row.q;
    for (Real& x : q) x = flush(x * c_);
    s = kept(sums_.dot(q, k));
  } else {
    s = kept(flush(kept(sums_.dot(row.q, k)) * c_));
  }
  const Real b = offset(row, j);
  slope = 1;
  const bool last = call_.softcap_after_bias;
  if (last || !(call_.softcap > 0)) s = kept(flush(s + b));
  if (!(call_.softcap > 0)) return s;
  const Real cap = static_cast<Real>(call_.softcap);
  const Real t = kept(std::tanh(kept(flush(s / cap))));
  slope = kernel_.product_apart ? flush(kept(1 - t) * kept(1 + t))
                                : flush(1 - kept(t * t));
  slope = kept(slope);
  s = kept(flush(t * cap));
  return last ? s : kept(flush(s + b));
}

// The logarithm of the whole denominator, from what was given.
template <class Real>
Real Backward<Real>::whole_lse(const Row& row) const {
  constexpr Real kLn2 = Real(0x1.62e42fefa39efp-1);
  Real lse = static_cast<Real>(problem_.lse[row.row]);
  if (kernel_.base2) {
    const double stored = problem_.lse[row.row] * 0x1.71547652b82fep0;
    lse = static_cast<Real>(stored) * kLn2;
  }
  if (call_.sink == nullptr || call_.sink_in_lse) return lse;
  const Real z = static_cast<Real>(call_.sink[row.h]);
  const Real larger = std::max(lse, z);
  if (!std::isfinite(z)) return lse;
  return larger + std::log(std::exp(lse - larger) + std::exp(z - larger));
}

template <class Real>
Real Backward<Real>::share(Real s, Real m, Real total, Real lse) const {
  switch (kernel_.share) {
    case TestShare::kSoftmax:
      return soft(flush(soft(exponential(soft(s - m))) / total));
    case TestShare::kExp2:
      return flush(std::exp2((s - lse) * kBase));
    case TestShare::kFolded:
      return flush(std::exp2(std::fma(s, kBase, -(lse * kBase))));
    case TestShare::kGiven:
    case TestShare::kOwnLse:
      break;
  }
  return soft(exponential(soft(s - soft(lse))));
}

// The scale joins the logarithm's base.
template <class Real>
Real Backward<Real>::folded_share(const Row& row, int64_t j, Real lse) const {
  const Reals k =
      read_operand(call_.k + (row.kv * shape_.Tk + j) * shape_.d, shape_.d);
  return flush(std::exp2(
      std::fma(sums_.dot(row.q, k), flush(c_ * kBase), -(lse * kBase))));
}

// P of every key, and what the sink adds to its own gradient later.
template <class Real>
void Backward<Real>::shares(Row& row, Reals& slopes) {
  Reals s(row.keys.size());
  slopes.resize(row.keys.size());
  for (size_t a = 0; a < s.size(); ++a) {
    s[a] = score(row, row.keys[a], slopes[a]);
  }
  const bool has_sink = call_.sink != nullptr;
  const Real z = has_sink ? static_cast<Real>(call_.sink[row.h]) : 0;
  Real m = *std::max_element(s.begin(), s.end());
  if (has_sink) m = std::max(m, z);
  Real lse = whole_lse(row);
  Real total = 1;
  if (kernel_.share == TestShare::kOwnLse ||
      kernel_.share == TestShare::kSoftmax) {
    Reals w;
    for (const Real x : s) w.push_back(soft(exponential(soft(x - m))));
    if (has_sink) w.push_back(soft(exponential(soft(z - m))));
    total = soft(sums_.sum(w));
    lse = m + std::log(total);
  }
  row.p.resize(s.size());
  for (size_t a = 0; a < s.size(); ++a) {
    const bool plain =
        call_.bias == nullptr && call_.slopes == nullptr && call_.softcap == 0;
    row.p[a] = kernel_.share == TestShare::kFolded && plain
                   ? folded_share(row, row.keys[a], lse)
                   : share(s[a], m, total, lse);
    if (kernel_.rounded_first) row.p[a] = rounded(row.p[a]);
  }
  if (has_sink) sink_[row.h].push_back(share(z, m, total, lse));
}

// D; a softmax in half stores its products before it adds them.
template <class Real>
Real Backward<Real>::stored_dot(const Reals& x, const Reals& y) const {
  if (kernel_.softmax == Dtype::kF32) return sums_.dot(x, y);
  Reals products;
  for (size_t t = 0; t < x.size(); ++t) products.push_back(soft(x[t] * y[t]));
  return soft(sums_.sum(products));
}

template <class Real>
void Backward<Real>::pairs(Row& row, const Reals& slopes, GradientOutput& out) {
  const size_t n = row.keys.size();
  const Reals o = read(problem_.o + row.row * shape_.dv, shape_.dv);
  std::vector<Reals> v(n);
  Real D = stored_dot(row.g, o);
  Reals dP(n);
  if (kernel_.fault == TestBackwardFault::kDeltaMissing) D = 0;
  const bool started = kernel_.delta == TestDelta::kStart;
  for (size_t a = 0; a < n; ++a) {
    v[a] = read_operand(
        call_.v + (row.kv * shape_.Tk + row.keys[a]) * shape_.dv, shape_.dv);
    dP[a] = kept(sums_.dot(row.g, v[a], started ? -D : Real(0)));
    row.f.push_back(factor(row, row.keys[a]));
    if (kernel_.fault != TestBackwardFault::kPullNotMasked)
      dP[a] = flush(dP[a] * row.f[a]);
  }
  if (kernel_.delta == TestDelta::kPairs) D = stored_dot(row.p, dP);
  if (kernel_.fault == TestBackwardFault::kDeltaMissing) D = 0;
  if (call_.sink != nullptr) {
    Real& term = sink_[row.h].back();
    term = -soft(flush(term * D));
  }
  row.z.resize(n);
  for (size_t a = 0; a < n; ++a) {
    if (kernel_.fault == TestBackwardFault::kDroppedWeights)
      row.p[a] *= std::exchange(row.f[a], Real(1));
    const Real p = row.p[a];
    Real dS = 0;
    if (started) {
      dS = flush(p * dP[a]);
    } else if (kernel_.product_apart) {
      dS = flush(soft(flush(p * dP[a])) - soft(flush(p * D)));
    } else {
      dS = flush(p * soft(flush(dP[a] - D)));
    }
    dS = kept(soft(dS));
    row.z[a] = call_.softcap > 0 ? kept(flush(dS * slopes[a])) : dS;
    const bool capped = call_.softcap > 0 && call_.softcap_after_bias;
    out.bias[row.row * shape_.Tk + row.keys[a]] = capped ? row.z[a] : dS;
    row.z[a] = pair_factor(row.z[a]);
    row.p[a] = rounded(flush(row.p[a] * row.f[a]));
  }
  if (kernel_.fault == TestBackwardFault::kLostKey && n > 1) {
    row.z[n - 1] = row.p[n - 1] = 0;
  }
}

template <class Real>
void Backward<Real>::finish_row(const Row& row, GradientOutput& out) const {
  const int64_t d = shape_.d;
  for (int64_t c = 0; c < d; ++c) {
    Reals k;
    for (const int64_t j : row.keys) {
      const double* x = call_.k + (row.kv * shape_.Tk + j) * d + c;
      k.push_back(operand(read_operand(x, 1)[0]));
    }
    out.q[row.row * d + c] = scaled_sum(sums_.dot(row.z, k));
  }
}

// Sums over the rows of a group, or over each head's and then over heads.
template <class Real>
void Backward<Real>::finish_key(int64_t kv, int64_t j,
                                const std::vector<Row>& rows,
                                GradientOutput& out) const {
  const int64_t d = shape_.d;
  const int64_t dv = shape_.dv;
  const int64_t key = kv * shape_.Tk + j;
  const int64_t last = (kv % shape_.Hkv + 1) * shape_.group() - 1;
  for (int64_t e = 0; e < d + dv; ++e) {
    std::vector<std::pair<Reals, Reals>> parts(1);
    int64_t h = -1;
    for (const Row& row : rows) {
      const bool lost = kernel_.fault == TestBackwardFault::kLostMember &&
                        shape_.group() > 1 && row.h == last;
      const auto at = std::find(row.keys.begin(), row.keys.end(), j);
      if (lost || at == row.keys.end()) continue;
      const size_t a = at - row.keys.begin();
      if (kernel_.heads_apart && h >= 0 && row.h != h) parts.emplace_back();
      h = row.h;
      parts.back().first.push_back(e < d ? row.z[a] : row.p[a]);
      parts.back().second.push_back(e < d ? operand(row.q[e]) : row.g[e - d]);
    }
    Reals sums;
    for (const auto& part : parts) {
      const Real one = sums_.dot(part.first, part.second);
      sums.push_back(e < d ? scaled_sum(one) : one);
    }
    const Real total = sums.size() == 1 ? sums[0] : sums_.sum(sums);
    (e < d ? out.k[key * d + e] : out.v[key * dv + e - d]) = total;
  }
}

template <class Real>
GradientOutput Backward<Real>::run() {
  GradientOutput out;
  out.q.resize(shape_.q_elements());
  out.k.resize(shape_.k_elements());
  out.v.resize(shape_.v_elements());
  out.bias.resize(shape_.weights_elements());
  sink_.resize(shape_.H);
  const OracleOutput forward = plain_forward(call_);
  for (int64_t kv = 0; kv < shape_.B * shape_.Hkv; ++kv) {
    std::vector<Row> rows;
    const int64_t count = shape_.group() * shape_.Tq;
    for (int64_t r = kv * count; r < (kv + 1) * count; ++r) {
      if (forward.visible[r] <= 0) continue;
      Row row;
      row.row = r;
      row.h = r / shape_.Tq % shape_.H;
      const PlainPlace place =
          PlainHooks::place(call_, kv / shape_.Hkv, row.h, r % shape_.Tq);
      row.member = place.member;
      row.diagonal = place.first_k + PlainHooks::diagonal(call_, place);
      row.kv = kv;
      for (int64_t j = 0; j < shape_.Tk; ++j)
        if (forward.sees[r * shape_.Tk + j] != 0) row.keys.push_back(j);
      row.q = read_operand(call_.q + r * shape_.d, shape_.d);
      row.g = read_operand(problem_.d_o + r * shape_.dv, shape_.dv);
      Reals slopes;
      shares(row, slopes);
      pairs(row, slopes, out);
      finish_row(row, out);
      rows.push_back(row);
    }
    for (int64_t j = 0; j < shape_.Tk; ++j) finish_key(kv, j, rows, out);
  }
  for (int64_t h = 0; h < shape_.H && call_.sink != nullptr; ++h) {
    out.sink.push_back(sums_.sum(sink_[h]));
  }
  return out;
}

}  // namespace

GradientOutput run_backward_kernel(const BackwardKernel& kernel,
                                   const GradientProblem& problem) {
  if (kernel.storage == Dtype::kF64) {
    return Backward<double>(kernel, problem).run();
  }
  return Backward<float>(kernel, problem).run();
}

}  // namespace qkvet::reference

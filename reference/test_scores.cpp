// SPDX-License-Identifier: Apache-2.0
// The scores of the test kernels: who sees whom, dot products, and what options
// make of them. Contraction is off, as in test_kernels.cpp.
#include "reference/test_kernels.h"

namespace qkvet {
namespace {

std::vector<float> to_f32(const double* x, int64_t count) {
  std::vector<float> out(count);
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(x[i]);
  return out;
}

}  // namespace

TestSeen test_seen(const Problem& problem, int64_t row) {
  const Shape& s = problem.shape;
  const int64_t b = row / (s.H * s.Tq);
  const int64_t i = row % s.Tq;
  int64_t q0 = 0;
  int64_t q1 = problem.q_len != nullptr ? problem.q_len[b] : s.Tq;
  int64_t k1 = problem.kv_len != nullptr ? problem.kv_len[b] : s.Tk;
  TestSeen seen;
  if (problem.members > 0) {
    int64_t m = 0;
    while (m < problem.members && i >= problem.cu_q[m + 1]) ++m;
    seen.counted = m < problem.members && i >= problem.cu_q[0];
    if (!seen.counted) return seen;
    q0 = problem.cu_q[m];
    q1 = problem.cu_q[m + 1];
    seen.begin = problem.cu_k[m];
    k1 = problem.cu_k[m + 1];
  }
  seen.counted = i < q1;
  if (!seen.counted) return seen;
  const bool top_left = problem.causal == Causal::kTopLeft;
  seen.diagonal = seen.begin + (i - q0);
  if (!top_left) seen.diagonal += (k1 - seen.begin) - (q1 - q0);
  for (int64_t j = seen.begin; j < k1; ++j) {
    const int64_t ahead = j - seen.diagonal;
    bool hidden = problem.causal != Causal::kNone && ahead > 0;
    if (problem.window) {
      const Window& w = *problem.window;
      hidden = hidden || (w.right >= 0 && ahead > w.right) ||
               (w.left >= 0 && -ahead > w.left);
    }
    const int64_t pair = row * s.Tk + j;
    if (problem.mask != nullptr) hidden = hidden || problem.mask[pair] == 0;
    const bool capped = problem.softcap > 0 && problem.softcap_after_bias;
    if (problem.bias != nullptr && !capped) {
      hidden = hidden || problem.bias[pair] == -HUGE_VAL;
    }
    if (!hidden) seen.keys.push_back(j);
  }
  return seen;
}

TestRow::TestRow(const TestKernel& kernel, const Problem& problem, int64_t row,
                 int64_t kv, const TestSeen& seen)
    : kernel_(kernel),
      problem_(problem),
      row_(row),
      Tk_(problem.shape.Tk),
      d_(problem.shape.d),
      dv_(problem.shape.dv),
      diagonal_(seen.diagonal),
      begin_(seen.begin),
      scale_(static_cast<float>(problem.scale)),
      exp_(kernel.exp),
      with_sink_in_lse_(problem.sink_in_lse) {
  if (!problem.scale_given) scale_ = 1 / std::sqrt(static_cast<float>(d_));
  if (kernel.fault == TestFault::kScale) scale_ *= 1 + 0x1p-10f;
  place_keys(seen);
  // The sign goes to q, where it is exact.
  const float sign = scale_ < 0 ? -1.0f : 1.0f;
  scale_ = std::fabs(scale_);
  scale_log2_ = scale_ * kTestLog2E;
  q_ = to_f32(problem.q + row * d_, d_);
  for (float& x : q_) x = flush(sign * x);
  k_.assign(n_ * d_, 0.0f);
  v_.assign(n_ * dv_, 0.0f);
  for (int64_t j = 0; j < n_; ++j) {
    if (hidden_[j] != 0) continue;
    const int64_t key = kv * Tk_ + keys_[j];
    for (int64_t c = 0; c < d_; ++c) {
      k_[j * d_ + c] = flush(static_cast<float>(problem.k[key * d_ + c]));
    }
    for (int64_t t = 0; t < dv_; ++t) {
      v_[j * dv_ + t] = flush(static_cast<float>(problem.v[key * dv_ + t]));
    }
  }
  score();
}

// Tiles begin with the member; what is hidden is left out, or weighs nothing.
void TestRow::place_keys(const TestSeen& seen) {
  int64_t count = static_cast<int64_t>(seen.keys.size());
  if (kernel_.fault == TestFault::kLostKey && count > 1) --count;
  for (int64_t a = 0; a < count; ++a) {
    const int64_t from = keys_.empty() ? seen.begin : keys_.back() + 1;
    for (int64_t j = from; j < seen.keys[a] && !kernel_.skip; ++j) {
      keys_.push_back(j);
      hidden_.push_back(1);
    }
    keys_.push_back(seen.keys[a]);
    hidden_.push_back(0);
  }
  n_ = static_cast<int64_t>(keys_.size());
}

float TestRow::pairwise_dot(const float* a, const float* b, int64_t n) const {
  if (n == 1) return flush(a[0] * b[0]);
  const int64_t half = n / 2;
  return flush(pairwise_dot(a, b, half) +
               pairwise_dot(a + half, b + half, n - half));
}

float TestRow::dot(const float* a, const float* b) const {
  if (kernel_.block > 0) return in_blocks(0, a, b, 1, d_);
  if (kernel_.dot == SumOrder::kPairwise) return pairwise_dot(a, b, d_);
  const bool descending = kernel_.dot == SumOrder::kAny;
  std::vector<float> lane(kernel_.lanes, 0.0f);
  for (int64_t i = 0; i < d_; ++i) {
    const int64_t c = descending ? d_ - 1 - i : i;
    float& sum = lane[i % kernel_.lanes];
    sum = flush(kernel_.fma ? std::fma(a[c], b[c], sum)
                            : sum + flush(a[c] * b[c]));
  }
  for (int64_t width = kernel_.lanes / 2; width > 0; width /= 2) {
    for (int64_t l = 0; l < width; ++l) {
      lane[l] = flush(lane[l] + lane[l + width]);
    }
  }
  return lane[0];
}

void TestRow::score() {
  const Problem& p = problem_;
  options_ = p.bias != nullptr || p.slopes != nullptr || p.softcap > 0;
  const bool base2 = exp_ == TestExp::kFolded || exp_ == TestExp::kPrescaled;
  if (shifted()) lse_shift_ = slope() * static_cast<float>(diagonal_ - begin_);
  cap_first_ = p.softcap > 0 && !p.softcap_after_bias;
  if (p.sink != nullptr) {
    float z = static_cast<float>(p.sink[row_ / p.shape.Tq % p.shape.H]);
    if (shifted()) z = flush(z + lse_shift_);
    sink_ = base2 ? flush(z * kTestLog2E) : z;
  }
  if (exp_ == TestExp::kPrescaled) {
    const float cap = static_cast<float>(p.softcap);
    const float by = cap_first_ ? scale_ / cap : scale_log2_;
    for (float& x : q_) x = flush(x * by);
  }
  const bool fold = exp_ == TestExp::kFolded && (options_ || sink_);
  s_.resize(n_);
  for (int64_t j = 0; j < n_; ++j) {
    s_[j] = -HUGE_VALF;
    if (hidden_[j] != 0) continue;
    const float raw = dot(q_.data(), k_.data() + j * d_);
    if (options_) {
      s_[j] = option_score(raw, j);
    } else if (fold) {
      s_[j] = flush(raw * scale_log2_);
    } else if (base2) {
      s_[j] = raw;
    } else {
      s_[j] = flush(raw * scale_);
    }
  }
  // From here on, scores are in base 2.
  if (fold) exp_ = TestExp::kPrescaled;
}

// A bidirectional distance cannot be shifted away, nor what is capped after it.
bool TestRow::shifted() const {
  return problem_.slopes != nullptr && kernel_.alibi == TestAlibi::kShift &&
         keys_.back() <= diagonal_ &&
         !(problem_.softcap > 0 && problem_.softcap_after_bias);
}

float TestRow::slope() const {
  const int64_t h = row_ / problem_.shape.Tq % problem_.shape.H;
  return static_cast<float>(problem_.slopes[h]);
}

float TestRow::alibi(int64_t key) const {
  const auto j = static_cast<float>(key - begin_);
  const auto i = static_cast<float>(diagonal_ - begin_);
  const float m = slope();
  if (shifted()) return flush(m * j);
  if (kernel_.alibi != TestAlibi::kDifference) {
    return flush(-(m * std::fabs(i - j)));
  }
  const float difference = flush(flush(m * j) - flush(m * i));
  return j <= i ? difference : -difference;
}

// Bias and ALiBi of one key, in natural units.
float TestRow::offset(int64_t j) const {
  float sum = 0;
  if (problem_.bias != nullptr) {
    sum = flush(static_cast<float>(problem_.bias[row_ * Tk_ + keys_[j]]));
  }
  if (problem_.slopes != nullptr) sum = flush(sum + alibi(keys_[j]));
  return sum;
}

float TestRow::hyperbolic_tangent(float x) const {
  if (!kernel_.tanh_by_exp) return flush(std::tanh(x));
  return flush(1 - 2 / (std::exp(2 * x) + 1));
}

float TestRow::option_score(float raw, int64_t j) const {
  const bool base2 = exp_ == TestExp::kFolded || exp_ == TestExp::kPrescaled;
  const bool prescaled = exp_ == TestExp::kPrescaled;
  const bool folded = exp_ == TestExp::kFolded;
  const float cap = static_cast<float>(problem_.softcap);
  const float unit_cap = base2 ? flush(cap * kTestLog2E) : cap;
  const bool added = problem_.bias != nullptr || problem_.slopes != nullptr;
  const float natural = added ? offset(j) : 0;
  const float b = base2 ? flush(natural * kTestLog2E) : natural;
  if (cap_first_) {
    float x = raw;
    if (folded) x = flush(raw * (scale_ / cap));
    if (!base2) x = flush(flush(raw * scale_) / cap);
    return flush(flush(unit_cap * hyperbolic_tangent(x)) + b);
  }
  // b / scale must stay finite.
  constexpr float kLeastScale = 0x1p-20f;
  float s = 0;
  if (prescaled) {
    s = flush(raw + b);
  } else if (folded) {
    s = flush(std::fma(raw, scale_log2_, b));
  } else if (kernel_.bias_first && added && scale_ > kLeastScale) {
    s = flush(flush(raw + flush(b / scale_)) * scale_);
  } else {
    s = flush(flush(raw * scale_) + b);
  }
  if (!(cap > 0)) return s;
  return flush(unit_cap * hyperbolic_tangent(flush(s / unit_cap)));
}

}  // namespace qkvet

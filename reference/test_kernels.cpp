// SPDX-License-Identifier: Apache-2.0
// Contraction is off in the whole project, so that `a * b + c` rounds twice
// here; std::fma rounds once.
#include "reference/test_kernels.h"

namespace qkvet {
namespace {

constexpr float kLog2E = 0x1.715476p0f;
constexpr float kLn2 = 0x1.62e43p-1f;

std::vector<float> to_f32(const double* x, int64_t count) {
  std::vector<float> out(count);
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(x[i]);
  return out;
}

}  // namespace

TestRow::TestRow(const TestKernel& kernel, const Problem& problem, int64_t row,
                 int64_t kv, int64_t n)
    : kernel_(kernel),
      row_(row),
      n_(n),
      Tk_(problem.shape.Tk),
      d_(problem.shape.d),
      dv_(problem.shape.dv),
      scale_(static_cast<float>(problem.scale)) {
  if (!problem.scale_given) scale_ = 1 / std::sqrt(static_cast<float>(d_));
  if (kernel.fault == TestFault::kScale) scale_ *= 1 + 0x1p-10f;
  if (kernel.fault == TestFault::kLostKey && n > 1) --n_;
  scale_log2_ = scale_ * kLog2E;
  q_ = to_f32(problem.q + row * d_, d_);
  k_ = to_f32(problem.k + kv * Tk_ * d_, Tk_ * d_);
  v_ = to_f32(problem.v + kv * Tk_ * dv_, Tk_ * dv_);
  for (auto* x : {&q_, &k_, &v_}) {
    for (float& value : *x) value = flush(value);
  }
  if (kernel.exp == TestExp::kPrescaled) {
    for (float& x : q_) x = flush(x * scale_log2_);
  }
  score();
}

float TestRow::pairwise_dot(const float* a, const float* b, int64_t n) const {
  if (n == 1) return flush(a[0] * b[0]);
  const int64_t half = n / 2;
  return flush(pairwise_dot(a, b, half) +
               pairwise_dot(a + half, b + half, n - half));
}

float TestRow::dot(const float* a, const float* b) const {
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
  s_.resize(n_);
  const bool scaled =
      kernel_.exp == TestExp::kExp || kernel_.exp == TestExp::kExp2;
  for (int64_t j = 0; j < n_; ++j) {
    s_[j] = dot(q_.data(), k_.data() + j * d_);
    if (scaled) s_[j] = flush(s_[j] * scale_);
  }
}

float TestRow::weight(float s, float m) const {
  switch (kernel_.exp) {
    case TestExp::kExp:
      return flush(std::exp(s - m));
    case TestExp::kExp2:
      return flush(std::exp2((s - m) * kLog2E));
    case TestExp::kFolded:
      return flush(std::exp2(std::fma(s, scale_log2_, -(m * scale_log2_))));
    case TestExp::kPrescaled:
      return flush(std::exp2(s - m));
  }
  return 0;
}

float TestRow::factor(float from, float to) const {
  if (from == to) return 1;
  if (kernel_.exp != TestExp::kFolded) return weight(from, to);
  return flush(std::exp2((from - to) * scale_log2_));
}

float TestRow::natural(float x) const {
  if (kernel_.exp == TestExp::kFolded) return x * scale_;
  return kernel_.exp == TestExp::kPrescaled ? x * kLn2 : x;
}

float TestRow::pairwise_sum(const float* x, int64_t stride, int64_t n) const {
  if (n == 1) return x[0];
  const int64_t half = n / 2;
  return flush(pairwise_sum(x, stride, half) +
               pairwise_sum(x + half * stride, stride, n - half));
}

float TestRow::rounded_p(float p) const {
  const double nearest = round_to(kernel_.p_type, p);
  if (kernel_.fault != TestFault::kTruncatedP || nearest <= p) {
    return static_cast<float>(nearest);
  }
  // One unit in the last place lower, whatever the binade.
  const double unit = 2 * unit_roundoff(kernel_.p_type);
  return static_cast<float>(
      round_to(kernel_.p_type, nearest * (1 - 0.6 * unit)));
}

std::vector<float> TestRow::rounded_p(const std::vector<float>& p) const {
  std::vector<float> rounded = p;
  for (float& x : rounded) x = rounded_p(x);
  return rounded;
}

void TestRow::add_values(TestPart& part, const float* summed, const float* w,
                         int64_t first, int64_t last) const {
  const int64_t count = last - first;
  if (kernel_.value == SumOrder::kPairwise) {
    std::vector<float> products(count * dv_);
    for (int64_t a = 0; a < count * dv_; ++a) {
      products[a] = flush(w[a / dv_] * v_[first * dv_ + a]);
    }
    part.sum = flush(part.sum + pairwise_sum(summed, 1, count));
    for (int64_t t = 0; t < dv_; ++t) {
      part.o[t] = flush(part.o[t] + pairwise_sum(&products[t], dv_, count));
    }
    return;
  }
  // The normaliser of a tile is summed on its own, as vector kernels do.
  float tile_sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t a = kernel_.value == SumOrder::kAny ? count - 1 - i : i;
    tile_sum = flush(tile_sum + summed[a]);
    for (int64_t t = 0; t < dv_; ++t) {
      const float x = v_[(first + a) * dv_ + t];
      part.o[t] = flush(kernel_.fma ? std::fma(w[a], x, part.o[t])
                                    : part.o[t] + flush(w[a] * x));
    }
  }
  part.sum = flush(part.sum + tile_sum);
}

void TestRow::absorb_tile(TestPart& part, int64_t first, int64_t last) const {
  float m = part.m;
  for (int64_t j = first; j < last; ++j) m = std::max(m, s_[j]);
  if (std::isfinite(part.m)) {
    const float gap = natural(m) - natural(part.m);
    if (gap <= static_cast<float>(kernel_.lazy)) m = part.m;
    const float rescale = factor(part.m, m);
    part.sum = flush(part.sum * rescale);
    for (float& x : part.o) x = flush(x * rescale);
  }
  part.m = m;
  std::vector<float> w(last - first);
  for (int64_t j = first; j < last; ++j) w[j - first] = weight(s_[j], m);
  if (kernel_.stage == TestStage::kSummed) w = rounded_p(w);
  const std::vector<float> p =
      kernel_.stage == TestStage::kUnnormalised ? rounded_p(w) : w;
  add_values(part, w.data(), p.data(), first, last);
  spoil_tile(part);
}

void TestRow::spoil_tile(TestPart& part) const {
  if (kernel_.fault == TestFault::kRoundedTile) {
    for (float& x : part.o) x = stored(x);
  }
  if (kernel_.fault == TestFault::kRoundedTotal) part.sum = stored(part.sum);
}

TestPart TestRow::part(int64_t first, int64_t last) const {
  TestPart part;
  part.o.assign(dv_, 0.0f);
  const int64_t tile = kernel_.tile > 0 ? kernel_.tile : last - first;
  for (int64_t j = first; j < last; j += tile) {
    absorb_tile(part, j, std::min(j + tile, last));
  }
  return part;
}

TestPart TestRow::merged(const std::vector<TestPart>& parts) const {
  TestPart all = parts[0];
  if (kernel_.merge == Merge::kMlo) {
    for (size_t i = 1; i < parts.size(); ++i) {
      const float m = std::max(all.m, parts[i].m);
      const float a = factor(all.m, m);
      const float b = factor(parts[i].m, m);
      all.m = m;
      all.sum = flush(flush(all.sum * a) + flush(parts[i].sum * b));
      for (int64_t t = 0; t < dv_; ++t) {
        all.o[t] = flush(flush(all.o[t] * a) + flush(parts[i].o[t] * b));
      }
    }
  }
  if (kernel_.merge == Merge::kLse) {
    std::vector<float> lse;
    lse.reserve(parts.size());
    for (const TestPart& p : parts) {
      lse.push_back(natural(p.m) + std::log(p.sum));
    }
    const float top = *std::max_element(lse.begin(), lse.end());
    float sum = 0;
    for (float x : lse) sum += std::exp(x - top);
    const float total = top + std::log(sum);
    std::fill(all.o.begin(), all.o.end(), 0.0f);
    for (size_t i = 0; i < parts.size(); ++i) {
      const float w = flush(std::exp(lse[i] - total));
      for (int64_t t = 0; t < dv_; ++t) {
        const float o = divided(parts[i].o[t], parts[i].sum);
        all.o[t] = flush(all.o[t] + flush(w * o));
      }
    }
    all.m = total;
    all.sum = 1;
  }
  return all;
}

void TestRow::run_normalised_first(TestOutput& out) {
  float m = s_[0];
  for (float s : s_) m = std::max(m, s);
  std::vector<float> w(n_);
  for (int64_t j = 0; j < n_; ++j) w[j] = weight(s_[j], m);
  TestPart sums;
  sums.o.assign(dv_, 0.0f);
  add_values(sums, w.data(), w.data(), 0, n_);
  for (float& x : w) x = divided(x, sums.sum);
  if (kernel_.stage == TestStage::kNormalised) w = rounded_p(w);
  TestPart result;
  result.o.assign(dv_, 0.0f);
  add_values(result, w.data(), w.data(), 0, n_);
  for (int64_t t = 0; t < dv_; ++t) out.o[row_ * dv_ + t] = result.o[t];
  for (int64_t j = 0; j < n_; ++j) out.weights[row_ * Tk_ + j] = stored(w[j]);
  out.lse[row_] = natural(m) + std::log(sums.sum);
}

void TestRow::run(TestOutput& out) {
  if (kernel_.norm_first) {
    run_normalised_first(out);
    return;
  }
  std::vector<TestPart> parts;
  const int64_t size = (n_ + kernel_.splits - 1) / kernel_.splits;
  for (int64_t j = 0; j < n_; j += size) {
    parts.push_back(part(j, std::min(j + size, n_)));
  }
  const TestPart all = merged(parts);
  const bool by_lse = kernel_.merge == Merge::kLse;
  for (int64_t t = 0; t < dv_; ++t) {
    out.o[row_ * dv_ + t] = by_lse ? all.o[t] : divided(all.o[t], all.sum);
  }
  out.lse[row_] = by_lse ? all.m : natural(all.m) + std::log(all.sum);
  for (int64_t j = 0; j < n_; ++j) {
    const float w = by_lse ? std::exp(natural(s_[j]) - all.m)
                           : divided(rounded_p(weight(s_[j], all.m)), all.sum);
    out.weights[row_ * Tk_ + j] = stored(flush(w));
  }
}

TestOutput run_test_kernel(const TestKernel& kernel, const Problem& problem) {
  const Shape& s = problem.shape;
  TestOutput out;
  out.o.assign(s.o_elements(), std::nan(""));
  out.lse.assign(s.lse_elements(), -HUGE_VAL);
  out.weights.assign(s.weights_elements(), 0.0);
  for (int64_t row = 0; row < s.lse_elements(); ++row) {
    const int64_t i = row % s.Tq;
    int64_t n = s.Tk;
    if (problem.causal == Causal::kTopLeft) n = std::min(s.Tk, i + 1);
    if (problem.causal == Causal::kBottomRight) n = i + 1 + s.Tk - s.Tq;
    if (n <= 0) continue;
    TestRow(kernel, problem, row, row / (s.group() * s.Tq), n).run(out);
  }
  return out;
}

PrecisionModel declared_precision(const TestKernel& kernel) {
  PrecisionModel model;
  qkvet_precision declared{};
  declared.struct_size = sizeof declared;
  declared.preset = QKVET_PRECISION_CPU_F32;
  if (kernel.p_type != Dtype::kF32) {
    declared.declared = QKVET_KNOB_P_DTYPE;
    declared.p_dtype = dtype_to_abi(kernel.p_type);
    declared.p_normalised = kernel.stage == TestStage::kNormalised;
    declared.sum_of_rounded_p = kernel.stage == TestStage::kSummed;
  }
  model = for_storage(resolve_precision(declared).model, kernel.storage,
                      kernel.storage);
  model.dot_sum = kernel.dot;
  model.dot_lanes = kernel.lanes;
  model.value_sum = kernel.value;
  model.fma = kernel.fma;
  model.tile = kernel.tile;
  model.lazy = kernel.lazy;
  model.splits = kernel.splits;
  model.merge = kernel.merge;
  model.norm_first = kernel.norm_first;
  model.norm_roundings = kernel.reciprocal ? 2 : 1;
  model.ftz = kernel.ftz;
  const bool several = kernel.tile > 0 || kernel.splits > 1;
  switch (kernel.exp) {
    case TestExp::kExp:
      break;
    case TestExp::kExp2:
      model.arg_roundings = 2.3;
      break;
    case TestExp::kFolded:
      model.arg_roundings = 3.3;
      model.ref_roundings = several ? 1 : 0;
      model.scale_stage = ScaleStage::kFolded;
      break;
    case TestExp::kPrescaled:
      model.arg_roundings = 2.3;
      model.scale_stage = ScaleStage::kOnQ;
      break;
  }
  return model;
}

}  // namespace qkvet

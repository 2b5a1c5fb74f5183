// SPDX-License-Identifier: Apache-2.0
// Every rule is reimplemented from its suite's behaviour (the snapshots are
// named with it). Comparisons are written so that NaN is accepted only where
// the suite accepts it.
#include "studies/acceptance/rules.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/half.h"
#include "properties/judging/compare.h"

namespace qkvet::studies {
namespace {

using Numbers = std::vector<double>;

// |o - expected| <= atol + rtol |expected| everywhere.
bool all_close(const Numbers& o, const Numbers& expected, double atol,
               double rtol) {
  for (size_t n = 0; n < o.size(); ++n)
    if (!(std::fabs(o[n] - expected[n]) <=
          atol + rtol * std::fabs(expected[n])))
      return false;
  return true;
}

// The largest difference; NaN if there is one.
double largest_difference(const Numbers& a, const Numbers& b) {
  double largest = 0;
  for (size_t n = 0; n < a.size(); ++n) {
    const double difference = std::fabs(a[n] - b[n]);
    if (!(difference <= largest)) largest = difference;
    if (std::isnan(largest)) return largest;
  }
  return largest;
}

// The error of the reference after 0.3 is added and subtracted in bf16: one
// number for the whole tensor, set by its largest elements.
bool flash_attention_3(const Evidence& evidence, const Numbers& o) {
  const auto bf16 = [](double x) { return round_to(Dtype::kBf16, x); };
  double slack = 0;
  for (const double x : evidence.expected)
    slack = std::max(slack, std::fabs(bf16(bf16(x + 0.3) - 0.3) - x));
  return largest_difference(o, evidence.expected) <=
         2 * largest_difference(evidence.framework(), evidence.expected) +
             2 * slack;
}

bool flash_attention_2_cache(const Evidence& evidence, const Numbers& o) {
  return largest_difference(o, evidence.expected) <=
         3 * largest_difference(evidence.framework(), evidence.expected) + 1e-5;
}

// The divisor is the square of the output on trial.
bool ggml(const Evidence& evidence, const Numbers& o) {
  double difference = 0, size = 0;
  for (size_t n = 0; n < o.size(); ++n) {
    if (std::isnan(o[n])) return false;
    difference += (o[n] - evidence.expected[n]) * (o[n] - evidence.expected[n]);
    size += o[n] * o[n];
  }
  return !(difference / size > 5e-4);
}

// A point passes if any of the conditions holds. `epsilon`: the distance from
// 1 to the next number of the type.
bool benchdnn(const Evidence& evidence, const Numbers& o, double epsilon) {
  constexpr double kSmall = 1e-5;
  constexpr double kSmallDifference = 0x1p-23;
  const double relative =
      8 * (1 + static_cast<double>(evidence.call.shape().Tk)) * epsilon;
  for (size_t n = 0; n < o.size(); ++n) {
    const double expected = std::fabs(evidence.expected[n]);
    const double difference = std::fabs(o[n] - evidence.expected[n]);
    const bool small = expected <= kSmall;
    const bool close = difference == 0 ||
                       (small && difference < kSmallDifference) ||
                       (small ? difference : difference / expected) <= relative;
    if (!close && !(difference <= epsilon * evidence.magnitude()[n]))
      return false;
  }
  return true;
}
bool benchdnn_f16(const Evidence& evidence, const Numbers& o) {
  return benchdnn(evidence, o, 0x1p-10);
}
bool benchdnn_bf16(const Evidence& evidence, const Numbers& o) {
  return benchdnn(evidence, o, 0x1p-7);
}

bool cutlass(const Evidence& evidence, const Numbers& o) {
  double sum = 0;
  for (size_t n = 0; n < o.size(); ++n)
    sum += std::fabs(o[n] - evidence.expected[n]);
  return largest_difference(o, evidence.expected) < 1e-2 &&
         sum / static_cast<double>(o.size()) < 1e-3;
}

bool within_2e_2(const Evidence& evidence, const Numbers& o) {
  return all_close(o, evidence.expected, 2e-2, 2e-2);
}
bool within_1e_3(const Evidence& evidence, const Numbers& o) {
  return all_close(o, evidence.expected, 1e-3, 1e-3);
}
bool within_1e_2(const Evidence& evidence, const Numbers& o) {
  return all_close(o, evidence.expected, 1e-2, 1e-2);
}
bool within_1_5e_2(const Evidence& evidence, const Numbers& o) {
  return all_close(o, evidence.expected, 1.5e-2, 1.5e-2);
}
bool within_1e_4(const Evidence& evidence, const Numbers& o) {
  return all_close(o, evidence.expected, 1e-4, 1e-4);
}
bool onnx(const Evidence& evidence, const Numbers& o) {
  return all_close(o, evidence.expected, 1e-7, 1e-3);
}
bool tritonbench(const Evidence& evidence, const Numbers& o) {
  return all_close(o, evidence.expected, 1e-3, 0.5);
}

constexpr Setting kF16Normal = {Dtype::kF16, 128, 64, InputLaw::kNormal};

constexpr Rule kRules[] = {
    {"FA3 and FA4, bf16",
     "Dao-AILab/flash-attention 0251105a, hopper/test_flash_attn.py, "
     "tests/cute",
     "max abs(o - ref) <= 2 max abs(pt - ref) + 2 max abs(ref + 0.3 - 0.3 - "
     "ref), pt a bf16 run of PyTorch",
     {Dtype::kBf16, 128, 54, InputLaw::kNormal},
     flash_attention_3},
    {"FA2 kvcache, bf16",
     "Dao-AILab/flash-attention 0251105a, tests/test_flash_attn.py",
     "max abs(o - ref) <= 3 max abs(pt - ref) + 1e-5",
     {Dtype::kBf16, 128, 12, InputLaw::kNormal},
     flash_attention_2_cache},
    {"ggml, f16",
     "ggml-org/ggml d99724f2, tests/test-backend-ops.cpp",
     "sum (o - ref)^2 <= 5e-4 sum o^2",
     {Dtype::kF16, 128, 64, InputLaw::kUniform},
     ggml},
    {"benchdnn --sdpa, f16",
     "uxlfoundation/oneDNN 3f27bec2, tests/benchdnn/sdpa/sdpa.cpp",
     "abs(o - ref) <= 8 (1 + n) 2^-10 abs(ref), or <= 2^-10 sum p abs(v)",
     {Dtype::kF16, 64, 64, InputLaw::kIntegers},
     benchdnn_f16},
    {"benchdnn --sdpa, bf16",
     "uxlfoundation/oneDNN 3f27bec2, tests/benchdnn/sdpa/sdpa.cpp",
     "abs(o - ref) <= 8 (1 + n) 2^-7 abs(ref), or <= 2^-7 sum p abs(v)",
     {Dtype::kBf16, 64, 64, InputLaw::kIntegers},
     benchdnn_bf16},
    {"cudnn-frontend, bf16",
     "NVIDIA/cudnn-frontend 3929da2, test_mhas_v2.py",
     "abs(o - ref) <= 2e-2 + 2e-2 abs(ref)",
     {Dtype::kBf16, 128, 64, InputLaw::kSparseIntegers},
     within_2e_2},
    {"FlashInfer 1e-3, f16",
     "flashinfer-ai/flashinfer fb28d724, "
     "tests/attention",
     "abs(o - ref) <= 1e-3 + 1e-3 abs(ref)", kF16Normal, within_1e_3},
    {"FlashInfer 1e-2, f16",
     "flashinfer-ai/flashinfer fb28d724, "
     "tests/attention",
     "abs(o - ref) <= 1e-2 + 1e-2 abs(ref)", kF16Normal, within_1e_2},
    {"TransformerEngine, bf16",
     "NVIDIA/TransformerEngine d0067d0d, test_attention.py",
     "abs(o - ref) <= 1.5e-2 + 1.5e-2 abs(ref)",
     {Dtype::kBf16, 64, 64, InputLaw::kNormal},
     within_1_5e_2},
    {"CUTLASS 77, f16", "NVIDIA/cutlass 7107b055, examples/77_blackwell_fmha",
     "max abs(o - ref) < 1e-2 and mean abs(o - ref) < 1e-3", kF16Normal,
     cutlass},
    {"ONNX, f32",
     "onnx/onnx f7546912, onnx/backend/test/case/node (at most 18 keys there)",
     "abs(o - ref) <= 1e-7 + 1e-3 abs(ref)",
     {Dtype::kF32, 8, 24, InputLaw::kPositive},
     onnx},
    {"KernelBench, f16",
     "ScalingIntelligence/KernelBench 423217d, level 1, problem 97",
     "abs(o - ref) <= 1e-2 + 1e-2 abs(ref)",
     {Dtype::kF16, 128, 64, InputLaw::kPositive},
     within_1e_2},
    {"KernelBench, f32",
     "ScalingIntelligence/KernelBench 423217d, level 1, problem 97",
     "abs(o - ref) <= 1e-4 + 1e-4 abs(ref)",
     {Dtype::kF32, 128, 64, InputLaw::kPositive},
     within_1e_4},
    {"TritonBench decode, f16",
     "meta-pytorch/tritonbench 23e4be63, "
     "tritonbench/operators/decoding_attention/operator.py",
     "abs(o - ref) <= 1e-3 + 0.5 abs(ref)", kF16Normal, tritonbench}};

bool inside(const std::vector<double>& actual, const std::vector<double>& truth,
            const std::vector<double>& bound, Dtype dtype) {
  Judgement judgement;
  for (size_t n = 0; n < actual.size(); ++n)
    if (compare_with_bound({actual[n], truth[n], bound[n], 0, dtype},
                           judgement))
      return false;
  return true;
}

}  // namespace

std::span<const Rule> rules() { return kRules; }

const Rule& rule_named(const char* name) {
  return *std::find_if(
      std::begin(kRules), std::end(kRules),
      [&](const Rule& rule) { return std::strcmp(rule.name, name) == 0; });
}

Evidence::Evidence(const CallData& data, const OracleOutput& oracle)
    : call(data), oracle_(oracle) {
  for (const double x : oracle.o) expected.push_back(round_to(call.dtype(), x));
}

const std::vector<double>& Evidence::framework() const {
  if (framework_.empty()) framework_ = framework_run(call);
  return framework_;
}

const std::vector<double>& Evidence::magnitude() const {
  if (!magnitude_.empty()) return magnitude_;
  const Shape& s = call.shape();
  const auto width = static_cast<size_t>(s.dv);
  magnitude_.assign(oracle_.o.size(), 0);
  for (int64_t row = 0; row < s.B * s.Tq; ++row) {
    double* out = magnitude_.data() + static_cast<size_t>(row) * width;
    for (int64_t j = 0; j < s.Tk; ++j) {
      const double p = oracle_.weights[static_cast<size_t>(row * s.Tk + j)];
      const float* v =
          call.v().data() + static_cast<size_t>(row / s.Tq * s.Tk + j) * width;
      for (size_t t = 0; t < width; ++t)
        out[t] += p * static_cast<double>(std::fabs(v[t]));
    }
  }
  return magnitude_;
}

PrecisionModel declared_model(Dtype dtype) {
  qkvet_precision declared{};
  declared.struct_size = sizeof declared;
  declared.preset = dtype == Dtype::kF32 ? QKVET_PRECISION_CPU_F32
                                         : QKVET_PRECISION_FLASH_HALF;
  return resolve_precision(declared).model;
}

Truth::Truth(const CallData& call, const PrecisionModel& model)
    : dtype_(call.dtype()), oracle_(plain_forward(call.problem())) {
  const BoundFacts facts(call.problem(), oracle_);
  bound_ = compute_bound(facts, for_storage(model, dtype_, dtype_),
                         /*want_weights=*/false);
}

bool Truth::accepts(const Output& output, bool with_lse) const {
  return inside(output.o, oracle_.o, bound_.o, dtype_) &&
         (!with_lse ||
          inside(output.lse, oracle_.lse, bound_.lse, lse_dtype(dtype_)));
}

}  // namespace qkvet::studies

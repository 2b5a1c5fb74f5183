// SPDX-License-Identifier: Apache-2.0
// Correct kernels of many arithmetics, as controls of the bound: they share
// nothing with the references and nothing with the kernels of impl/. Each
// configuration says which PrecisionModel a careful author would declare for
// it. They compute in f32; half kernels store in a half format, and may round
// P.
#ifndef QKVET_REFERENCE_TEST_KERNELS_H_
#define QKVET_REFERENCE_TEST_KERNELS_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/half.h"
#include "reference/oracle.h"
#include "reference/precision.h"

namespace qkvet {

enum class TestExp : uint8_t { kExp, kExp2, kFolded, kPrescaled };
enum class TestFault : uint8_t {
  kNone,
  kScale,
  kLostKey,
  kTruncatedP,    // P is cut off instead of rounded
  kRoundedTile,   // the accumulator of o is rounded to the storage per tile
  kRoundedTotal,  // so is the denominator
};
// Where P is rounded to `p_type`.
enum class TestStage : uint8_t {
  kUnnormalised,
  kNormalised,
  kSummed  // before the denominator adds it
};

enum class TestSink : uint8_t {
  kFirst,  // the state starts with it
  kLast,   // it may raise the maximum at the end
  kAdded   // its weight is added at the end, against the maximum of the keys
};
enum class TestAlibi : uint8_t {
  kDistance,
  kDifference,  // slope * j - slope * diagonal
  kShift        // slope * j, if no key lies beyond the diagonal
};

struct TestKernel {
  std::string name = "unnamed";
  SumOrder dot = SumOrder::kLanes;
  int lanes = 1;
  bool fma = false;
  TestExp exp = TestExp::kExp;
  SumOrder value = SumOrder::kLanes;  // kAny: descending keys
  int tile = 0;
  double lazy = 0;
  int splits = 1;
  Merge merge = Merge::kNone;
  bool norm_first = false;
  bool reciprocal = false;
  bool ftz = false;
  TestFault fault = TestFault::kNone;
  Dtype storage = Dtype::kF32;  // of inputs and outputs
  Dtype p_type = Dtype::kF32;
  TestStage stage = TestStage::kUnnormalised;
  // A tensor core: products in blocks of so many, on a grid of so many bits
  // more than f32 has.
  int block = 0;
  int extra_bits = 0;
  bool fast = false;  // exp2, quotients and logarithms as a device has them
  bool skip = false;  // hidden keys are left out; else they score -infinity
  bool bias_first = false;   // (q k + b / scale) * scale
  bool tanh_by_exp = false;  // 1 - 2 / (exp(2x) + 1)
  TestSink sink = TestSink::kFirst;
  TestAlibi alibi = TestAlibi::kDistance;
};

struct TestOutput {
  std::vector<double> o, lse, weights;
};

// The unnormalised result of some keys of one row.
struct TestPart {
  float m = -std::numeric_limits<float>::infinity();
  float sum = 0;
  float keys = 0;        // the sum without the sink
  float lse = 0;         // of a merge by lse
  std::vector<float> o;  // [dv]
};

// The keys that a row sees, by a predicate of its own.
struct TestSeen {
  bool counted = true;
  int64_t begin = 0;  // of the member
  int64_t diagonal = 0;
  std::vector<int64_t> keys;
};

TestSeen test_seen(const Problem& problem, int64_t row);

inline constexpr float kTestLog2E = 0x1.715476p0f;
inline constexpr float kTestLn2 = 0x1.62e43p-1f;

// One row of one head, in f32.
class TestRow {
 public:
  TestRow(const TestKernel& kernel, const Problem& problem, int64_t row,
          int64_t kv, const TestSeen& seen);
  void run(TestOutput& out);

 private:
  float flush(float x) const {
    const bool small = std::fabs(x) < std::numeric_limits<float>::min();
    return kernel_.ftz && small ? 0.0f : x;
  }
  float exponential(float x) const;
  float exponential2(float x) const;
  float inverse(float x) const;
  float logarithm(float x) const;
  float dot(const float* a, const float* b) const;
  float pairwise_dot(const float* a, const float* b, int64_t n) const;
  void place_keys(const TestSeen& seen);
  void score();
  float option_score(float raw, int64_t j) const;
  float offset(int64_t j) const;
  float alibi(int64_t key) const;
  float slope() const;
  bool shifted() const;
  float hyperbolic_tangent(float x) const;
  float weight(float s, float m) const;
  float factor(float from, float to) const;
  float natural(float x) const;
  TestPart part(int64_t first, int64_t last) const;
  void absorb_tile(TestPart& part, int64_t first, int64_t last) const;
  // Adds `summed` to the denominator, `w` times v to the accumulator.
  void add_values(TestPart& part, const float* summed, const float* w,
                  int64_t first, int64_t last) const;
  float rounded_p(float p) const;
  std::vector<float> rounded_p(const std::vector<float>& p) const;
  // c + sum a_i b_i, b_i `stride` apart, in blocks.
  float in_blocks(float c, const float* a, const float* b, int64_t stride,
                  int64_t n) const;
  void add_blocks(TestPart& part, const float* summed, const float* w,
                  int64_t first, int64_t last) const;
  void rescale_part(TestPart& part, float by) const;
  void spoil_tile(TestPart& part) const;
  void absorb_sink(TestPart& all) const;
  float stored(float p) const {
    return static_cast<float>(round_to(kernel_.storage, p));
  }
  float pairwise_sum(const float* x, int64_t stride, int64_t n) const;
  TestPart merged(const std::vector<TestPart>& parts) const;
  void run_normalised_first(TestOutput& out);
  float divided(float x, float sum) const {
    if (!kernel_.reciprocal) return flush(x / sum);
    return flush(x * flush(inverse(sum)));
  }

  const TestKernel& kernel_;
  const Problem& problem_;
  int64_t row_, Tk_, d_, dv_;
  int64_t diagonal_, begin_;
  int64_t n_ = 0;
  float scale_, scale_log2_ = 0;
  TestExp exp_;
  bool with_sink_in_lse_;
  bool options_ = false;  // scores are more than scale * q k
  bool cap_first_ = false;
  float lse_shift_ = 0;
  std::optional<float> sink_;    // in units of the scores
  std::vector<int64_t> keys_;    // [n]
  std::vector<uint8_t> hidden_;  // [n]
  std::vector<float> q_, k_, v_, s_;
};

TestOutput run_test_kernel(const TestKernel& kernel, const Problem& problem);

// What the author of the kernel would declare.
PrecisionModel declared_precision(const TestKernel& kernel);

// Every correct configuration: of f32 storage, and of half storage.
std::vector<TestKernel> test_kernels();
std::vector<TestKernel> half_test_kernels();
// All of them, each with some way to treat options.
std::vector<TestKernel> option_test_kernels();

}  // namespace qkvet

#endif  // QKVET_REFERENCE_TEST_KERNELS_H_

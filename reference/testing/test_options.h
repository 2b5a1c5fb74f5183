// SPDX-License-Identifier: Apache-2.0
// Random problems with options, for the tests of this folder.
#ifndef QKVET_REFERENCE_TESTING_TEST_OPTIONS_H_
#define QKVET_REFERENCE_TESTING_TEST_OPTIONS_H_

#include <algorithm>
#include <bit>
#include <limits>
#include <set>
#include <vector>

#include "reference/testing/test_problems.h"

namespace qkvet::reference {

enum class TestOption : uint8_t {
  kWindow,
  kMask,
  kBias,
  kAlibi,
  kSoftcap,
  kSink,
  kLengths,
  kPacked,
  kNegativeScale,
  kTinyScale
};
inline constexpr int kTestOptionCount = 10;

inline double as_f32(double x) { return static_cast<float>(x); }

// Hidden pairs, and now and then a whole row.
inline void add_mask(TestRandom& random, TestProblem& p) {
  const Shape& s = p.problem.shape;
  p.mask.assign(s.weights_elements(), 0);
  const int64_t share = 1 + random.below(9);
  for (uint8_t& m : p.mask) {
    // Any nonzero value attends.
    m = random.below(10) < share ? static_cast<uint8_t>(1 + random.below(9))
                                 : 0;
  }
  const int64_t row = random.below(s.lse_elements());
  if (random.below(2) == 0) {
    std::fill_n(p.mask.begin() + row * s.Tk, s.Tk, uint8_t{0});
  }
}

// Biases of the size of the logits, larger, or a finite mask.
inline void add_bias(TestRandom& random, TestProblem& p) {
  p.bias.resize(p.problem.shape.weights_elements());
  constexpr double kSizes[] = {0.01, 1, 1, 30, 1000};
  const double size = kSizes[random.below(5)];
  constexpr double kMasks[] = {-1e4, -1e9,
                               double{std::numeric_limits<float>::lowest()},
                               -std::numeric_limits<double>::infinity()};
  const double hidden = kMasks[random.below(4)];
  const int64_t share = random.below(4);
  for (double& b : p.bias) {
    b = random.below(10) < share ? hidden : size * random.normal();
    if (random.below(10) == 0) b = 0;
  }
  round_to_f32(p.bias);
}

inline void add_lengths(TestRandom& random, TestProblem& p) {
  const Shape& s = p.problem.shape;
  p.q_len.resize(s.B);
  p.kv_len.resize(s.B);
  for (int64_t& n : p.q_len) n = random.below(s.Tq + 1);
  for (int64_t& n : p.kv_len) n = random.below(s.Tk + 1);
}

inline std::vector<int64_t> ascending(TestRandom& random, int64_t members,
                                      int64_t most) {
  std::vector<int64_t> ends(members + 1);
  for (int64_t& end : ends) end = random.below(most + 1);
  std::sort(ends.begin(), ends.end());
  ends[0] = 0;
  if (random.below(2) == 0) ends[members] = most;
  return ends;
}

inline void add_option(TestRandom& random, TestOption option, TestProblem& p) {
  Problem& problem = p.problem;
  const Shape& s = problem.shape;
  switch (option) {
    case TestOption::kWindow:
      problem.window = Window{random.below(s.Tk + 2) - 1,
                              random.below(std::min<int64_t>(s.Tk, 6) + 2) - 1};
      return;
    case TestOption::kMask:
      return add_mask(random, p);
    case TestOption::kBias:
      return add_bias(random, p);
    case TestOption::kAlibi:
      for (int64_t h = 0; h < s.H; ++h) {
        p.slopes.push_back(as_f32(std::exp2(-8 * random.uniform())));
      }
      return;
    case TestOption::kSoftcap:
      problem.softcap = as_f32(std::exp2(8 * random.uniform() - 2));
      return;
    case TestOption::kSink:
      for (int64_t h = 0; h < s.H; ++h) {
        const double size = random.below(4) == 0 ? 40 : 3;
        p.sink.push_back(as_f32(size * random.normal()));
      }
      return;
    case TestOption::kLengths:
      return add_lengths(random, p);
    case TestOption::kPacked:
      problem.members = 1 + random.below(4);
      p.cu_q = ascending(random, problem.members, s.Tq);
      p.cu_k = ascending(random, problem.members, s.Tk);
      return;
    case TestOption::kNegativeScale:
      problem.scale_given = true;
      problem.scale = -as_f32(problem.scale * (0.5 + random.uniform()));
      return;
    case TestOption::kTinyScale:
      problem.scale_given = true;
      problem.scale = as_f32(std::exp2(-20 - 128 * random.uniform()));
      return;
  }
}

// Half of the time each member gets slopes of its own, once it is known how
// many there are. Drawn apart, so that problems without are what they were.
inline void slope_members(TestProblem& p) {
  if (p.slopes.empty()) return;
  TestRandom random(std::bit_cast<uint64_t>(p.slopes[0]));
  if (random.below(2) == 0) return;
  Problem& problem = p.problem;
  problem.member_slopes = true;
  const int64_t members =
      problem.members > 0 ? problem.members : problem.shape.B;
  while (std::ssize(p.slopes) < members * problem.shape.H)
    p.slopes.push_back(as_f32(std::exp2(-8 * random.uniform())));
}

// Lists of keys in any order, some of them with -1 among the keys, and counts
// with other keys after them.
inline void add_key_lists(TestRandom& random, TestProblem& p) {
  const Shape& s = p.problem.shape;
  ListedKeys& listed = p.problem.listed;
  listed.entries = 1 + random.below(s.Tk + 2);
  listed.heads = random.below(2) == 0 ? 1 : s.Hkv;
  std::vector<int32_t> keys(s.Tk);
  for (int64_t j = 0; j < s.Tk; ++j) keys[j] = static_cast<int32_t>(j);
  for (int64_t row = 0; row < s.B * listed.heads * s.Tq; ++row) {
    for (int64_t n = s.Tk - 1; n > 0; --n) {
      std::swap(keys[n], keys[random.below(n + 1)]);
    }
    int64_t next = 0;
    for (int64_t n = 0; n < listed.entries; ++n) {
      const bool none = next == s.Tk || random.below(6) == 0;
      p.listed_keys.push_back(none ? -1 : keys[next++]);
    }
  }
  if (random.below(2) == 0) return;
  for (int64_t row = 0; row < s.B * s.Tq; ++row) {
    p.listed_counts.push_back(
        static_cast<int32_t>(random.below(listed.entries + 1)));
  }
}

// Points on the circle as in tables, with steps of a quarter turn and none in
// between, and numbers that are on no circle. All channels are turned, or some.
// The number of channels of `p` must be even.
inline void add_rotation(TestRandom& random, TestProblem& p) {
  const Shape& s = p.problem.shape;
  const int64_t positions = 1 + random.below(2 * s.Tk + 2);
  int64_t channels = s.d;
  if (s.d > 2 && random.below(3) == 0)
    channels = 2 + 2 * random.below(s.d / 2 - 1);
  p.problem.rotation.channels = channels;
  for (int64_t n = 0; n < positions * channels / 2; ++n) {
    double cos = 1 - 2 * random.uniform();
    double sin = (random.below(2) == 0 ? 1 : -1) * std::sqrt(1 - cos * cos);
    const int64_t kind = random.below(8);
    if (kind == 0) cos = 1, sin = 0;
    if (kind == 1) cos = 0, sin = -1;
    if (kind == 2) sin = 3 * random.normal();
    p.rope_cos.push_back(cos);
    p.rope_sin.push_back(sin);
  }
  round_to_f32(p.rope_cos);
  round_to_f32(p.rope_sin);
  for (int64_t i = 0; i < s.B * s.Tq; ++i)
    p.q_positions.push_back(random.below(positions));
  for (int64_t j = 0; j < s.B * s.Tk; ++j)
    p.k_positions.push_back(random.below(positions));
  p.problem.rotation.style =
      random.below(2) == 0 ? RopeStyle::kHalf : RopeStyle::kInterleaved;
}

inline Shape with_even_width(Shape shape) {
  shape.d += shape.d % 2;
  return shape;
}

// Rows of [B,heads,rows,d] turned in f32, over the flat array, by another walk
// than those of the references: two products and a sum, of which one is fused
// if asked for. Against the sense of the tables if `sign` is -1, or times any
// other factor of the sines.
struct TestTurn {
  int64_t heads = 0;
  int64_t rows = 0;
  int64_t d = 0;
  double sign = 1;
  bool fused = false;
};
inline std::vector<double> turned_in_f32(const Rotation& rotation,
                                         const int64_t* positions,
                                         const TestTurn& how,
                                         const std::vector<double>& from) {
  const bool half = rotation.style == RopeStyle::kHalf;
  const int64_t pairs = rotation.channels / 2;
  std::vector<double> out = from;
  for (int64_t e = 0; e < std::ssize(from); ++e) {
    const int64_t c = e % how.d, row = e / how.d;
    if (c >= rotation.channels) continue;
    const int64_t token =
        row / how.rows / how.heads * how.rows + row % how.rows;
    const bool second = half ? c >= pairs : c % 2 == 1;
    const int64_t to_partner = (half ? pairs : 1) * (second ? -1 : 1);
    const int64_t at = positions[token] * pairs + (half ? c % pairs : c / 2);
    const auto cos = static_cast<float>(rotation.cos[at]);
    const auto sin =
        static_cast<float>((second ? how.sign : -how.sign) * rotation.sin[at]);
    const auto own = static_cast<float>(from[e]);
    const float other = static_cast<float>(from[e + to_partner]) * sin;
    out[e] = how.fused ? std::fma(own, cos, other) : own * cos + other;
  }
  return out;
}

// One of the masks in a few numbers. Ranges do not overlap; what a range does
// beside a chunk is not specified.
inline void add_fields(TestRandom& random, TestProblem& p) {
  const Shape& s = p.problem.shape;
  FieldMasks& fields = p.problem.fields;
  const int64_t kind = random.below(4);
  if (kind == 0) fields.chunk = 1 + random.below(s.Tk);
  if (kind == 1) {
    for (int64_t i = 0; i < s.B * s.Tq; ++i)
      p.segments_q.push_back(random.below(4) - 1);
    for (int64_t j = 0; j < s.B * s.Tk; ++j)
      p.segments_k.push_back(random.below(4) - 1);
  }
  if (kind == 2) {
    fields.ranges = 1 + random.below(3);
    fields.in_window = random.below(2) != 0;
    for (int64_t b = 0; b < s.B; ++b) {
      std::vector<int64_t> ends(2 * fields.ranges);
      for (int64_t& end : ends) end = random.below(s.Tk + 3) - 1;
      std::sort(ends.begin(), ends.end());
      p.full_ranges.insert(p.full_ranges.end(), ends.begin(), ends.end());
    }
  }
  if (kind == 3) {
    for (int64_t i = 0; i < s.B * s.Tq * s.Tq; ++i)
      p.tree.push_back(static_cast<uint8_t>(3 * random.below(2)));
  }
}

// Elements beyond the lengths are unused.
inline void poison_rest(TestProblem& p) {
  const Shape& s = p.problem.shape;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto poison = [nan](std::vector<double>& x, int64_t T, int64_t width,
                            int64_t member, int64_t heads, int64_t first,
                            int64_t end) {
    for (int64_t r = member * heads * T; r < (member + 1) * heads * T; ++r) {
      if (r % T >= first && r % T < end) continue;
      std::fill_n(x.begin() + r * width, width, nan);
    }
  };
  for (int64_t b = 0; b < s.B; ++b) {
    const bool packed = !p.cu_q.empty();
    if (!packed && p.q_len.empty()) return;
    const int64_t q_first = packed ? p.cu_q.front() : 0;
    const int64_t q_end = packed ? p.cu_q.back() : p.q_len[b];
    const int64_t k_first = packed ? p.cu_k.front() : 0;
    const int64_t k_end = packed ? p.cu_k.back() : p.kv_len[b];
    poison(p.q, s.Tq, s.d, b, s.H, q_first, q_end);
    poison(p.k, s.Tk, s.d, b, s.Hkv, k_first, k_end);
    poison(p.v, s.Tk, s.dv, b, s.Hkv, k_first, k_end);
  }
}

// `shape` but for B, which a packed batch needs to be 1.
inline TestProblem option_problem(TestRandom& random, Regime regime,
                                  Shape shape,
                                  const std::set<TestOption>& options) {
  const bool packed = options.contains(TestOption::kPacked);
  if (packed) shape.B = 1;
  TestProblem p = random_problem(random, regime, shape);
  p.problem.softcap_after_bias = random.below(2) != 0;
  p.problem.sink_in_lse = random.below(2) != 0;
  for (const TestOption option : options) {
    // A packed batch has no other lengths.
    if (packed && option == TestOption::kLengths) continue;
    add_option(random, option, p);
  }
  slope_members(p);
  poison_rest(p);
  return p;
}

// Lists, and up to two of the options beside them.
inline TestProblem random_list_problem(TestRandom& random, Regime regime,
                                       const Shape& shape) {
  constexpr TestOption kBeside[] = {TestOption::kWindow, TestOption::kMask,
                                    TestOption::kSink,   TestOption::kLengths,
                                    TestOption::kAlibi,  TestOption::kPacked};
  std::set<TestOption> options;
  for (int i = 0; i < 2; ++i) {
    options.insert(kBeside[random.below(std::size(kBeside))]);
  }
  TestProblem p = option_problem(random, regime, shape, options);
  add_key_lists(random, p);
  return p;
}

// Up to three options; most pairs of them meet within a few hundred problems.
inline TestProblem random_option_problem(TestRandom& random, Regime regime,
                                         const Shape& shape) {
  std::set<TestOption> options;
  for (int i = 0; i < 3; ++i) {
    options.insert(static_cast<TestOption>(random.below(kTestOptionCount)));
  }
  return option_problem(random, regime, shape, options);
}

// Everything that a call may have, in turn: options in three of four, rotations
// in every second one if the width is even, and lists or fields in every
// fourth.
inline TestProblem problem_of_all(TestRandom& random, int i) {
  const auto regime = static_cast<Regime>(i % kRegimeCount);
  const Shape shape = random_shape(random, 10);
  TestProblem p = i % 4 == 0 ? random_problem(random, regime, shape)
                             : random_option_problem(random, regime, shape);
  if (i % 4 == 1) add_key_lists(random, p);
  if (i % 4 == 2) add_fields(random, p);
  if (shape.d % 2 == 0 && i % 8 < 4) add_rotation(random, p);
  return p;
}

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_TESTING_TEST_OPTIONS_H_

// SPDX-License-Identifier: Apache-2.0
// Each seeded fault is caught by the other reference, under the comparison that
// the correct pair passes; and each option of a call has such a fault.
#include "reference/seeded/seeded.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "core/capability/option_table.h"
#include "reference/agreement/agreement.h"
#include "reference/seeded/seeded_gradient.h"
#include "reference/seeded/seeded_layer.h"
#include "reference/testing/test_dropout.h"
#include "reference/testing/test_options.h"

namespace qkvet::reference::seeded_test {
namespace {

constexpr int kProblems = 680;

class SeededTest : public testing::TestWithParam<int> {};

TEST_P(SeededTest, IsCaughtByTheOtherReference) {
  const auto fault = static_cast<SeededFault>(GetParam());
  TestRandom random(7);
  int caught = 0;
  for (int i = 0; i < kProblems; ++i) {
    TestProblem p = problem_of_all(random, i);
    const Problem& problem = p.get();
    const OracleOutput faulty = seeded_forward(fault, problem);
    const double ratio =
        seeded_in_plain(fault)
            ? reference_ratio(problem, faulty, twin_forward(problem))
            : reference_ratio(problem, plain_forward(problem), faulty);
    caught += !(ratio <= 1);
    const double control =
        reference_ratio(problem, plain_forward(problem), twin_forward(problem));
    ASSERT_TRUE(control <= 1) << "the correct pair, problem " << i;
  }
  EXPECT_GT(caught, 0) << seeded_fault_name(fault);
  std::printf("%s: caught in %d of %d problems\n",
              std::string(seeded_fault_name(fault)).c_str(), caught, kProblems);
}

INSTANTIATE_TEST_SUITE_P(AllFaults, SeededTest,
                         testing::Range(0, kSeededFaultCount),
                         [](const testing::TestParamInfo<int>& fault) {
                           return std::string(seeded_fault_name(
                               static_cast<SeededFault>(fault.param)));
                         });

TEST(SeededDropoutTest, IsCaughtByTheTwin) {
  for (const SeededDropout fault :
       {SeededDropout::kNotScaled, SeededDropout::kMaskInverted}) {
    TestRandom random(46);
    int caught = 0;
    for (int i = 0; i < 34; ++i) {
      TestDropout drop = random_dropout(random, i);
      const OracleOutput twin = twin_dropout(drop.get());
      const DropoutBound bound =
          dropout_bound(drop.get(), twin, double_precision());
      const OracleOutput faulty = seeded_dropout(fault, drop.get());
      caught += !(worst_ratio(faulty.o, twin.o, bound.o) <= 1);
    }
    EXPECT_GT(caught, 20) << static_cast<int>(fault);
  }
}

// As many faults of each reference, under distinct names.
template <class Fault>
void expect_balance(int count, std::string_view (*name_of)(Fault)) {
  std::set<std::string_view> names;
  int in_plain = 0;
  for (int i = 0; i < count; ++i) {
    names.insert(name_of(static_cast<Fault>(i)));
    in_plain += seeded_in_plain(static_cast<Fault>(i));
  }
  EXPECT_EQ(std::ssize(names), count);
  EXPECT_EQ(in_plain, count / 2);
}

TEST(SeededListTest, HoldsAsManyFaultsOfEachReferenceUnderDistinctNames) {
  expect_balance(kSeededFaultCount, seeded_fault_name);
  expect_balance(kSeededGradientFaultCount, seeded_gradient_fault_name);
  expect_balance(kSeededLayerFaultCount, seeded_layer_name);
}

// Takes an option out of a problem; false: the problem has none.
struct Removed {
  uint64_t option;
  bool (*remove)(TestProblem& p);
};

bool make_equal(int64_t& a, int64_t& b) {
  const bool differed = a != b;
  a = b = std::min(a, b);
  return differed;
}
template <class... Values>
bool clear(Values&... values) {
  const bool any = (... || !values.empty());
  (values.clear(), ...);
  return any;
}
bool not_causal(Problem& problem, Causal causal) {
  if (problem.causal != causal) return false;
  problem.causal = Causal::kNone;
  return true;
}
bool scaled(Problem& problem, bool given) {
  if (problem.scale_given != given) return false;
  problem.scale_given = !given;
  if (given) problem.scale = default_scale(problem.shape.d);
  return true;
}

constexpr Removed kRemoved[] = {
    {QKVET_OPTION_CAUSAL_TOP_LEFT,
     [](TestProblem& p) { return not_causal(p.problem, Causal::kTopLeft); }},
    {QKVET_OPTION_CAUSAL_BOTTOM_RIGHT,
     [](TestProblem& p) {
       return not_causal(p.problem, Causal::kBottomRight);
     }},
    {QKVET_OPTION_SCALE,
     [](TestProblem& p) { return scaled(p.problem, true); }},
    {QKVET_OPTION_DEFAULT_SCALE,
     [](TestProblem& p) { return scaled(p.problem, false); }},
    {QKVET_OPTION_GROUPED_HEADS,
     [](TestProblem& p) {
       return make_equal(p.problem.shape.H, p.problem.shape.Hkv);
     }},
    {QKVET_OPTION_VALUE_WIDTH,
     [](TestProblem& p) {
       const Shape& s = p.problem.shape;
       int64_t& turned = p.problem.rotation.channels;
       const bool differed = make_equal(p.problem.shape.d, p.problem.shape.dv);
       turned = std::min(turned, s.d - s.d % 2);
       return differed;
     }},
    {QKVET_OPTION_CROSS_LENGTHS,
     [](TestProblem& p) {
       const bool lengths = clear(p.q_len, p.kv_len, p.cu_q, p.cu_k);
       return make_equal(p.problem.shape.Tq, p.problem.shape.Tk) || lengths;
     }},
    {QKVET_OPTION_WINDOW,
     [](TestProblem& p) {
       return std::exchange(p.problem.window, {}).has_value();
     }},
    {QKVET_OPTION_MASK, [](TestProblem& p) { return clear(p.mask); }},
    {QKVET_OPTION_BIAS, [](TestProblem& p) { return clear(p.bias); }},
    {QKVET_OPTION_SOFTCAP,
     [](TestProblem& p) { return std::exchange(p.problem.softcap, 0) > 0; }},
    {QKVET_OPTION_SINK, [](TestProblem& p) { return clear(p.sink); }},
    {QKVET_OPTION_ALIBI, [](TestProblem& p) { return clear(p.slopes); }},
    {QKVET_OPTION_ALIBI_PER_MEMBER,
     [](TestProblem& p) {
       return std::exchange(p.problem.member_slopes, false);
     }},
    {QKVET_OPTION_ROPE,
     [](TestProblem& p) {
       return std::exchange(p.problem.rotation.style, RopeStyle::kNone) !=
              RopeStyle::kNone;
     }},
    {QKVET_OPTION_ROPE_PART,
     [](TestProblem& p) {
       Rotation& turn = p.problem.rotation;
       const bool some =
           turn.style != RopeStyle::kNone && turn.channels < p.problem.shape.d;
       // The other channels get an angle of 0.
       return some && clear(p.rope_cos, p.rope_sin) &&
              std::exchange(turn.style, RopeStyle::kNone) != RopeStyle::kNone;
     }},
    {QKVET_OPTION_LENGTHS,
     [](TestProblem& p) { return clear(p.q_len, p.kv_len); }},
    {QKVET_OPTION_PACKED, [](TestProblem& p) { return clear(p.cu_q, p.cu_k); }},
    {QKVET_OPTION_KEY_LISTS,
     [](TestProblem& p) { return clear(p.listed_keys, p.listed_counts); }},
    {QKVET_OPTION_KEY_LIST_LENGTHS,
     [](TestProblem& p) { return clear(p.listed_counts); }},
    {QKVET_OPTION_SEGMENTS,
     [](TestProblem& p) { return clear(p.segments_q, p.segments_k); }},
    {QKVET_OPTION_FULL_RANGES,
     [](TestProblem& p) {
       p.problem.fields.ranges = 0;
       return clear(p.full_ranges);
     }},
    {QKVET_OPTION_CHUNK,
     [](TestProblem& p) {
       return std::exchange(p.problem.fields.chunk, 0) > 0;
     }},
    {QKVET_OPTION_TREE_MASK, [](TestProblem& p) { return clear(p.tree); }},
};

// Options that say which outputs there are, or that nothing is left of an
// extent: the decision itself has a fault.
constexpr std::pair<uint64_t, SeededFault> kNamed[] = {
    {QKVET_OPTION_LSE, SeededFault::kTwinLseInSingle},
    {QKVET_OPTION_WEIGHTS, SeededFault::kTwinWeightsUndivided},
    {QKVET_OPTION_EMPTY_EXTENTS, SeededFault::kPlainEmptyRowZero},
};

// How tensors are stored: a Problem holds the numbers themselves, in one way.
// Dropout has problems and seeded faults of its own.
constexpr uint64_t kElsewhere =
    QKVET_OPTION_DROPOUT | QKVET_OPTION_DROPOUT_MASK | QKVET_OPTION_PAGED |
    QKVET_OPTION_PACKED_PAGES | QKVET_OPTION_PAGED_CSR |
    QKVET_OPTION_PAGED_CHANNEL_GROUPS | QKVET_OPTION_APPEND |
    QKVET_OPTION_QUANT_SCALES | QKVET_OPTION_INT32_LENGTHS |
    QKVET_OPTION_KEY_LIST_BLOCKS | QKVET_OPTION_VALUES_IN_KEYS;

// Whether the fault shows, bit for bit.
bool shows(SeededFault fault, TestProblem& p) {
  const OracleOutput got = seeded_forward(fault, p.get());
  const OracleOutput want =
      seeded_in_plain(fault) ? plain_forward(p.get()) : twin_forward(p.get());
  const auto differ = [](const auto& a, const auto& b) {
    return std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) != 0;
  };
  return differ(got.o, want.o) || differ(got.lse, want.lse) ||
         differ(got.weights, want.weights) ||
         differ(got.visible, want.visible) || differ(got.sees, want.sees);
}

// Whether it shows in several problems, all of which have the option, and in
// none of them without it.
bool is_about(SeededFault fault, const Removed& option,
              std::vector<TestProblem>& problems) {
  int with = 0;
  for (TestProblem& p : problems) {
    if (!shows(fault, p)) continue;
    TestProblem without = p;
    if (!option.remove(without)) return false;
    for (auto* tensor : {&without.q, &without.k, &without.v})
      for (double& x : *tensor) x = std::isnan(x) ? 1 : x;
    if (shows(fault, without)) return false;
    ++with;
  }
  return with > 3;
}

TEST(SeededOptionsTest, EveryOptionHasAFault) {
  uint64_t covered = kElsewhere;
  for (const auto& [option, fault] : kNamed) {
    EXPECT_EQ(covered & option, 0u) << seeded_fault_name(fault);
    covered |= option;
  }
  TestRandom random(11);
  std::vector<TestProblem> problems;
  for (int i = 0; i < kProblems; ++i)
    problems.push_back(problem_of_all(random, i));
  for (const Removed& option : kRemoved) {
    EXPECT_EQ(covered & option.option, 0u);
    for (int f = 0; f < kSeededFaultCount; ++f) {
      if (!is_about(static_cast<SeededFault>(f), option, problems)) continue;
      covered |= option.option;
      break;
    }
  }
  for (const OptionRow& row : option_rows())
    EXPECT_NE(covered & row.option, 0u) << row.word << " has no seeded fault";
}

}  // namespace
}  // namespace qkvet::reference::seeded_test

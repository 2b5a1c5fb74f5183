// SPDX-License-Identifier: Apache-2.0
// Every input is a legal case, and stays one through every change.
#include "fuzz/input/input.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/base/philox.h"
#include "fuzz/input/mutate.h"
#include "fuzz/targets/target.h"
#include "properties/cases/generate.h"
#include "properties/checking/case_work.h"
#include "properties/conventions/domain.h"
#include "properties/testing/fake_executor.h"

namespace qkvet::fuzz::input_test {
namespace {

constexpr const char* kTargets[] = {"shapes", "stability", "stories", "layer"};
#ifdef QKVET_SANITIZED
constexpr uint32_t kInputs = 150;
#else
constexpr uint32_t kInputs = 600;
#endif

InputRules rules_of(const char* target) {
  InputRules rules;
  rules.laws = laws_of(*find_fuzz_target(target));
  rules.scope.dtypes = {Dtype::kF32, Dtype::kF16, Dtype::kBf16};
  return rules;
}

std::span<const uint8_t> as_bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

Draw draw_from(uint64_t seed) {
  return Draw([seed, n = uint32_t{0}]() mutable {
    return philox_u64(seed, ++n, 0, 0);
  });
}

// A kernel may be called with the input under the law: the law would not judge
// another case.
void expect_legal(const FuzzInput& input, const InputRules& rules) {
  const std::string text = encode_input(input);
  ASSERT_NE(std::find(rules.laws.begin(), rules.laws.end(), input.law),
            rules.laws.end());
  EXPECT_EQ(invalid_reason(input.value), "") << text;
  EXPECT_LE(text.size(), kMostInputBytes);
  EXPECT_EQ(input.value.subject(), input.law->domain.subject) << text;
  Case fit = constrained(*input.law, input.value);
  fit.q = input.value.q, fit.k = input.value.k, fit.v = input.value.v;
  fit.set = input.value.set;
  EXPECT_EQ(to_string(fit), to_string(input.value));
}

TEST(FuzzInput, EveryByteStringIsALegalCase) {
  for (const char* target : kTargets) {
    const InputRules rules = rules_of(target);
    for (uint32_t n = 0; n < kInputs; ++n) {
      Draw draw = draw_from(n);
      std::vector<uint8_t> bytes(static_cast<size_t>(draw.range(0, 80)));
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(draw.bits());
      expect_legal(decode_input(bytes, rules), rules);
    }
  }
}

TEST(FuzzInput, WhatIsWrittenIsReadAgain) {
  for (const char* target : kTargets) {
    const InputRules rules = rules_of(target);
    for (uint32_t n = 0; n < kInputs; ++n) {
      Draw draw = draw_from(n);
      const std::string seed = std::to_string(draw.bits());
      const FuzzInput input = decode_input(as_bytes(seed), rules);
      const std::string text = encode_input(input);
      EXPECT_EQ(encode_input(decode_input(as_bytes(text), rules)), text);
      // Cut off, or with a byte of something else in it, it is still a case.
      std::string broken = text.substr(0, text.size() / 2);
      expect_legal(decode_input(as_bytes(broken), rules), rules);
      broken = text;
      broken[n % broken.size()] = static_cast<char>(draw.bits());
      expect_legal(decode_input(as_bytes(broken), rules), rules);
    }
  }
}

TEST(FuzzInput, AChangedByteChangesLittle) {
  const InputRules rules = rules_of("shapes");
  std::vector<uint8_t> bytes(60, 7);
  const std::string before = encode_input(decode_input(bytes, rules));
  bytes[58] = 8;  // of a late choice
  const std::string after = encode_input(decode_input(bytes, rules));
  EXPECT_EQ(before.substr(0, before.find(' ')),
            after.substr(0, after.find(' ')));
}

TEST(FuzzInput, ALawOfAnotherTargetIsNotTaken) {
  const InputRules rules = rules_of("stability");
  const std::string text = "future_weights_are_zero f32,B1,H1,Tq2,Tk2,d2";
  const FuzzInput input = decode_input(as_bytes(text), rules);
  EXPECT_NE(input.law, find_law("future_weights_are_zero"));
  expect_legal(input, rules);
}

TEST(FuzzInput, CasesAreAsSmallAsTheRulesSay) {
  InputRules rules = rules_of("shapes");
  rules.most_work = 4096;
  const std::string text = "agrees_with_oracle f32,B4,H8,Hkv2,Tq300,Tk300,d128";
  const Shape s = decode_input(as_bytes(text), rules).value.shape;
  EXPECT_LE(s.B * s.H * s.Tq * s.Tk * (s.d + s.dv), rules.most_work);
  EXPECT_GT(s.Tq * s.Tk * s.d, 1);
}

TEST(FuzzInput, WithoutRecipesDataIsNormalAndSingleValues) {
  InputRules rules = rules_of("stability");
  rules.recipes = false;
  const std::string text =
      "agrees_with_oracle f32,B1,H1,Tq3,Tk3,d2,q=large4,k=heavy,bias=heavy,"
      "set=q.0.0.1.1:0x1p+9";
  const FuzzInput input = decode_input(as_bytes(text), rules);
  EXPECT_EQ(encode_input(input),
            "agrees_with_oracle f32,B1,H1,Tq3,Tk3,d2,bias=normal,"
            "set=q.0.0.1.1:0x1p+9");
}

TEST(FuzzInput, SingleValuesFollowTheirTensor) {
  const InputRules rules = rules_of("stability");
  Case value = *parse_case("f32,B1,H1,Tq9,Tk9,d8,set=q.0.0.8.7:0x1p+9").value;
  value.shape.Tq = 3;
  value.shape.d = value.shape.dv = 2;
  const Law* law = find_law("agrees_with_oracle");
  EXPECT_EQ(to_string(nearest_legal(*law, value, rules)),
            "f32,B1,H1,Tq3,Tk9,d2,set=q.0.0.2.1:0x1p+9");
}

constexpr uint32_t kSteps = 2400;

// The results of the changes on a long walk.
struct Walked {
  std::set<uint64_t> options;
  std::set<std::string> laws, texts;
  size_t most_set = 0;
  double largest = 0;
};

Walked walk(const char* target, int values_percent) {
  const InputRules rules = rules_of(target);
  Walked walked;
  Draw draw = draw_from(5);
  FuzzInput input = decode_input({}, rules), other = input;
  const bool failed_before = ::testing::Test::HasFailure();
  for (uint32_t n = 0; n < kSteps; ++n) {
    const FuzzInput before = input;
    input = n % 5 == 4 ? crossed(input, other, rules, draw)
                       : mutated(input, rules, values_percent, draw);
    if (n % 7 == 0) other = before;
    expect_legal(input, rules);
    if (!failed_before && ::testing::Test::HasFailure()) break;
    for (const uint64_t option : single_options(options_of(input.value)))
      walked.options.insert(option);
    walked.laws.insert(input.law->id);
    walked.texts.insert(encode_input(input));
    walked.most_set = std::max(walked.most_set, input.value.set.size());
    for (const SetValue& one : input.value.set)
      walked.largest = std::max(walked.largest, std::fabs(one.value));
  }
  return walked;
}

TEST(Mutation, StaysLegalAndComesEverywhere) {
  const Walked shapes = walk("shapes", 15);
  EXPECT_GE(shapes.options.size(), 13u);  // of 15
  EXPECT_GT(shapes.laws.size(), 30u);
  const Walked stability = walk("stability", 75);
  EXPECT_GT(stability.most_set, 2u);
  EXPECT_GT(stability.largest, 64);
  for (const char* target : kTargets) {
    const Walked walked = walk(target, 40);
    // Most changes change something.
    EXPECT_GT(walked.texts.size(), kSteps / 4) << target;
  }
}

// Each number that an option has is changed, and not only taken from a case
// that is drawn: it meets values that no draw has.
TEST(Mutation, NumbersOfOptionsChange) {
  InputRules rules = rules_of("shapes");
  rules.laws = {find_law("agrees_with_oracle")};
  const struct {
    const char* text;
    int64_t (*number)(const Case&);
  } rows[] = {
      {"f32,B2,H2,Tq5,Tk7,d4,chunk=3", [](const Case& c) { return c.chunk; }},
      {"f32,B2,H2,Tq5,Tk7,d4,ranges=2",
       [](const Case& c) { return c.fields.ranges; }},
      {"f32,B2,H2,Tq5,Tk7,d4,keys=3",
       [](const Case& c) { return c.listed.entries; }}};
  for (const auto& row : rows) {
    FuzzInput input;
    input.law = rules.laws[0];
    const ParsedCase parsed = parse_case(row.text);
    ASSERT_TRUE(parsed.value) << parsed.error;
    input.value = *parsed.value;
    std::set<int64_t> met;
    for (uint32_t n = 0; n < kInputs; ++n) {
      Draw draw = draw_from(n);
      const FuzzInput next = mutated(input, rules, 0, draw);
      expect_legal(next, rules);
      met.insert(row.number(next.value));
    }
    EXPECT_GT(met.size(), 6u) << row.text;
  }
}

TEST(Mutation, TakesPiecesOfBoth) {
  const InputRules rules = rules_of("shapes");
  const Law* law = find_law("agrees_with_oracle");
  const FuzzInput a{law, *parse_case("f32,B1,H1,Tq5,Tk7,d3,seed=11").value};
  const FuzzInput b{law,
                    *parse_case("f16,B2,H4,Hkv2,Tq2,Tk9,d6,softcap=2").value};
  bool of_a = false, of_b = false;
  Draw draw = draw_from(1);
  for (int n = 0; n < 200; ++n) {
    const Case value = crossed(a, b, rules, draw).value;
    of_a |= value.seed == 11 && value.softcap == 2;
    of_b |= value.shape.Tk == 9 && value.q_dtype == Dtype::kF32;
  }
  EXPECT_TRUE(of_a);
  EXPECT_TRUE(of_b);
}

}  // namespace
}  // namespace qkvet::fuzz::input_test

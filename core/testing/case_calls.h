// SPDX-License-Identifier: Apache-2.0
// For tests: cases by their text, texts that are refused, calls of cases, and
// bytes as numbers.
#ifndef QKVET_CORE_TESTING_CASE_CALLS_H_
#define QKVET_CORE_TESTING_CASE_CALLS_H_

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/case/case.h"

namespace qkvet {

inline Case parsed(std::string_view text) {
  const ParsedCase result = parse_case(text);
  EXPECT_TRUE(result.value) << text << ": " << result.error;
  return result.value.value_or(Case{});
}

// Why the text is refused, in one line.
inline std::string error_of(std::string_view text) {
  const ParsedCase result = parse_case(text);
  EXPECT_FALSE(result.value) << text << " was accepted";
  EXPECT_EQ(result.error.find('\n'), std::string::npos) << result.error;
  return result.error;
}

// Texts after `lead`, and a part of the line that refuses each.
using Refusals = std::vector<std::pair<std::string, std::string>>;
inline void expect_refused(const std::string& lead, const Refusals& rows) {
  for (const auto& [text, part] : rows) {
    const std::string error = error_of(lead + text);
    EXPECT_NE(error.find(part), std::string::npos) << text << ": " << error;
  }
}

// Texts that are spelled as they are read.
inline void expect_canonical(const std::string& lead,
                             const std::vector<std::string>& texts) {
  for (const std::string& text : texts)
    EXPECT_EQ(to_string(parsed(lead + text)), lead + text);
}

// Cases at random are valid, and their texts are read as they were.
template <class RandomCase>
void expect_round_trips(const RandomCase& random_case) {
  for (uint32_t n = 0; n < 20000; ++n) {
    const Case c = random_case(n);
    const std::string text = to_string(c);
    ASSERT_EQ(invalid_reason(c), "") << text;
    ASSERT_LE(text.size(), kMaxCaseText);
    const ParsedCase back = parse_case(text);
    ASSERT_TRUE(back.value) << text << ": " << back.error;
    ASSERT_EQ(*back.value, c) << text;
    ASSERT_EQ(to_string(*back.value), text);
  }
}

// A call of a case, with what it points to.
struct CaseCall {
  explicit CaseCall(std::string_view text,
                    Operation operation = Operation::kForward)
      : value(parsed(text)),
        inputs(make_inputs(value)),
        call(call_of(value, inputs, operation)) {}
  CaseCall(const CaseCall&) = delete;
  CaseCall& operator=(const CaseCall&) = delete;

  Case value;
  Inputs inputs;
  KernelCall call;
};

inline Inputs inputs_of(std::string_view text) {
  return make_inputs(parsed(text));
}

template <class Number>
std::vector<Number> numbers(const std::vector<std::byte>& bytes) {
  std::vector<Number> all(bytes.size() / sizeof(Number));
  if (!all.empty()) std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}
inline std::vector<float> floats(const std::vector<std::byte>& bytes) {
  return numbers<float>(bytes);
}

}  // namespace qkvet

#endif  // QKVET_CORE_TESTING_CASE_CALLS_H_

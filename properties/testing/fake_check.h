// SPDX-License-Identifier: Apache-2.0
// For tests of laws: one law, one case, one fake kernel.
#ifndef QKVET_PROPERTIES_TESTING_FAKE_CHECK_H_
#define QKVET_PROPERTIES_TESTING_FAKE_CHECK_H_

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "properties/judging/law.h"
#include "properties/run/shrink.h"
#include "properties/testing/fake_executor.h"

namespace qkvet::properties {

// Fake is FakeExecutor, FakeGradients or FakeLayerGradients.
template <class Fake>
Judgement check(const std::string& law, const std::string& text, Fake& executor,
                const JudgedKernel& kernel = Fake::under_test().judged) {
  const ParsedCase parsed = parse_case(text);
  EXPECT_TRUE(parsed.value) << parsed.error;
  TimeUse time;
  return check_case(*find_law(law), *parsed.value, kernel, 0, executor,
                    /*with_twin=*/true, time);
}

inline std::string finding_of(const Judgement& judgement) {
  if (!judgement.finding) return judgement.reason;
  const Finding& finding = *judgement.finding;
  return finding.where + " expected " + finding.expected + " actual " +
         finding.actual;
}

// Whether the definition passes the case; a law may not apply to it. The
// definition never fails.
inline bool definition_passes(const std::string& law, const Case& value) {
  FakeExecutor good;
  const Judgement judgement = check(law, to_string(value), good);
  EXPECT_NE(judgement.verdict, Verdict::kFailed)
      << law << " " << to_string(value) << ": " << finding_of(judgement);
  return judgement.verdict == Verdict::kPassed;
}

// The definition passes the case, the corrupted kernel fails it.
template <class Fake>
Judgement fails_as(const JudgedKernel& kernel, const std::string& law,
                   const std::string& text, typename Fake::Question question,
                   typename Fake::Answer answer) {
  Fake good;
  const Judgement right = check(law, text, good, kernel);
  EXPECT_EQ(right.verdict, Verdict::kPassed) << law << " " << finding_of(right);
  EXPECT_GT(right.compared, 0) << law;
  Fake bad(std::move(question), std::move(answer));
  const Judgement wrong = check(law, text, bad, kernel);
  EXPECT_EQ(wrong.verdict, Verdict::kFailed) << law << " " << finding_of(wrong);
  EXPECT_TRUE(wrong.finding) << law;
  return wrong;
}

inline Judgement fails(const std::string& law, const std::string& text,
                       FakeExecutor::Question question,
                       FakeExecutor::Answer answer = {}) {
  return fails_as<FakeExecutor>(FakeExecutor::under_test().judged, law, text,
                                std::move(question), std::move(answer));
}

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_TESTING_FAKE_CHECK_H_

// SPDX-License-Identifier: Apache-2.0
// For tests of laws: one law, one case, one fake kernel.
#ifndef QKVET_PROPERTIES_FAKE_CHECK_H_
#define QKVET_PROPERTIES_FAKE_CHECK_H_

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "properties/fake_executor.h"
#include "properties/law.h"
#include "properties/shrink.h"

namespace qkvet {

inline Judgement check(const std::string& law, const std::string& text,
                       FakeExecutor& executor) {
  const ParsedCase parsed = parse_case(text);
  EXPECT_TRUE(parsed.value) << parsed.error;
  TimeUse time;
  return check_case(*find_law(law), *parsed.value,
                    FakeExecutor::under_test().judged, 0, executor,
                    /*with_twin=*/true, time);
}

// The oracle passes the case, the spoiled kernel fails it.
inline Judgement fails(const std::string& law, const std::string& text,
                       FakeExecutor::Question question,
                       FakeExecutor::Answer answer = {}) {
  FakeExecutor good;
  const Judgement right = check(law, text, good);
  EXPECT_EQ(right.verdict, Verdict::kPassed) << law << " " << right.reason;
  EXPECT_GT(right.compared, 0) << law;
  FakeExecutor bad(std::move(question), std::move(answer));
  const Judgement wrong = check(law, text, bad);
  EXPECT_EQ(wrong.verdict, Verdict::kFailed) << law << " " << wrong.reason;
  EXPECT_TRUE(wrong.finding) << law;
  return wrong;
}

}  // namespace qkvet

#endif  // QKVET_PROPERTIES_FAKE_CHECK_H_

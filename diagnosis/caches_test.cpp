// SPDX-License-Identifier: Apache-2.0
// Causes of failures that commands of a law bring about. What went wrong is
// seen by NaN then, and NaN alone does not tell one wrong eviction from
// another: one that is not the known fault must not be taken for it, and that
// must be known.
#include <gtest/gtest.h>

#include <algorithm>

#include "diagnosis/evidence/evidence.h"
#include "diagnosis/test_faults.h"
#include "properties/testing/fake_tables.h"

namespace qkvet::diagnosis::caches_test {
namespace {

constexpr const char* kFault = "cache_evict_counts_positions";

// What is left moves one page of four tokens further than it should, where the
// sequence has that page.
void evict_into_the_next_page(FakeTokens& tokens, int64_t first,
                              int64_t count) {
  constexpr int64_t kPage = 4;
  const int64_t held = std::ssize(tokens);
  const int64_t room = (held + kPage - 1) / kPage * kPage;
  FakeTokens slots = tokens;
  slots.resize(static_cast<size_t>(room));
  for (int64_t to = first, from = first + count; from < held; ++to, ++from)
    slots[static_cast<size_t>(to + kPage < room ? to + kPage : to)] =
        slots[static_cast<size_t>(from)];
  slots.resize(static_cast<size_t>(held - count));
  tokens = std::move(slots);
}

// As the known fault does: positions are those of a right eviction.
void evict_by_position(FakeTokens& tokens, int64_t first, int64_t count) {
  FakeTokens right = tokens;
  Spoil().evict(right, first, count);
  const auto from = std::find_if(
      tokens.begin(), tokens.end() - count,
      [&](const FakeToken& token) { return token.position >= first; });
  tokens.erase(from, from + count);
  for (size_t n = 0; n < right.size(); ++n)
    tokens[n].position = right[n].position;
}

Case case_of(const char* text) {
  const auto parsed = parse_case(text);
  EXPECT_TRUE(parsed.value) << text;
  return parsed.value.value_or(Case{});
}

// Two failures of both wrong evictions, found by a law that puts evictions in:
// in these stories the two answer NaN in the same rows.
Diagnosis diagnosed(const KernelUnderTest& kernel, Executor& executor) {
  Failure failure;
  failure.law = find_law("cache_evict_forgets");
  failure.smallest = case_of(
      "f32,B2,H1,d1,cap5,q=small,k=small,seed=195693,story=step.a.1+step.a.1");
  failure.found = case_of(
      "f32,B1,H3,d16,dv23,cap6,q=small,k=small,seed=195693,story=step.a.1+"
      "truncate.a.1+attend.a.1+step.a.2+truncate.a.1");
  failure.repeats = failure.repeats_failed = 1;
  TimeUse time;
  Witness witness(kernel.judged, kernel.index, executor, time, 1000);
  for (const Case* value : {&failure.smallest, &failure.found}) {
    const auto evidence = witness.ask(*failure.law, *value);
    EXPECT_TRUE(evidence != nullptr && evidence->failed()) << to_string(*value);
    if (evidence != nullptr) failure.judgement = evidence->judgement;
  }
  return diagnose(failure, kernel, executor, known_faults_for_test(), time);
}

Diagnosis diagnosed(decltype(Spoil::evict) evict) {
  Spoil spoil;
  spoil.evict = std::move(evict);
  FakeTables tables(spoil);
  return diagnosed(FakeTables::under_test(), tables);
}

TEST(CachesDiagnosed, AnotherWrongEvictionIsNotTheKnownOne) {
  const Diagnosis diagnosis = diagnosed(evict_into_the_next_page);
  EXPECT_NE(diagnosis.certainty, Certainty::kSure) << diagnosis.name();
  EXPECT_NE(diagnosis.name(), kFault);
}

// The control: in a cache of which nothing else is wrong, and the fault itself.
TEST(CachesDiagnosed, TheKnownWrongEvictionIsKnown) {
  const Opened faults = open_for_test(QKVET_FAULTY);
  ASSERT_NE(faults.executor, nullptr) << faults.error;
  std::vector<Diagnosis> all = {diagnosed(evict_by_position)};
  for (const KernelUnderTest& kernel : kernels_for_test(*faults.executor))
    if (kernel.judged.info.name == std::string("faulty/") + kFault)
      all.push_back(diagnosed(kernel, *faults.executor));
  EXPECT_EQ(all.size(), 2u);
  for (const Diagnosis& diagnosis : all) {
    EXPECT_EQ(diagnosis.name(), kFault);
    EXPECT_EQ(diagnosis.certainty, Certainty::kSure)
        << diagnosis.predicted << " of " << diagnosis.failing;
  }
}

}  // namespace
}  // namespace qkvet::diagnosis::caches_test

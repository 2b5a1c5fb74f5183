// SPDX-License-Identifier: Apache-2.0
// Failures of caches with a cause that is similar to a known one: it must not
// be taken for the known one, which must still be recognised.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>

#include "diagnosis/evidence/evidence.h"
#include "diagnosis/test_faults.h"
#include "properties/testing/fake_tables.h"

namespace qkvet::diagnosis::caches_test {
namespace {

// Failures caused by commands of a law are visible only as NaN, and NaN alone
// does not distinguish one wrong eviction from another.
constexpr const char* kFault = "cache_evict_counts_positions";

// Remaining tokens move one page of four tokens further than they should, if
// the sequence has that page.
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

// Two cases in which a known fault fails, and so does a similar one.
struct Failing {
  const char *law, *smallest, *found;
};

Diagnosis diagnosed(const Failing& failing, const KernelUnderTest& kernel,
                    Executor& executor) {
  Failure failure;
  failure.law = find_law(failing.law);
  failure.smallest = case_of(failing.smallest);
  failure.found = case_of(failing.found);
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

Diagnosis diagnosed_fault(const char* fault, const Failing& failing) {
  const Opened faults = open_for_test(QKVET_FAULTY);
  EXPECT_NE(faults.executor, nullptr) << faults.error;
  if (faults.executor == nullptr) return {};
  return diagnosed(failing, fault_for_test(*faults.executor, fault),
                   *faults.executor);
}

void expect_sure(const char* fault, const Diagnosis& diagnosis) {
  EXPECT_EQ(diagnosis.name(), fault);
  EXPECT_EQ(diagnosis.certainty, Certainty::kSure)
      << diagnosis.predicted << " of " << diagnosis.failing;
}

// Found by a law that inserts evictions: in these stories two wrong evictions
// return NaN in the same rows.
constexpr Failing kWithEvictions = {
    "cache_evict_forgets",
    "f32,B2,H1,d1,cap5,q=small,k=small,seed=195693,story=step.a.1+step.a.1",
    "f32,B1,H3,d16,dv23,cap6,q=small,k=small,seed=195693,story=step.a.1+"
    "truncate.a.1+attend.a.1+step.a.2+truncate.a.1"};

Diagnosis diagnosed_with(decltype(Spoil::evict) evict) {
  Spoil spoil;
  spoil.evict = std::move(evict);
  FakeTables tables(spoil);
  return diagnosed(kWithEvictions, FakeTables::under_test(), tables);
}

TEST(CachesDiagnosed, AnotherWrongEvictionIsNotTheKnownOne) {
  const Diagnosis diagnosis = diagnosed_with(evict_into_the_next_page);
  EXPECT_NE(diagnosis.certainty, Certainty::kSure) << diagnosis.name();
  EXPECT_NE(diagnosis.name(), kFault);
}

// The control: the same wrong eviction in an otherwise correct cache, and the
// fault itself.
TEST(CachesDiagnosed, TheKnownWrongEvictionIsKnown) {
  expect_sure(kFault, diagnosed_with(evict_by_position));
  expect_sure(kFault, diagnosed_fault(kFault, kWithEvictions));
}

// After a fork one branch is cut and then writes to `kept` tokens of the other.
class KeepsSharedTokens : public FakeTables {
 public:
  explicit KeepsSharedTokens(int64_t kept) : FakeTables(spoil(kept)) {}

  std::vector<CallOutcome> run(int kernel,
                               std::span<const KernelCall> calls) override {
    std::vector<CallOutcome> outcomes;
    for (const KernelCall& call : calls) {
      if (call.operation == Operation::kCacheCreate) branches_.clear();
      outcomes.push_back(FakeTables::run(kernel, {&call, 1}).front());
    }
    return outcomes;
  }

 private:
  struct Branch {
    FakeTokens* other = nullptr;
    std::optional<size_t> cut_at = {};
  };

  Spoil spoil(int64_t kept) {
    Spoil out;
    out.fork = [this](FakeTokens& from, FakeTokens& to) {
      to = from;
      branches_[&to] = {&from};
      branches_[&from] = {&to};
    };
    out.truncate = [this](FakeTokens& tokens, int64_t count) {
      const auto left = static_cast<size_t>(count);
      if (left < tokens.size()) branches_[&tokens].cut_at = left;
      tokens.resize(left);
    };
    out.reset = [this](FakeTokens& tokens) {
      if (!tokens.empty()) branches_[&tokens].cut_at = 0;
      tokens.clear();
    };
    out.append = [this, kept](FakeTokens& tokens, const FakeTokens& more) {
      const auto found = branches_.find(&tokens);
      for (const FakeToken& token : more) {
        const size_t at = tokens.size();
        tokens.push_back(token);
        if (found == branches_.end() || found->second.other == nullptr)
          continue;
        const Branch& branch = found->second;
        if (branch.cut_at && at < *branch.cut_at + static_cast<size_t>(kept) &&
            at < branch.other->size())
          (*branch.other)[at] = token;
      }
    };
    return out;
  }

  std::map<const FakeTokens*, Branch> branches_ = {};
};

constexpr const char* kFreed = "cache_page_freed_while_shared";
constexpr Failing kAfterAFork = {
    "cache_agrees_with_history",
    "f32,B2,H1,d1,cap4,story=step.a.2+fork.a.b+reset.a+step.a.1+attend.b.1",
    "f32,B2,H2,d5,cap8,story=step.a.3+fork.a.b+truncate.b.0+step.b.2+"
    "attend.a.1"};

// With few tokens it does the same as pages that are freed while another
// sequence holds them, or as pages that are never freed.
TEST(CachesDiagnosed, WhoKeepsOneSharedPageIsUnknown) {
  KeepsSharedTokens tables(/*kept=*/4);
  EXPECT_EQ(diagnosed(kAfterAFork, FakeTables::under_test(), tables).name(),
            "unknown");
}

// The control: one that keeps all of them, which is the same as freeing them
// until there is a third sequence, and the fault itself.
TEST(CachesDiagnosed, WhoFreesOrKeepsAllSharedPagesIsKnown) {
  KeepsSharedTokens tables(/*kept=*/1000);
  EXPECT_EQ(diagnosed(kAfterAFork, FakeTables::under_test(), tables).name(),
            "cache_stale_table_tail");
  expect_sure(kFreed, diagnosed_fault(kFreed, kAfterAFork));
}

}  // namespace
}  // namespace qkvet::diagnosis::caches_test

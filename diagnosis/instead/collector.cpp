// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/instead/collector.h"

#include <algorithm>

#include "diagnosis/evidence/nearby.h"
#include "diagnosis/evidence/stories.h"
#include "diagnosis/where/fresh_cases.h"
#include "properties/conventions/domain.h"
#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

constexpr uint64_t kInsteadSeed = 0x494E;  // any: the same for every diagnosis
// Multiplications (work_of) of one case.
constexpr int64_t kMostWorkOfCase = 300'000;
// Stories that are read back, and their largest cost.
constexpr int kMostOfStorage = 28;
constexpr size_t kEnoughOfStorage = 8;
constexpr int kCallsLeftToAnswers = 60;

// A cache may fail only with the commands that a law adds to a story, such as
// forks. Agreement is then checked with those commands.
void ask_with_commands_of_law(const Failure& failure, const FailsWhere& where,
                              uint64_t seed, int count, Collector& collector) {
  const Law& law = *failure.law;
  if (where.setting && &where.setting->law() == &law)
    for (const Case& value :
         fresh_cases(where.hypothesis, *where.setting, {failure.smallest}, seed,
                     count / 2, collector.is_over()))
      if (where.hypothesis.predicts_failure(where.setting->values(value)))
        collector.ask_with_commands_of(law, value);
  const auto first = static_cast<int>(seed % 1000);
  for (int n = 1; n <= count / 2 && !collector.is_full(); ++n)
    collector.ask_with_commands_of(
        law, nearby_case(law, n % 2 == 0 ? failure.smallest : failure.found,
                         first + n));
}

// Some calls access memory outside a tensor in one placement of it only.
void ask_of_memory(const Failure& failure, Witness& witness,
                   Collector& collector) {
  if (failure.judgement.kind != FailureKind::kMemory) return;
  constexpr int kMost = 6;
  for (int n = 0; n < kMost && collector.touches().size() < kFewestCases; ++n) {
    const Case value = n == 0 ? failure.smallest
                              : nearby_case(*failure.law, failure.smallest, n);
    collector.note_touch(witness.ask(*failure.law, value).get());
  }
}

}  // namespace

void Collector::ask(const Case& value) {
  if (is_full() || work_of(value) > kMostWorkOfCase ||
      !known_.insert(to_string(value)).second)
    return;
  ++asked_;
  if (value.subject() == Subject::kCache) ask_of_storage(value);
  auto evidence = witness_.ask(law_of_answers(value), value);
  note_touch(evidence.get());
  auto wrong = wrong_answer(std::move(evidence), witness_.kernel());
  if (wrong) answers_.push_back(std::move(*wrong));
}

void Collector::ask_with_commands_of(const Law& law, const Case& value) {
  if (is_full()) return;
  if (const auto story = with_commands_of_law(law, value, witness_))
    ask(*story);
}

// Stored tokens are identified by distinct values.
void Collector::ask_of_storage(const Case& value) {
  if (asked_of_storage_ == kMostOfStorage ||
      stored_.size() == kEnoughOfStorage ||
      witness_.calls_left() < kCallsLeftToAnswers)
    return;
  ++asked_of_storage_;
  const auto evidence = witness_.ask(
      *find_law("cache_stores_what_it_is_given"),
      with_queries_of_others(with_own_tokens(value)), begin_new_process);
  if (evidence == nullptr || !evidence->failed()) return;
  if (auto facts = facts_of_storage(*evidence, witness_.kernel()))
    stored_.push_back(std::move(*facts));
}

void Collector::note_touch(const Evidence* evidence) {
  if (evidence == nullptr || !evidence->failed()) return;
  hung_ += evidence->judgement.kind == FailureKind::kHang;
  if (Facts facts = facts_of_calls(*evidence, witness_.kernel());
      !facts.empty()) {
    ends_.push_back(std::move(facts));
    stories_ended_ += evidence->value().subject() == Subject::kCache;
  }
  const bool is_dead = evidence->judgement.kind == FailureKind::kMemory ||
                       evidence->judgement.kind == FailureKind::kCrash;
  const auto tensor = touched_outside(*evidence);
  const bool is_unwritten = std::any_of(
      evidence->outcomes.begin(), evidence->outcomes.end(),
      [](const CallOutcome& one) { return one.unwritten.has_value(); });
  if (tensor || (is_dead && !is_unwritten))
    touches_.push_back(
        {evidence->value(), tensor,
         std::any_of(evidence->outcomes.begin(), evidence->outcomes.end(),
                     [](const CallOutcome& one) {
                       return one.fault && one.fault->of_heap;
                     })});
}

std::vector<WrongAnswer> Collector::take() {
  std::stable_sort(answers_.begin(), answers_.end(),
                   [](const WrongAnswer& a, const WrongAnswer& b) {
                     return work_of(a.value()) < work_of(b.value());
                   });
  return std::move(answers_);
}

void ask_fresh(const Failure& failure, const FailsWhere& where, uint64_t seed,
               int count, Collector& collector) {
  const Law& agreement = law_of_answers(failure.smallest);
  std::vector<Case> failing;
  if (const auto known = parse_case(where.nearest_failure); known.value)
    failing.push_back(*known.value);
  if (where.setting && &where.setting->law() == &agreement)
    for (const Case& value :
         fresh_cases(where.hypothesis, *where.setting, failing, seed, count,
                     collector.is_over()))
      if (where.hypothesis.predicts_failure(where.setting->values(value)))
        collector.ask(value);
  for (const Case& value : failing) collector.ask(value);
  if (failure.law->domain.subject == Subject::kCache &&
      failure.law != &agreement)
    ask_with_commands_of_law(failure, where, seed, count, collector);
  const auto first = static_cast<int>(seed % 1000);
  for (int n = 1; n <= count && !collector.is_full(); ++n)
    collector.ask(nearby_case(
        agreement, n % 2 == 0 ? failure.smallest : failure.found, first + n));
}

// Cases that fail under another law may pass under this one.
void ask_for_failing_answers(const Failure& failure, const FailsWhere& where,
                             const Answered* answered, Witness& witness,
                             Collector& collector) {
  collector.ask(failure.smallest);
  collector.ask(failure.found);
  if (answered == nullptr)
    if (const auto story =
            with_commands_of_law(*failure.law, failure.smallest, witness))
      collector.ask(*story);
  if (answered == nullptr) {
    ask_fresh(failure, where, kInsteadSeed, kMostAsked, collector);
    ask_of_memory(failure, witness, collector);
  } else {
    for (const AnsweredCase& one : *answered)
      if (one.law->domain.subject == failure.law->domain.subject)
        collector.ask(one.value);
  }
}

}  // namespace qkvet::diagnosis

// SPDX-License-Identifier: Apache-2.0
// The sentence for recorded answers.
#include "diagnosis/evidence/evidence.h"
#include "diagnosis/where/fails_where.h"
#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

// Finds a sentence in recorded answers, under one law. A case of another law
// also counts for agreement if it was answered unchanged.
FailsWhere look_in_answers(const Law& law, const Failure& failure,
                           const EvidencePool& pool) {
  constexpr int kFewest = 40;        // half of which hold it
  constexpr int kFewestFailing = 6;  // half of which make it
  const bool agreement = &law == &agreement_about(failure.law->domain.subject);
  Setting setting(law, Setting::Data::kOfPlan, failure.found, pool.kernel);
  Witness witness(pool, kMostWhereCases * kCallsOfCase);
  FailsWhere out;
  out.is_recorded = true;
  std::vector<Sample> samples;
  for (const AnsweredCase& one : *pool.answered) {
    if (std::ssize(samples) >= kMostWhereCases) break;
    const bool fits = agreement ? one.law->domain.subject == law.domain.subject
                                : one.law == &law;
    if (!fits) continue;
    const auto evidence = witness.ask(law, one.value);
    if (evidence == nullptr || evidence->is_empty_handed()) continue;
    samples.push_back({setting.values(one.value), evidence->failed()});
    ++(evidence->failed() ? out.failing : out.passing);
  }
  if (std::ssize(samples) < kFewest || out.failing < kFewestFailing) return out;
  // They come failing and passing in turn, so they are split two and two.
  std::vector<Sample> heard, held_back;
  for (size_t n = 0; n < samples.size(); ++n)
    (n / 2 % 2 == 0 ? heard : held_back).push_back(samples[n]);
  out.hypothesis = simplest_hypotheses(heard, 1)[0];
  for (const Sample& one : held_back)
    out.fresh.add(out.hypothesis.predicts_failure(one.values), one.failed);
  out.setting = setting;
  return out;
}

}  // namespace

FailsWhere look_where_answers_fail(const Failure& failure,
                                   const EvidencePool& pool) {
  const Law& agreement = agreement_about(failure.law->domain.subject);
  FailsWhere out = look_in_answers(agreement, failure, pool);
  return out.setting || failure.law == &agreement
             ? out
             : look_in_answers(*failure.law, failure, pool);
}

}  // namespace qkvet::diagnosis

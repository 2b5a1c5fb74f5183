// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/inquiry.h"

#include <algorithm>
#include <cmath>

#include "diagnosis/evidence/nearby.h"
#include "diagnosis/evidence/stories.h"
#include "diagnosis/evidence/tiles.h"
#include "diagnosis/kind.h"
#include "diagnosis/parametric.h"
#include "diagnosis/where/setting.h"
#include "properties/conditions/condition.h"
#include "properties/conditions/situation.h"
#include "properties/judging/compare.h"
#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

// Sufficient failing and passing evidence.
constexpr int kEnoughFailures = 8;
constexpr int kEnoughProbes = 20;
constexpr int kMostLooks = 40;
// Minimum failing evidence for a sure cause.
constexpr int kLeastFailing = 3;
// Cases that are run if all answers are one number and no hypothesis is left:
// the report only states that.
constexpr int kEnoughBare = 12;
// Cases that are examined to tell hypotheses apart.
constexpr int kTellingLooks = 48;
// Cases in which the only hypothesis predicts a failure, and as many in which
// it predicts a pass.
constexpr int kOfItsOwn = 4;
constexpr size_t kMostCauses = 4;
// Multiplications (work_of) of a case at a tile.
constexpr int64_t kMostWorkAtTiles = 300'000;

bool differs(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  if (a.size() != b.size()) return true;
  constexpr double kClearly = 0.01;
  const auto x = as_doubles(a, Dtype::kF32), y = as_doubles(b, Dtype::kF32);
  for (size_t n = 0; n < x.size(); ++n) {
    if (std::isnan(x[n]) != std::isnan(y[n])) return true;
    if (std::fabs(x[n] - y[n]) > kClearly * (std::fabs(x[n]) + std::fabs(y[n])))
      return true;
  }
  return false;
}

// Whether two predictions, both in f32, are clearly different.
bool differ(const std::vector<CallOutcome>& a,
            const std::vector<CallOutcome>& b) {
  for (size_t n = 0; n < std::min(a.size(), b.size()); ++n)
    if (a[n].status != b[n].status || differs(a[n].o, b[n].o) ||
        differs(a[n].y, b[n].y))
      return true;
  return false;
}

// Whether q, k or v of a call has NaN or infinities. Kernels that have little
// else in common treat these alike.
bool has_no_numbers(Evidence& evidence, const JudgedKernel& kernel) {
  const auto is_finite = [](const std::vector<double>& values) {
    return std::all_of(values.begin(), values.end(),
                       [](double x) { return std::isfinite(x); });
  };
  if (evidence.judgement.kind != FailureKind::kLaw) return false;
  for (size_t n = 0; n < evidence.calls.size(); ++n) {
    const Inputs& inputs = evidence.work->whole_call(kernel, n).inputs;
    if (!is_finite(inputs.q) || !is_finite(inputs.k) || !is_finite(inputs.v))
      return true;
  }
  return false;
}

}  // namespace

Inquiry::Inquiry(const Failure& failure, const EvidencePool& pool,
                 const Catalogue& catalogue)
    : failure_(&failure),
      pool_(pool),
      catalogue_(&catalogue),
      began_(catalogue.cpu_seconds()),
      knows_faults_(!catalogue.about(failure.law->domain.subject).empty()),
      witness_(pool, kMostInquiryCalls),
      beyond_(pool, kMostCallsBeyond) {
  const Subject subject = failure.law->domain.subject;
  KernelKind kind(pool.kernel.judged,
                  /*is_recorded=*/pool.answered != nullptr);
  for (FaultSuspect* fault : catalogue.about(subject))
    if (kind.can_have(fault->fault().info, subject))
      standing_.push_back({fault});
}

void Inquiry::hear(std::unique_ptr<Evidence> evidence) {
  if (evidence == nullptr) return;
  ++probes_;
  const bool failed = evidence->failed();
  failing_ += failed;
  const std::optional<Bare> bare =
      failed ? bare_answer(*evidence, pool_.kernel.judged) : std::nullopt;
  if (failed && failing_ == 1) bare_ = bare;
  if (failed && bare != bare_) bare_.reset();
  const bool is_of_nan =
      failed && has_no_numbers(*evidence, pool_.kernel.judged);
  heard_.push_back({std::move(evidence), failed, bare.has_value(), is_of_nan});
}

bool Inquiry::stands(Standing& one, const Heard& heard) {
  const Word word = one.suspect->says(*heard.evidence, witness_);
  if (heard.failed && word == Word::kPredicted) ++one.predicted;
  if (heard.failed && word == Word::kPredicted && !heard.bare) {
    ++one.telling;
    one.of_numbers += !heard.is_of_nan;
    const std::vector<std::string>& laws = one.suspect->cause().laws;
    one.is_named |= std::find(laws.begin(), laws.end(),
                              heard.evidence->law->id) != laws.end();
  }
  if (heard.failed && word == Word::kSilent) ++one.silent;
  return word != Word::kContradicts;
}

size_t Inquiry::standing(size_t most) {
  const auto stands_against_all = [this](Standing& one) {
    while (one.heard < heard_.size())
      if (!stands(one, heard_[one.heard++])) return false;
    return true;
  };
  size_t count = 0;
  auto last = standing_.begin();  // past the remaining hypotheses
  auto one = standing_.begin();
  for (; one != standing_.end() && count < most; ++one)
    // Hypotheses that could not be run any more are dropped.
    if (!faults_are_too_slow() && stands_against_all(*one)) {
      if (last != one) *last = *one;
      ++last, ++count;
    }
  standing_.erase(last, one);
  return count;
}

void Inquiry::hear_told(const Case& story, Witness& witness) {
  const Case told = with_queries_behind_all(with_own_tokens(story));
  if (invalid_reason(told).empty())
    hear(witness.ask(agreement_about(Subject::kCache), told));
}

// If a law inserts tokens of NaN, the failure shows only as NaN, whichever
// tokens are left. The same commands on distinct finite tokens, read back after
// each command, tell two faults apart.
void Inquiry::look_at_commands_of_law() {
  const Law& law = *failure_->law;
  const Law& agreement = agreement_about(law.domain.subject);
  if (law.domain.subject != Subject::kCache || &law == &agreement) return;
  for (const Case* value : {&failure_->smallest, &failure_->found}) {
    if (standing(1) == 0) return;
    if (const auto story = with_commands_of_law(law, *value, witness_))
      hear_told(*story, witness_);
  }
}

void Inquiry::look_around() {
  const Law& law = *failure_->law;
  const Law& agreement = agreement_about(law.domain.subject);
  for (int n = 1; n <= kMostLooks; ++n) {
    const size_t left = standing(2);
    if (left == 0 && (!bare_ || probes_ >= kEnoughBare)) return;
    const bool alone = left == 1;
    if (failing_ >= kEnoughFailures && probes_ >= kEnoughProbes) return;
    if (alone && failing_ > kLeastFailing && probes_ >= kEnoughProbes) return;
    const Law& asked = n % 2 == 0 ? agreement : law;
    const Case& base = n % 4 < 2 ? failure_->smallest : failure_->found;
    hear(witness_.ask(asked, nearby_case(asked, base, n)));
    if (n % 2 == 0)
      hear(witness_.ask(asked,
                        planned_nearby(asked, base, pool_.kernel.judged, n)));
  }
}

// A cause is not sure until some case passes: this also runs the calls that are
// hardest to get wrong.
void Inquiry::look_for_a_pass() {
  const Law& agreement = agreement_about(failure_->law->domain.subject);
  if (standing(1) == 0 && !bare_) return;
  for (int n = 0; n < 2 && failing_ == probes_; ++n) {
    const Case near = simplest_nearby(agreement, failure_->smallest, n);
    if (!(near == failure_->smallest)) hear(witness_.ask(agreement, near));
  }
}

// Uses recorded answers only. The case of the failure is evidence already. A
// case that passes a law may still be wrong, which agreement shows; no case
// counts twice as a failure.
void Inquiry::look_at_answered() {
  const Law& agreement = agreement_about(failure_->law->domain.subject);
  for (const AnsweredCase& one : *pool_.answered) {
    if (standing(1) == 0 ||
        (failing_ >= kEnoughFailures && probes_ >= kEnoughProbes))
      return;
    if (one.law->domain.subject != failure_->law->domain.subject ||
        one.value == failure_->smallest)
      continue;
    const int failing = failing_;
    hear(witness_.ask(*one.law, one.value));
    if (failing_ == failing && one.law != &agreement)
      hear(witness_.ask(agreement, one.value));
  }
}

// A case with different predictions by the first two hypotheses.
std::unique_ptr<Evidence> Inquiry::telling_evidence(int n) {
  Suspect& first = *standing_[0].suspect;
  Suspect& second = *standing_[1].suspect;
  const std::vector<std::string>& laws =
      (n % 2 == 0 ? first : second).cause().laws;
  const Law* law =
      laws.empty() ? nullptr
                   : find_law(laws[static_cast<size_t>(n / 2) % laws.size()]);
  if (law == nullptr || law->domain.subject != failure_->law->domain.subject)
    return nullptr;
  auto prepared = witness_.prepare(
      *law, n % 3 == 0 ? nearby_case(*law, failure_->smallest, n)
                       : planned_nearby(*law, failure_->found,
                                        pool_.kernel.judged, n));
  if (prepared == nullptr) return nullptr;
  const auto a = first.predict(*prepared, witness_);
  const auto b = second.predict(*prepared, witness_);
  return differ(a, b) ? witness_.ask(std::move(prepared)) : nullptr;
}

void Inquiry::tell_apart() {
  for (int n = 0; n < kTellingLooks && standing_.size() > 1; ++n) {
    hear(telling_evidence(n));
    standing(standing_.size());
  }
}

// All evidence so far is near the failure, where another fault may look the
// same: shared pages that are not copied, and slots that all sequences share; a
// default scale of 0, and any scale of 0. So the only remaining known fault is
// tested on cases in which its own condition predicts a failure, and on cases
// in which it does not. Only cases for which it predicts an answer count,
// because silence here is no reason for doubt.
void Inquiry::look_beyond_the_failure() {
  Suspect& suspect = *standing_[0].suspect;
  const Law& agreement = agreement_about(failure_->law->domain.subject);
  const ParsedCondition when = parse_condition(suspect.when());
  if (!when.value || when.value->is_always()) return;
  int asked_where_it_fails = 0, asked_where_it_passes = 0;
  for (int n = 1; n <= kTellingLooks; ++n) {
    if (asked_where_it_fails + asked_where_it_passes == 2 * kOfItsOwn) return;
    auto prepared = beyond_.prepare(
        agreement, planned_nearby(agreement, failure_->found,
                                  pool_.kernel.judged, kMostLooks + n));
    if (prepared == nullptr) continue;
    const Case& value = prepared->value();
    const Plan plan = agreement.plan(value, pool_.kernel.judged.info);
    int& asked = when.value->holds_in_any(situations_of(value, plan))
                     ? asked_where_it_fails
                     : asked_where_it_passes;
    if (asked == kOfItsOwn || suspect.predict(*prepared, beyond_).empty())
      continue;
    ++asked;
    hear(beyond_.ask(std::move(prepared)));
    if (standing(1) == 0) return;
  }
}

// Two mistakes of tiles may agree up to the end of the first one.
void Inquiry::look_at_tiles() {
  constexpr int kMostAtTiles = 12;
  const Law& agreement = agreement_about(failure_->law->domain.subject);
  std::vector<int64_t> tiles =
      tiles_near(pool_.kernel.hints, failure_->smallest);
  for (const int64_t number : numbers_in(standing_[0].suspect->cause().cause))
    tiles.insert(tiles.begin(), number);
  Case like = failure_->smallest;
  like.set.clear();
  like.q = like.k = like.v = make_recipe(RecipeKind::kNormal);
  int asked = 0;
  for (const Case& value : at_tiles(agreement, like, tiles)) {
    if (asked == kMostAtTiles) return;
    if (work_of(value) > kMostWorkAtTiles) continue;
    ++asked;
    hear(beyond_.ask(agreement, value));
    if (standing(standing_.size()) == 0) return;
  }
}

// Pages of another size, and room reused by another sequence, give the same
// answers if all tokens fit into one page and no sequence is added. Failing
// stories with more tokens, and with another sequence that takes the free room,
// tell these faults apart.
void Inquiry::look_at_fuller_caches() {
  const Law& law = *failure_->law;
  if (law.domain.subject != Subject::kCache) return;
  for (const Case* value : {&failure_->smallest, &failure_->found}) {
    const auto story = with_commands_of_law(law, *value, beyond_);
    if (!story) continue;
    for (const auto& fuller : {std::optional(with_more_tokens(*story, 2)),
                               std::optional(with_more_tokens(*story, 5)),
                               with_a_newcomer(*story)}) {
      if (fuller) hear_told(*fuller, beyond_);
      if (standing(standing_.size()) == 0) return;
    }
  }
}

// Keeps hypotheses that nothing has contradicted and that predicted a failure,
// and of these only the best known kind. A hypothesis that predicted no failure
// is not tested on passing cases.
void Inquiry::keep_the_believable() {
  std::erase_if(standing_, [this](Standing& one) {
    const auto is_contradicted = [&](bool failed) {
      return !std::all_of(
          heard_.begin() + static_cast<std::ptrdiff_t>(one.heard), heard_.end(),
          [&](const Heard& heard) {
            return heard.failed != failed || stands(one, heard);
          });
    };
    if (faults_are_too_slow() || is_contradicted(/*failed=*/true) ||
        one.telling == 0 || (one.of_numbers == 0 && !one.is_named) ||
        one.silent > one.predicted || is_contradicted(/*failed=*/false))
      return true;
    one.heard = heard_.size();
    return false;
  });
  const auto rank = [](const Standing& one) { return one.suspect->rank(); };
  int best = 0;
  for (const Standing& one : standing_)
    best = &one == &standing_[0] ? rank(one) : std::min(best, rank(one));
  std::erase_if(standing_,
                [&](const Standing& one) { return rank(one) != best; });
  const auto place = [&](const Standing& one) {
    const std::vector<std::string>& laws = one.suspect->cause().laws;
    return std::find(laws.begin(), laws.end(), failure_->law->id) -
           laws.begin();
  };
  std::stable_sort(standing_.begin(), standing_.end(),
                   [&](const Standing& a, const Standing& b) {
                     return a.silent != b.silent ? a.silent < b.silent
                                                 : place(a) < place(b);
                   });
}

// "every dq is 0, for every input that was tried"
std::string Inquiry::seen_text(const Bare& bare) const {
  const std::string what =
      "every element of " + bare.output + " is " + bare.number;
  if (failing_ == probes_)
    return what + (probes_ == 1 ? "" : ", for every input that was tried");
  return what + ", for " + std::to_string(failing_) + " of " +
         std::to_string(probes_) + " inputs that were tried; the others pass";
}

Diagnosis Inquiry::conclusion() {
  Diagnosis diagnosis;
  diagnosis.failing = failing_;
  diagnosis.probes = probes_;
  for (const Standing& one : standing_) {
    if (diagnosis.causes.size() == kMostCauses) break;
    Suspect& suspect = *one.suspect;
    // The same fault, with tiles of another width.
    if (std::any_of(
            diagnosis.causes.begin(), diagnosis.causes.end(),
            [&](const Cause& cause) { return cause.name == suspect.name(); }))
      continue;
    diagnosis.causes.push_back(suspect.cause());
  }
  if (!standing_.empty()) {
    diagnosis.predicted = standing_[0].predicted;
    const bool sure =
        diagnosis.causes.size() == 1 &&
        !standing_[0].suspect->is_mere_bound() && standing_[0].silent == 0 &&
        failing_ < probes_ && standing_[0].telling >= kLeastFailing &&
        standing_[0].of_numbers > 0 && knows_faults_ && !is_too_slow();
    diagnosis.certainty = sure ? Certainty::kSure : Certainty::kLikely;
  } else if (bare_) {
    diagnosis.seen = seen_text(*bare_);
  }
  diagnosis.calls = witness_.calls_made() + beyond_.calls_made();
  if (is_too_slow())
    diagnosis.left_out = "the kernel's calls take too long for more probes";
  return diagnosis;
}

Diagnosis Inquiry::run() {
  const bool steady = failure_->repeats_failed == failure_->repeats;
  if (!steady || failure_->judgement.kind == FailureKind::kHang) {
    standing_.clear();
    return conclusion();
  }
  const Law& law = *failure_->law;
  const Law& agreement = agreement_about(law.domain.subject);
  own_ = parametric_suspects(failure_->smallest, witness_);
  for (const auto& suspect : own_) standing_.push_back({suspect.get()});
  hear(witness_.ask(law, failure_->smallest));
  if (pool_.answered != nullptr) {
    look_at_answered();
    keep_the_believable();
    return conclusion();
  }
  hear(witness_.ask(law, failure_->found));
  if (&law != &agreement) {
    hear(witness_.ask(agreement, failure_->smallest));
    hear(witness_.ask(agreement, failure_->found));
  }
  look_at_commands_of_law();
  look_around();
  look_for_a_pass();
  keep_the_believable();
  if (standing_.size() > 1 && standing_[0].suspect->rank() == 0) {
    tell_apart();
    keep_the_believable();
  }
  if (standing_.size() == 1 && standing_[0].suspect->rank() == 0)
    look_beyond_the_failure();
  if (!standing_.empty() && standing_[0].suspect->rank() == 0) {
    look_at_fuller_caches();
    if (!standing_.empty()) look_at_tiles();
  }
  return conclusion();
}

bool Inquiry::explains(const Failure& other) {
  if (standing_.empty()) return false;
  constexpr int kMostCalls = 100;  // two cases, which are small
  Witness witness(pool_, kMostCalls);
  bool predicted = false;
  for (const Law* law :
       {other.law, &agreement_about(other.law->domain.subject)}) {
    const auto evidence = witness.ask(*law, other.smallest);
    if (evidence == nullptr || !evidence->failed()) continue;
    const Word word = standing_[0].suspect->says(*evidence, witness);
    if (word == Word::kContradicts) return false;
    predicted |= word == Word::kPredicted;
  }
  return predicted;
}

}  // namespace qkvet::diagnosis

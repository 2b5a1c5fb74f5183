// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/diagnose.h"

#include <algorithm>
#include <map>
#include <optional>

#include "diagnosis/evidence/nearby.h"
#include "diagnosis/inquiry.h"
#include "diagnosis/stage/further_stage.h"
#include "diagnosis/where/setting.h"
#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

// Failures of one kernel that are investigated; the others stay unknown.
constexpr int kMostInquiries = 4;

// Seconds of CPU time in calls that a report may take after those for
// hypotheses. If each call hangs, the sentence and the description take most of
// it, and later steps get the rest.
constexpr double kMostSecondsOfReport = 6;

// The time that is left, in the unit of Witness: parts of a diagnosis.
class ReportTime {
 public:
  explicit ReportTime(const Executor& executor)
      : executor_(&executor), began_(executor.cpu_seconds()) {}

  double parts() const {
    constexpr double kLeast = 0.05;
    const double left =
        kMostSecondsOfReport - (executor_->cpu_seconds() - began_);
    return std::clamp(left / kMostSecondsOfPart, kLeast, 1.0);
  }

 private:
  const Executor* executor_;
  double began_;
};

// A kernel that fails nearly every time may do so because of unwritten memory.
// Its report is checked against fresh cases like any other. A replayed case was
// not repeated.
bool fails_mostly(const Failure& failure) {
  return failure.repeats_failed == failure.repeats ||
         2 * failure.repeats_failed > failure.repeats;
}

// Finds where the kernel fails, as a sentence or by neighbouring cases, and
// what it computes instead. A kernel with recorded answers cannot be called for
// the neighbours; one that hangs for seconds each time takes too long.
// `plainest`: the failure of the same cause with the most informative numbers.
void look_where(const Failure& failure, const Failure& plainest,
                const EvidencePool& pool, Diagnosis& diagnosis) {
  if (failure.judgement.kind == FailureKind::kHang &&
      (pool.answered != nullptr ||
       !pool.executor.expect_hangs(pool.kernel.index)))
    return;
  if (pool.answered != nullptr) {
    diagnosis.where = look_where_answers_fail(failure, pool);
    diagnosis.instead = look_what_it_is_instead(failure, diagnosis.where, pool);
    return;
  }
  const ReportTime report(pool.executor);
  // A failure that is not repeated every time may be steady in other cases.
  diagnosis.where = look_where_it_fails(failure, pool);
  if (fails_mostly(failure) || diagnosis.where.is_known()) {
    Instead& instead = diagnosis.instead;
    instead = look_what_it_is_instead(plainest, diagnosis.where, pool);
    if (instead.stage == Stage::kUnknown && !instead.depends_on_calls)
      instead.stage =
          look_further_for_stage(plainest, diagnosis.where, instead, pool,
                                 &instead.calls, report.parts());
  }
  Witness neighbours(pool, kMostHiddenCalls, report.parts());
  // A cause in earlier calls has this text already.
  diagnosis.hidden = diagnosis.earlier.decide() ? "" : diagnosis.earlier.text();
  const std::string near = hidden_among_neighbours(
      *failure.law, failure.smallest, neighbours, diagnosis.where.is_known());
  if (!diagnosis.hidden.empty() && !near.empty()) diagnosis.hidden += " ";
  diagnosis.hidden += near;
  diagnosis.calls += neighbours.calls_made();
}

// How uninformative a failure is: a number slightly outside its bound may be
// the difference of two wrong ones, and rows without a key allow few mistakes.
int weakness(const Failure& failure) {
  constexpr double kHardlyBeyond = 4;
  const auto& finding = failure.judgement.finding;
  if (failure.judgement.kind != FailureKind::kLaw || !finding) return 0;
  if (finding->expected.find("sees no key") != std::string::npos) return 2;
  return finding->ratio > 0 && finding->ratio < kHardlyBeyond ? 1 : 0;
}

// If the cause is known, the failure of the law that kills its fault most
// directly. Otherwise the first of the clearest failures, preferably one that
// fails every time: damaged memory makes some cases fail because of earlier
// cases.
const Failure* best_of(const Diagnosis& diagnosis,
                       const std::vector<const Failure*>& failures) {
  if (diagnosis.causes.empty()) {
    const auto order = [](const Failure* one) {
      return std::pair(one->repeats_failed != one->repeats, weakness(*one));
    };
    return *std::min_element(failures.begin(), failures.end(),
                             [&](const Failure* a, const Failure* b) {
                               return order(a) < order(b);
                             });
  }
  const std::vector<std::string>& laws = diagnosis.causes[0].laws;
  const auto place = [&](const Failure* failure) {
    return std::find(laws.begin(), laws.end(), failure->law->id) - laws.begin();
  };
  return *std::min_element(
      failures.begin(), failures.end(),
      [&](const Failure* a, const Failure* b) { return place(a) < place(b); });
}

// Stages of caches, layers and merges are derived from the definition of an
// unchanged case, and other laws change the call. For attention and its
// gradients any failure will do.
const Failure& plainest_of(const CauseOfFailures& cause) {
  const Subject subject = cause.best->law->domain.subject;
  if (subject == Subject::kAttention || subject == Subject::kBackward)
    return *cause.best;
  const Law& agreement = agreement_about(subject);
  for (const Failure* other : cause.others)
    if (other->law == &agreement && other->repeats_failed == other->repeats)
      return *other;
  return *cause.best;
}

// A known fault keeps state between calls if a law about earlier calls kills
// it. Failures that depend on earlier calls are no evidence for any other
// fault.
bool keeps_something(const Cause& cause) {
  return std::any_of(cause.laws.begin(), cause.laws.end(),
                     [](const std::string& law) {
                       return law.find("calls_before") != std::string::npos;
                     });
}

Cause cause_in_earlier_calls(const EarlierCalls& earlier) {
  return {
      "earlier_call",
      earlier.text(),
      "Key what is kept between calls (a plan, a compiled graph, scratch, a "
      "state) by all that the answer depends on, layout and options "
      "included, or make it anew in each call.",
      {}};
}

// Whether earlier calls decide failures of a kernel that is wrong by itself.
bool is_wrong_without_them(const Diagnosis& diagnosis) {
  return diagnosis.name() == "earlier_call" &&
         diagnosis.certainty == Certainty::kLikely;
}

CauseOfFailures cause_of(Diagnosis diagnosis,
                         const std::vector<const Failure*>& failures) {
  CauseOfFailures cause{std::move(diagnosis), nullptr, {}};
  cause.best = best_of(cause.diagnosis, failures);
  for (const Failure* failure : failures)
    if (failure != cause.best) cause.others.push_back(failure);
  return cause;
}

}  // namespace

Diagnosis diagnosis_of(EarlierCalls earlier) {
  Diagnosis diagnosis;
  diagnosis.causes = {cause_in_earlier_calls(earlier)};
  diagnosis.certainty = Certainty::kSure;
  // Run with the deciding calls and without them, twice.
  diagnosis.predicted = diagnosis.failing = 2;
  diagnosis.probes = diagnosis.failing + 2;
  diagnosis.earlier = std::move(earlier);
  return diagnosis;
}

namespace {

// Removes the failures that earlier calls decide; they have one cause, whatever
// the cases are. If calls are found that decide one, a steady failure that
// passes in a new process is removed as well. If none are found, all failures
// stay.
class FailuresOfEarlierCalls {
 public:
  explicit FailuresOfEarlierCalls(const EvidencePool& pool)
      : kernel_(pool.kernel), witness_(pool, kMostEarlierCalls) {}

  std::vector<const Failure*> take_from(std::vector<const Failure*>& failures) {
    std::vector<const Failure*> taken;
    for (const Failure* failure : failures) {
      EarlierCalls part = part_of_earlier_calls(*failure, witness_);
      if (part.part == EarlierCalls::Part::kUnknown) {
        if (found_.part != EarlierCalls::Part::kTheseOnes &&
            searches_ < kMostSearches)
          look_for_them(*failure, part);
        if (!part.decide()) pass_alone_.push_back(failure);
      }
      if (!part.decide()) continue;
      if (best_ == nullptr || part.part > found_.part) {
        best_ = failure;
        found_ = std::move(part);
      }
      taken.push_back(failure);
    }
    if (best_ != nullptr)
      std::copy_if(pass_alone_.begin(), pass_alone_.end(),
                   std::back_inserter(taken), [](const Failure* one) {
                     return one->repeats_failed == one->repeats;
                   });
    std::erase_if(failures, [&taken](const Failure* one) {
      return std::find(taken.begin(), taken.end(), one) != taken.end();
    });
    return taken;
  }
  const Failure* best() const { return best_; }
  // Whether it passes in a new process, and no calls were found that decide.
  bool passes_alone(const Failure& failure) const {
    return std::find(pass_alone_.begin(), pass_alone_.end(), &failure) !=
           pass_alone_.end();
  }
  const EarlierCalls& found() const { return found_; }
  // Whether the case of best() is right by itself on normal data. If not, the
  // kernel is wrong even without the earlier calls, though they decide what it
  // reads.
  bool is_right_without() {
    const Law& agreement = agreement_about(best_->law->domain.subject);
    const Setting normal(agreement, Setting::Data::kNormal, best_->smallest,
                         kernel_);
    const Case value = normal.dressed(best_->smallest);
    return !invalid_reason(value).empty() ||
           is_right_in_new_process(value, witness_);
  }

 private:
  static constexpr int kMostSearches = 3;

  void look_for_them(const Failure& failure, EarlierCalls& part) {
    ++searches_;
    part.before = find_earlier_calls(failure, kernel_, witness_);
    if (!part.before.empty()) part.part = EarlierCalls::Part::kTheseOnes;
  }

  const KernelUnderTest& kernel_;
  Witness witness_;
  const Failure* best_ = nullptr;
  EarlierCalls found_;
  std::vector<const Failure*> pass_alone_;
  int searches_ = 0;
};

// Whether two failures are reported in the same words: the same sentence, stage
// and description of wrong numbers, however many of these were examined.
bool are_told_alike(const Diagnosis& a, const Diagnosis& b) {
  const auto words = [](const Diagnosis& one) {
    std::vector<std::string> out = {
        one.where.hypothesis.formula(), one.instead.stage_sentence(),
        one.instead.end.text, one.instead.stored.text};
    for (const OutputInstead& output : one.instead.outputs)
      out.push_back(std::string(tensor_name(output.output)) + output.text);
    return out;
  };
  return a.where.is_known() && b.where.is_known() &&
         a.instead.is_description() && b.instead.is_description() &&
         words(a) == words(b);
}

// Failures reported in the same words become one report, under the failure of
// the surer cause.
void join_alike(std::vector<CauseOfFailures>& causes) {
  for (size_t i = 0; i < causes.size(); ++i)
    for (size_t j = causes.size(); --j > i;) {
      if (!are_told_alike(causes[i].diagnosis, causes[j].diagnosis)) continue;
      CauseOfFailures other = std::move(causes[j]);
      causes.erase(causes.begin() + static_cast<ptrdiff_t>(j));
      CauseOfFailures& kept = causes[i];
      if (other.diagnosis.certainty > kept.diagnosis.certainty)
        std::swap(kept, other);
      kept.others.push_back(other.best);
      kept.others.insert(kept.others.end(), other.others.begin(),
                         other.others.end());
    }
}

// The failures that earlier calls decide, removed from `left`; nullopt if there
// are none. If a known fault that keeps state predicts them, it is the cause,
// also of other failures that it predicts.
std::optional<CauseOfFailures> cause_of_earlier_calls(
    FailuresOfEarlierCalls& earlier, const EvidencePool& pool,
    const Catalogue& catalogue, std::vector<const Failure*>& left) {
  std::vector<const Failure*> taken = earlier.take_from(left);
  if (taken.empty()) return std::nullopt;
  Inquiry inquiry(*earlier.best(), pool, catalogue);
  Diagnosis diagnosis = inquiry.run();
  if (!diagnosis.causes.empty() && keeps_something(diagnosis.causes[0])) {
    diagnosis.earlier = earlier.found();
    diagnosis.hidden = diagnosis.earlier.text();
    std::erase_if(left, [&](const Failure* other) {
      const bool same = inquiry.explains(*other);
      if (same) taken.push_back(other);
      return same;
    });
  } else {
    diagnosis = diagnosis_of(earlier.found());
    if (!earlier.is_right_without()) diagnosis.certainty = Certainty::kLikely;
  }
  CauseOfFailures cause{std::move(diagnosis), earlier.best(), {}};
  for (const Failure* failure : taken)
    if (failure != cause.best) cause.others.push_back(failure);
  return cause;
}

}  // namespace

std::vector<CauseOfFailures> diagnose_all(
    const std::vector<const Failure*>& failures, const KernelUnderTest& kernel,
    Executor& executor, const Catalogue& catalogue, TimeUse& time,
    const Answered* answered) {
  std::vector<CauseOfFailures> causes;
  std::vector<const Failure*> left = failures, unknown;
  const EvidencePool pool{kernel, executor, time, answered};
  FailuresOfEarlierCalls earlier(pool);
  if (answered == nullptr)
    if (auto cause = cause_of_earlier_calls(earlier, pool, catalogue, left))
      causes.push_back(std::move(*cause));
  std::map<const Failure*, Diagnosis> open;  // of those that are unknown
  for (int n = 0; n < kMostInquiries && !left.empty(); ++n) {
    const Failure* const failure = left.front();
    left.erase(left.begin());
    Inquiry inquiry(*failure, pool, catalogue);
    Diagnosis diagnosis = inquiry.run();
    if (diagnosis.causes.empty()) {
      open[failure] = std::move(diagnosis);
      unknown.push_back(failure);
      continue;
    }
    std::vector<const Failure*> explained = {failure};
    for (std::vector<const Failure*>* others : {&unknown, &left})
      std::erase_if(*others, [&](const Failure* other) {
        const bool same = inquiry.explains(*other);
        if (same) explained.push_back(other);
        return same;
      });
    causes.push_back(cause_of(std::move(diagnosis), explained));
  }
  unknown.insert(unknown.end(), left.begin(), left.end());
  if (!unknown.empty()) causes.push_back(cause_of(open[unknown[0]], unknown));
  for (CauseOfFailures& cause : causes) {
    const bool do_decide = cause.diagnosis.earlier.decide();
    if (do_decide && !is_wrong_without_them(cause.diagnosis)) continue;
    if (!do_decide && earlier.passes_alone(*cause.best))
      cause.diagnosis.earlier.part = EarlierCalls::Part::kUnknown;
    look_where(*cause.best, plainest_of(cause), pool, cause.diagnosis);
  }
  join_alike(causes);
  return causes;
}

Diagnosis diagnose(const Failure& failure, const KernelUnderTest& kernel,
                   Executor& executor, const Catalogue& catalogue,
                   TimeUse& time, const Answered* answered) {
  return diagnose_all({&failure}, kernel, executor, catalogue, time,
                      answered)[0]
      .diagnosis;
}

}  // namespace qkvet::diagnosis

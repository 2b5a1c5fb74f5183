// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/diagnose.h"

#include <algorithm>
#include <map>

#include "diagnosis/evidence/nearby.h"
#include "diagnosis/inquiry.h"
#include "diagnosis/stage/further_stage.h"
#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

// Failures that one kernel is asked about; what is left is unknown.
constexpr int kMostInquiries = 4;

// Seconds of CPU time in calls that a report may take, behind those for
// hypotheses: where each call hangs, the sentence and the description take most
// of it, and what follows has the rest.
constexpr double kMostSecondsOfReport = 6;

// What is left of it, in parts of a diagnosis as a witness counts them.
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

// What a kernel keeps from one call to the next fails cases that are right.
std::string said_of_earlier_calls(const Failure& failure,
                                  const KernelUnderTest& kernel,
                                  Executor& executor, TimeUse& time,
                                  double parts) {
  Witness witness(kernel.judged, kernel.index, executor, time, kMostHiddenCalls,
                  parts);
  auto evidence = witness.prepare(*failure.law, failure.smallest);
  if (evidence == nullptr || evidence->calls[0].new_process) return "";
  evidence->calls[0].new_process = true;
  evidence = witness.ask(std::move(evidence));
  return evidence == nullptr || evidence->failed()
             ? ""
             : "The case alone passes, in a new process: it fails for what the "
               "calls before it left. ";
}

// What fails nearly every time may do so for memory that nobody wrote. What is
// said of it is held against fresh cases, as all is. A case that is replayed
// was not repeated.
bool fails_mostly(const Failure& failure) {
  return failure.repeats_failed == failure.repeats ||
         2 * failure.repeats_failed > failure.repeats;
}

// Where it fails, in a sentence or by its neighbours, and what it answers. A
// kernel whose answers were recorded cannot be asked for those; one that hangs
// for seconds each time takes too long.
// `plainest`: of the same cause, the one whose numbers say what they should be.
void look_where(const Failure& failure, const Failure& plainest,
                const KernelUnderTest& kernel, Executor& executor,
                TimeUse& time, const Answered* answered, Diagnosis& diagnosis) {
  if (failure.judgement.kind == FailureKind::kHang &&
      (answered != nullptr || !executor.expect_hangs(kernel.index)))
    return;
  if (answered != nullptr) {
    diagnosis.where =
        look_where_answers_fail(failure, kernel, executor, *answered, time);
    diagnosis.instead = look_what_it_is_instead(
        failure, diagnosis.where, kernel, executor, time, answered);
    return;
  }
  const ReportTime report(executor);
  // What does not fail every time may do so in other cases.
  diagnosis.where = look_where_it_fails(failure, kernel, executor, time);
  if (fails_mostly(failure) || diagnosis.where.is_known()) {
    Instead& instead = diagnosis.instead;
    instead = look_what_it_is_instead(plainest, diagnosis.where, kernel,
                                      executor, time);
    if (instead.stage == Stage::kUnknown)
      instead.stage = look_further_for_stage(plainest, diagnosis.where, instead,
                                             kernel, executor, time,
                                             &instead.calls, report.parts());
  }
  diagnosis.hidden =
      said_of_earlier_calls(failure, kernel, executor, time, report.parts());
  Witness neighbours(kernel.judged, kernel.index, executor, time,
                     kMostHiddenCalls, report.parts());
  diagnosis.hidden += hidden_among_neighbours(
      *failure.law, failure.smallest, neighbours, diagnosis.where.is_known());
  diagnosis.calls += neighbours.calls_made();
}

// The failure whose law says most about a cause that several have; of none that
// is known the first that fails every time: what damages memory fails some
// cases for what those before them did to it.
const Failure* best_of(const Diagnosis& diagnosis,
                       const std::vector<const Failure*>& failures) {
  if (diagnosis.causes.empty()) {
    const auto steady = std::find_if(
        failures.begin(), failures.end(),
        [](const Failure* one) { return one->repeats_failed == one->repeats; });
    return steady == failures.end() ? failures[0] : *steady;
  }
  const std::vector<std::string>& laws = diagnosis.causes[0].laws;
  const auto place = [&](const Failure* failure) {
    return std::find(laws.begin(), laws.end(), failure->law->id) - laws.begin();
  };
  return *std::min_element(
      failures.begin(), failures.end(),
      [&](const Failure* a, const Failure* b) { return place(a) < place(b); });
}

// Stages of caches, layers and merges are read off what the definition says of
// a case as it stands: other laws change what a call is given. Attention and
// its gradients have as much to go by in any failure.
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

CauseOfFailures cause_of(Diagnosis diagnosis,
                         const std::vector<const Failure*>& failures) {
  CauseOfFailures cause{std::move(diagnosis), nullptr, {}};
  cause.best = best_of(cause.diagnosis, failures);
  for (const Failure* failure : failures)
    if (failure != cause.best) cause.others.push_back(failure);
  return cause;
}

}  // namespace

Diagnosis diagnose(const Failure& failure, const KernelUnderTest& kernel,
                   Executor& executor, const Catalogue& catalogue,
                   TimeUse& time, const Answered* answered) {
  Diagnosis diagnosis =
      Inquiry(failure, kernel, executor, catalogue, time, answered).run();
  look_where(failure, failure, kernel, executor, time, answered, diagnosis);
  return diagnosis;
}

std::vector<CauseOfFailures> diagnose_all(
    const std::vector<const Failure*>& failures, const KernelUnderTest& kernel,
    Executor& executor, const Catalogue& catalogue, TimeUse& time,
    const Answered* answered) {
  std::vector<CauseOfFailures> causes;
  std::vector<const Failure*> left = failures, unknown;
  std::map<const Failure*, Diagnosis> open;  // of those that are unknown
  for (int n = 0; n < kMostInquiries && !left.empty(); ++n) {
    const Failure* const failure = left.front();
    left.erase(left.begin());
    Inquiry inquiry(*failure, kernel, executor, catalogue, time, answered);
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
  for (CauseOfFailures& cause : causes)
    look_where(*cause.best, plainest_of(cause), kernel, executor, time,
               answered, cause.diagnosis);
  return causes;
}

}  // namespace qkvet::diagnosis

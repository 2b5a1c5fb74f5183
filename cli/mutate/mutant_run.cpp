// SPDX-License-Identifier: Apache-2.0
#include "cli/mutate/mutant_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "cli/mutate/answer_difference.h"
#include "cli/terminal/select.h"
#include "core/sandbox/wire.h"
#include "properties/cases/generate.h"
#include "properties/run/shrink.h"

namespace qkvet::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Cases per first batch to a worker: most mutants die in it.
constexpr int64_t kFirstChunk = 4;
constexpr int64_t kLargestChunk = 16;

// "lse_base: QKVET_LSE_NATURAL": the results of the probes.
std::string assumed_text(const JudgedKernel& kernel) {
  std::string text;
  for (const Assumption& one : kernel.assumed)
    text += (text.empty() ? "" : ", ") + one.field + " " + one.constant;
  return text.empty() ? "nothing" : text;
}

const char* how_of(FailureKind kind) {
  return kind == FailureKind::kHang    ? "timeout"
         : kind == FailureKind::kCrash ? "crash"
                                       : "wrong";
}

class BatchRun {
 public:
  BatchRun(OpenedLibrary& original, std::vector<Contestant>& mutants,
           const MutantLimits& limits)
      : original_(original), limits_(limits) {
    for (const Contestant& one : mutants) lanes_.push_back({one});
  }

  bool run() {
    const std::vector<KernelUnderTest>& kernels =
        lanes_[0].mutant.library->selected.kernels;
    for (size_t kernel = 0; kernel < kernels.size(); ++kernel) {
      begin_kernel(kernel);
      for (const Subject subject :
           {Subject::kAttention, Subject::kBackward, Subject::kCache,
            Subject::kLayer, Subject::kLayerBackward, Subject::kMerge})
        if (!run_subject(kernels[kernel], subject)) return false;
    }
    for (Lane& lane : lanes_) settle(lane);
    return true;
  }

 private:
  struct Lane {
    Contestant mutant;
    bool alive = true;
    bool comparable = true;  // this kernel's calls are the original's
    double seconds = 0;
    double kernel_seconds = 0, original_seconds = 0;
    Survival seen = {};
  };
  // The calls of some cases to one kernel, and their outcomes.
  struct Asked {
    std::vector<std::pair<size_t, size_t>> slices;  // per case: first, count
    std::vector<CallOutcome> outcomes;
    std::vector<Dtype> o, q, kv;  // of each call
  };

  const JudgedKernel* judged_of(const OpenedLibrary& library) const {
    const auto& kernels = library.selected.kernels;
    return kernel_ < kernels.size() ? &kernels[kernel_].judged : nullptr;
  }

  void begin_kernel(size_t kernel) {
    kernel_ = kernel;
    for (Lane& lane : lanes_) {
      const OpenedLibrary& library = *lane.mutant.library;
      const JudgedKernel* own = judged_of(library);
      const JudgedKernel* first = judged_of(original_);
      if (library.declared != original_.declared) {
        lane.seen.declares = "something else";
        lane.comparable = false;
      } else if (own != nullptr && first != nullptr &&
                 assumed_text(*own) != assumed_text(*first)) {
        lane.seen.assumes = assumed_text(*own) +
                            " (the original: " + assumed_text(*first) + ")";
        lane.comparable = false;
      }
    }
  }

  // The plan of `check` for this kernel only. False if it was stopped.
  bool run_subject(const KernelUnderTest& kernel, Subject subject) {
    if (!has_subject(kernel.judged.info, subject)) return true;
    scope_ = limits_.scope;
    scope_.dtypes = declared_dtypes({kernel});
    keep_scope_to({kernel}, scope_);
    laws_.clear();
    for (const Law* law : limits_.laws)
      if (law->domain.subject == subject &&
          undeclared_need(*law, scope_).empty())
        laws_.push_back(law);
    if (laws_.empty()) return true;
    int64_t chunk = kFirstChunk;
    begin_part(kernel.judged.info);
    for (int64_t first = 1; first <= limits_.cases;) {
      if (limits_.stop && limits_.stop()) return false;
      const int64_t last = std::min(limits_.cases, first + chunk - 1);
      if (!run_chunk(first, last)) break;
      first = last + 1;
      chunk = std::min(2 * chunk, kLargestChunk);
    }
    return true;
  }

  // Every law gets the same share of a budget.
  void begin_part(const KernelInfo& kernel) {
    shared_seconds_ = 0;
    for (Lane& lane : lanes_) lane.seconds = 0;
    if (!limits_.budget) return;
    const auto all = std::count_if(
        limits_.laws.begin(), limits_.laws.end(), [&](const Law* law) {
          return has_subject(kernel, law->domain.subject);
        });
    const auto own = std::count_if(
        limits_.laws.begin(), limits_.laws.end(), [&](const Law* law) {
          return law->domain.subject == laws_[0]->domain.subject;
        });
    budget_ = *limits_.budget * static_cast<double>(own) /
              static_cast<double>(std::max<int64_t>(1, all));
  }

  // False if no remaining mutant has time left.
  bool run_chunk(int64_t first, int64_t last) {
    const auto goes_on = [&](const Lane& lane) {
      return lane.alive &&
             (!budget_ || lane.seconds + shared_seconds_ < *budget_);
    };
    if (std::none_of(lanes_.begin(), lanes_.end(), goes_on)) return false;
    const Clock::time_point start = Clock::now();
    std::vector<std::unique_ptr<CaseWork>> works;
    for (int64_t number = first; number <= last; ++number) {
      const Law& law = *laws_[static_cast<size_t>(number - 1) % laws_.size()];
      Case value = planned_case(law, limits_.seed, number, scope_);
      works.push_back(keeps_pins(scope_, value)
                          ? std::make_unique<CaseWork>(law, std::move(value),
                                                       /*with_twin=*/false,
                                                       time_)
                          : nullptr);
    }
    Asked truth;
    if (std::any_of(lanes_.begin(), lanes_.end(), [&](const Lane& lane) {
          return goes_on(lane) && lane.comparable;
        }))
      truth = ask(works, original_);
    shared_seconds_ += seconds_since(start);
    for (Lane& lane : lanes_)
      if (goes_on(lane)) run_lane(lane, first, works, truth);
    return true;
  }

  Asked ask(std::vector<std::unique_ptr<CaseWork>>& works,
            OpenedLibrary& library) {
    const JudgedKernel& judged = *judged_of(library);
    Asked asked;
    asked.slices.resize(works.size());
    std::vector<KernelCall> calls;
    for (size_t i = 0; i < works.size(); ++i) {
      if (works[i] == nullptr || works[i]->settled(judged)) continue;
      const auto more = works[i]->calls_for(judged);
      asked.slices[i] = {calls.size(), more.size()};
      calls.insert(calls.end(), more.begin(), more.end());
    }
    for (const KernelCall& call : calls) {
      asked.o.push_back(call.o_dtype);
      asked.q.push_back(call.q_dtype);
      asked.kv.push_back(call.kv_dtype);
    }
    const int index = library.selected.kernels[kernel_].index;
    if (!calls.empty()) asked.outcomes = library.executor->run(index, calls);
    return asked;
  }

  void run_lane(Lane& lane, int64_t first,
                std::vector<std::unique_ptr<CaseWork>>& works,
                const Asked& truth) {
    const Clock::time_point start = Clock::now();
    const Asked own = ask(works, *lane.mutant.library);
    for (size_t i = 0; i < works.size() && lane.alive; ++i)
      if (own.slices[i].second > 0)
        judge_case(lane, first + static_cast<int64_t>(i), *works[i], i, own,
                   truth);
    lane.seconds += seconds_since(start);
    lane.mutant.record->seconds += seconds_since(start);
    if (!lane.alive && limits_.killed) limits_.killed(*lane.mutant.record);
  }

  void judge_case(Lane& lane, int64_t number, CaseWork& work, size_t i,
                  const Asked& own, const Asked& truth) {
    const JudgedKernel& judged = *judged_of(*lane.mutant.library);
    const auto [from, count] = own.slices[i];
    const std::span outcomes = std::span(own.outcomes).subspan(from, count);
    const Judgement judgement = work.judge(judged, outcomes);
    if (judgement.verdict == Verdict::kFailed) {
      kill(lane, number, work, judgement);
      return;
    }
    lane.seen.cases +=
        judgement.verdict == Verdict::kPassed && judgement.compared > 0;
    lane.seen.worst_error =
        std::max(lane.seen.worst_error, judgement.worst_ratio);
    if (!lane.comparable || truth.slices[i].second != count) return;
    for (size_t n = 0; n < count; ++n)
      compare_call(lane, work, n, own.outcomes[from + n],
                   truth.outcomes[truth.slices[i].first + n],
                   {own.o[from + n], own.q[from + n], own.kv[from + n]});
  }

  void compare_call(Lane& lane, CaseWork& work, size_t n,
                    const CallOutcome& own, const CallOutcome& right,
                    const CallTypes& types) {
    if (right.status != CallStatus::kDone) return;
    Survival& seen = lane.seen;
    ++seen.calls;
    if (own.status != CallStatus::kDone) {
      ++seen.refused;
      return;
    }
    lane.kernel_seconds += own.seconds;
    lane.original_seconds += right.seconds;
    if (same_bits(own, right)) return;
    ++seen.differ;
    const JudgedKernel& judged = *judged_of(original_);
    const AnswerDifference difference =
        difference_of(own, right, work.bounds(judged, n, judged.model), types);
    if (difference.bounds <= seen.most_bound) return;
    seen.most_bound = difference.bounds;
    seen.most_ulps = difference.ulps;
  }

  void kill(Lane& lane, int64_t number, CaseWork& work,
            const Judgement& judgement) {
    MutantRecord& record = *lane.mutant.record;
    const Law& planned = *laws_[static_cast<size_t>(number - 1) % laws_.size()];
    record.fate = MutantFate::kKilled;
    record.how = how_of(judgement.kind);
    record.law = failed_law(planned, judgement).id;
    record.number = number;
    record.text = to_string(work.value());
    lane.alive = false;
  }

  static void settle(Lane& lane) {
    if (!lane.alive) return;
    MutantRecord& record = *lane.mutant.record;
    if (lane.original_seconds > 0)
      lane.seen.time_ratio = lane.kernel_seconds / lane.original_seconds;
    record.survival = lane.seen;
    // `check` would not call such a kernel conforming.
    record.fate =
        lane.seen.cases > 0 ? MutantFate::kSurvived : MutantFate::kKilled;
    if (record.fate == MutantFate::kSurvived) return;
    record.how = "no verdict";
    record.text = "it answers no call that a law could judge";
  }

  OpenedLibrary& original_;
  const MutantLimits& limits_;
  std::vector<Lane> lanes_;
  size_t kernel_ = 0;
  Scope scope_;
  std::vector<const Law*> laws_;
  TimeUse time_;
  std::optional<double> budget_;  // seconds a mutant, for the laws of a subject
  double shared_seconds_ = 0;     // of these, the shared part
};

}  // namespace

OpenedLibrary open_built(const std::string& library,
                         const KernelSelection& words) {
  OpenedLibrary opened;
  KernelSelection selection;
  selection.plugins = {library};
  selection.dialect = words.dialect;
  selection.precision = words.precision;
  opened.selected = select_kernels(selection);
  opened.error = opened.selected.error;
  // By name only: a glob would match kernels of this program, too.
  if (!words.kernels.empty())
    std::erase_if(opened.selected.kernels, [&](const KernelUnderTest& kernel) {
      return std::find(words.kernels.begin(), words.kernels.end(),
                       kernel.judged.info.name) == words.kernels.end();
    });
  if (opened.error.empty()) {
    Opened door = executor_factory(opened.selected, /*in_process=*/false)(0);
    opened.executor = std::move(door.executor);
    opened.error = door.error;
  }
  if (opened.executor != nullptr)
    opened.declared = pack_kernels(opened.executor->kernels());
  // The library's name would not help the user.
  const std::string lead = library + ": ";
  if (opened.error.starts_with(lead))
    opened.error = opened.error.substr(lead.size());
  return opened;
}

bool judge_mutants(OpenedLibrary& original, std::vector<Contestant> mutants,
                   const MutantLimits& limits) {
  std::vector<Contestant> alike;
  for (const Contestant& one : mutants) {
    if (one.library->declared == original.declared) {
      alike.push_back(one);
      continue;
    }
    std::vector<Contestant> alone = {one};
    if (!BatchRun(original, alone, limits).run()) return false;
  }
  return alike.empty() || BatchRun(original, alike, limits).run();
}

}  // namespace qkvet::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/hunt/fault_hunt.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "properties/cases/generate.h"
#include "properties/conditions/condition.h"
#include "properties/judging/subject.h"
#include "properties/run/shrink.h"

namespace qkvet::cli {
namespace {

// A fault that has hung this often is not run any further.
constexpr int kMostHangs = 2;

// One fault, from its first case to its last.
class FaultRun {
 public:
  FaultRun(const KernelUnderTest& fault, Condition when, Executor& executor,
           const HuntOptions& options)
      : fault_(fault),
        when_(std::move(when)),
        executor_(executor),
        options_(options) {
    result_.name = fault.judged.info.name;
    result_.when = fault.judged.info.fault->when;
    for (const Law* law : options.laws) add(*law);
  }

  HuntedFault run() {
    for (const SubjectRow& row : all_subjects()) run_subject(row.subject);
    result_.seconds = time_.total();
    return std::move(result_);
  }

 private:
  void add(const Law& law) {
    const KernelInfo& info = fault_.judged.info;
    const auto& ids = info.fault->killed_by;
    const bool named = std::find(ids.begin(), ids.end(), law.id) != ids.end();
    const bool asked = has_subject(info, law.domain.subject);
    // Laws with cases of thousands of calls run only for faults that name them.
    if (!named && (options_.named || !asked || law.domain.lasts)) return;
    FaultPair& pair = result_.pairs.emplace_back();
    pair.law = &law;
    pair.named = named;
    if (!asked) pair.undeclared = missing_subject(law.domain.subject);
  }

  // The plan of `check` for this kernel only: its laws take turns.
  void run_subject(Subject subject) {
    if (!has_subject(fault_.judged.info, subject)) return;
    Scope scope;
    scope.dtypes = declared_dtypes({fault_});
    keep_scope_to({fault_}, scope);
    keep_to_fault(*fault_.judged.info.fault, scope);
    std::vector<FaultPair*> asked;
    for (FaultPair& pair : result_.pairs) {
      if (pair.law->domain.subject != subject) continue;
      pair.undeclared = undeclared_need(*pair.law, scope);
      if (pair.undeclared.empty()) asked.push_back(&pair);
    }
    const auto laws = static_cast<int64_t>(asked.size());
    const double began = time_.total();
    for (int64_t round = 0; laws > 0; ++round) {
      const bool all_dead =
          std::all_of(asked.begin(), asked.end(),
                      [](const FaultPair* pair) { return pair->kill; });
      const bool over = options_.budget
                            ? time_.total() - began >= *options_.budget
                            : round >= options_.cases;
      if (over || (all_dead && !options_.every_case)) break;
      for (int64_t n = 0; n < laws && hangs_ < kMostHangs; ++n)
        try_case(*asked[static_cast<size_t>(n)], round * laws + n + 1, scope);
    }
  }

  void try_case(FaultPair& pair, int64_t number, const Scope& scope) {
    if (pair.kill && !options_.every_case) return;
    const Law& law = *pair.law;
    ++result_.cases;
    Case value;
    {
      const Stopwatch watch(time_.generate);
      value = planned_case(law, options_.seed, number, scope);
    }
    CaseWork work(law, value, /*with_twin=*/false, time_);
    if (work.settled(fault_.judged)) return;
    const std::vector<KernelCall> calls = work.calls_for(fault_.judged);
    std::vector<CallOutcome> outcomes;
    {
      const Stopwatch watch(time_.kernel);
      outcomes = executor_.run(fault_.index, calls);
    }
    const Judgement judgement = work.judge(fault_.judged, outcomes);
    const bool failed = judgement.verdict == Verdict::kFailed;
    hangs_ += judgement.kind == FailureKind::kHang;
    if (!pair.kill) pair.checked += failed || judgement.compared > 0;
    if (!failed && (result_.triggered || judgement.compared == 0)) return;
    const bool inside = when_.holds_in_any(
        situations_of(value, law.plan(value, fault_.judged.info)));
    result_.triggered |= inside;
    if (failed)
      record(owner_of(pair, judgement), {number, to_string(value)}, inside);
  }

  // A touch outside of a tensor is a failure of the memory law, if that law is
  // among the laws asked.
  FaultPair& owner_of(FaultPair& planned, const Judgement& judgement) {
    const Law* law = &failed_law(*planned.law, judgement);
    for (FaultPair& pair : result_.pairs)
      if (pair.law == law) return pair;
    return planned;
  }

  void record(FaultPair& pair, Kill kill, bool inside) {
    if (!inside && ++pair.outsides == 1) pair.outside = kill;
    if (pair.kill) return;
    pair.kill = std::move(kill);
    pair.seconds = time_.total();
  }

  const KernelUnderTest& fault_;
  const Condition when_;
  Executor& executor_;
  const HuntOptions& options_;
  HuntedFault result_;
  TimeUse time_;
  int hangs_ = 0;
};

// "" or an error in the declarations of the faults.
std::string read_faults(const std::vector<KernelUnderTest>& faults,
                        std::vector<Condition>* conditions) {
  for (const KernelUnderTest& fault : faults) {
    const KernelInfo& info = fault.judged.info;
    if (!info.fault)
      return info.name +
             ": declares no fault; allowed are kernels that do (`qkvet explain "
             "faults`)";
    for (const std::string& id : info.fault->killed_by)
      if (find_law(id) == nullptr)
        return info.name + ": says that \"" + id +
               "\" kills it, which is no law; `qkvet explain laws` shows all";
    std::string error;
    parse_pins(info.fault->extents, &error);
    if (!info.fault->extents.empty() && !error.empty())
      return info.name + ": extents: " + error;
    ParsedCondition parsed = parse_condition(info.fault->when);
    if (!parsed.value) return info.name + ": " + parsed.error;
    conditions->push_back(std::move(*parsed.value));
  }
  return "";
}

}  // namespace

void keep_to_fault(const FaultInfo& fault, Scope& scope) {
  if (fault.extents.empty()) return;
  std::string error;
  scope.pins = parse_pins(fault.extents, &error);
  scope.largest = SizeClass::kSmall;  // except for pinned extents
}

Hunt hunt_faults(const std::vector<KernelUnderTest>& faults,
                 const ExecutorFactory& open, const HuntOptions& options) {
  Hunt hunt;
  std::vector<Condition> conditions;
  hunt.error = read_faults(faults, &conditions);
  if (!hunt.error.empty()) return hunt;
  hunt.faults.resize(faults.size());
  const auto start = std::chrono::steady_clock::now();
  std::atomic<size_t> next{0};
  std::mutex mutex;
  size_t done = 0;
  const auto work = [&] {
    std::vector<std::unique_ptr<Executor>> executors;
    for (size_t i = next++; i < faults.size(); i = next++) {
      const size_t library = faults[i].library;
      executors.resize(std::max(executors.size(), library + 1));
      if (executors[library] == nullptr) {
        Opened opened = open(library);
        executors[library] = std::move(opened.executor);
        const std::lock_guard<std::mutex> lock(mutex);
        if (executors[library] == nullptr) {
          hunt.error = opened.error;
          return;
        }
      }
      hunt.faults[i] =
          FaultRun(faults[i], conditions[i], *executors[library], options)
              .run();
      const std::lock_guard<std::mutex> lock(mutex);
      if (options.progress) options.progress(++done, faults.size());
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < options.jobs; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  hunt.wall_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return hunt;
}

}  // namespace qkvet::cli

// SPDX-License-Identifier: Apache-2.0
#include "properties/run/runner.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <iterator>
#include <mutex>
#include <numeric>
#include <thread>

#include "properties/cases/data_cases.h"
#include "properties/cases/generate.h"
#include "properties/cases/option_use.h"
#include "properties/cases/pair_cases.h"
#include "properties/cases/pair_coverage.h"
#include "properties/cases/wide_cases.h"
#include "properties/conventions/domain.h"
#include "properties/judging/subject.h"
#include "properties/judging/visibility.h"
#include "properties/run/added_cases.h"
#include "properties/run/failure.h"
#include "properties/run/own_plan.h"
#include "properties/run/shrink.h"
#include "properties/run/tally.h"

namespace qkvet::properties {
namespace {

using Clock = std::chrono::steady_clock;

// Cases per law in one round. Between rounds all threads meet: failed kernels
// are not run again, and the time budget is checked.
constexpr int64_t kRoundPerLaw = 64;
// If the first failure ends the run, the first round is small, and each later
// one has twice the cases of the one before: most wrong kernels fail early.
constexpr int64_t kFirstRoundPerLaw = 4;
// One case in seven costs more than this (cost_of). These take most of a
// round's time: nine tenths of it on a CPU. If the first failure ends the run,
// they are run after the others, and not at all if one of those fails.
constexpr int64_t kDear = int64_t{1} << 17;
// Cases with calls that go to a worker in one batch: a law makes one to three
// calls, a batch holds 32.
constexpr int64_t kChunk = 16;
// The twin is computed for one case in this many.
constexpr int64_t kTwinEvery = 16;
// The shares of a plan's cases, and of their cost, that are added to it.
constexpr int64_t kShareOfWide = 32, kShareOfPairs = 8, kShareOfTriples = 32;
// A kernel that has hung this often is not run any further. The same holds for
// one that has died or returned an error this often before it gave its first
// answer, or hung once.
constexpr int kMostHangs = 2;
constexpr int kMostDeaths = 3;
// Before that, and for at most this many cases, they are run one by one.
constexpr int64_t kMostAskedAlone = 64;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Some small cases; each is run once for every law that fails.
void add_like(const Case& value, std::vector<Case>& like) {
  constexpr size_t kMostLike = 8;
  if (like.size() < kMostLike &&
      std::find(like.begin(), like.end(), value) == like.end())
    like.push_back(value);
}

// Whether every call ended with an error.
bool returned_errors(std::span<const CallOutcome> outcomes) {
  return std::all_of(outcomes.begin(), outcomes.end(),
                     [](const CallOutcome& one) {
                       return one.status == CallStatus::kRefused;
                     });
}

class Runner : public SubjectRun {
 public:
  Runner(const std::vector<KernelUnderTest>& kernels,
         const ExecutorFactory& open, const RunOptions& options)
      : kernels_(kernels),
        open_(open),
        options_(options),
        per_law_(options.fail_fast ? kFirstRoundPerLaw : kRoundPerLaw),
        total_(kernels.size() * options.laws.size()),
        failures_(total_.size()),
        strays_(total_.size()),
        stopped_(total_.size()),
        has_failed_(kernels.size() * options.laws.size()),
        hangs_(kernels.size()),
        deaths_(kernels.size()),
        errors_(kernels.size()),
        answers_(kernels.size()),
        declaration_(declarations_of(kernels)) {
    for (size_t k = 0; k < kernels.size(); ++k)
      if (declaration_[k] == own_.size())
        own_.push_back(own_plan(kernels[k], options));
    for (size_t l = 0; l < options.laws.size(); ++l)
      if (!options.laws[l]->domain.lasts &&
          std::any_of(own_.begin(), own_.end(),
                      [l](const OwnPlan& own) { return own.needs[l].empty(); }))
        asked_.push_back(options.laws[l]);
    if (asked_.empty()) asked_ = options.laws;
  }

  bool round() override;
  bool has_failed() const override { return failing_ > 0; }
  RunResult finish(bool whole) override;

 private:
  struct Lane {  // one thread
    std::vector<std::unique_ptr<Executor>> executors;
    std::vector<Tally> tallies;  // kernel * laws + law
    std::vector<Suspicion> suspicions;
    std::vector<OptionUse> uses;      // per kernel
    std::vector<PairCoverage> pairs;  // per kernel, of the plan's cases
    std::vector<PairCoverage> added;  // the same for cases outside of the plan
    int64_t cost = 0;                 // of its cases, cost_of()
    TimeUse time;
  };

  // The law of case `number`, from 1.
  const Law& planned_law(int64_t number) const {
    if (const PairCase* added = added_.at(number)) return *added->law;
    return *asked_[static_cast<size_t>(number - 1) % asked_.size()];
  }

  bool has_ended(size_t kernel) const {
    const bool is_enough = options_.fail_fast || !answers_[kernel];
    return hangs_[kernel] >= (is_enough ? 1 : kMostHangs) ||
           (!answers_[kernel] && deaths_[kernel] + errors_[kernel] >=
                                     (options_.fail_fast ? 1 : kMostDeaths));
  }
  // Why the kernel got no further cases.
  std::string why_ended(size_t kernel) const;
  bool asks_alone(int64_t number) const;

  std::string open_lanes();
  int64_t run_cases(int64_t first, int64_t last);
  int64_t run_cheap_first(int64_t first, int64_t last);
  bool is_for_later(int64_t number, const Case& value);
  void run_round(int64_t first, int64_t last);
  void run_chunk(Lane& lane, int64_t first, int64_t last);
  void run_on_kernel(Lane& lane, size_t kernel,
                     std::vector<std::pair<int64_t, CaseWork*>>& works);
  void record(Lane& lane, size_t kernel, int64_t number, CaseWork& work,
              const Judgement& judgement, double seconds);
  void end_round();
  void tell_first_failure(const std::vector<Tally>& tallies);
  void shrink_failures();
  void shrink_cells(const std::vector<size_t>& cells,
                    const std::vector<std::vector<Case>>& like);
  void settle_strays();
  void report_progress(bool shrinking) const;
  bool is_stopped() const { return options_.stop && options_.stop(); }
  void replace_refused();
  void replace_refused_of(size_t declaration);
  int64_t find_lacking(size_t declaration, int64_t share);
  bool never_fitted(size_t kernel, size_t law);
  int64_t planned_for(const Law& law) const;
  bool adds_cases_of(Subject subject) const;
  int64_t cost_so_far() const;
  PairPlan plan_of_all() const;
  void ask_wide(size_t turns);
  void add_cases();
  void add_refused_cases();
  void add_lasting_cases();
  void run_added(std::vector<PairCase> cases);
  Case case_of(const Law& law, int64_t number) const;
  PairCoverage pairs_of_plan(size_t kernel) const;
  PairCoverage pairs_of(size_t kernel) const;
  RunResult result();

  // Every law's cases in turn, whatever their number.
  bool with_twin(int64_t number) const {
    const auto laws = static_cast<int64_t>(asked_.size());
    return (number - 1) / laws % kTwinEvery == 0;
  }
  size_t law_index(const Law& law) const {
    const auto& laws = options_.laws;
    return static_cast<size_t>(std::find(laws.begin(), laws.end(), &law) -
                               laws.begin());
  }
  size_t cell_index(size_t kernel, size_t law) const {
    return kernel * options_.laws.size() + law;
  }
  const OwnPlan& own(size_t kernel) const { return own_[declaration_[kernel]]; }
  // Whether each law gets its number of cases by replacing those that a kernel
  // refuses. A shard has no data about refusals in the others; a budget, and a
  // run that ends with its first failure, have no number.
  bool replaces_refused() const { return has_number() && options_.shards == 1; }
  bool has_number() const {
    return !options_.planned && !options_.budget && !options_.fail_fast;
  }
  bool asks(size_t kernel, size_t law) const {
    return own(kernel).needs[law].empty();
  }
  // Whether it gets a case of the plan, or a replacement for one.
  bool takes(size_t kernel, size_t law) const {
    const size_t cell = cell_index(kernel, law);
    return asks(kernel, law) && !stopped_[cell] &&
           (lacking_.empty() || lacking_[cell]);
  }

  const std::vector<KernelUnderTest>& kernels_;
  const ExecutorFactory& open_;
  const RunOptions& options_;
  std::vector<const Law*> asked_;  // laws that some kernel can answer
  const Clock::time_point start_ = Clock::now();
  std::string error_;  // why there are no lanes
  int64_t per_law_;    // cases of the next round
  std::vector<Lane> lanes_;
  std::vector<Tally> total_;
  std::vector<std::vector<Failure>> failures_;  // per cell
  std::vector<std::vector<Failure>> strays_;    // of cells of other laws
  std::vector<char> stopped_;  // cells that have failed in an earlier round
  std::vector<std::atomic<bool>> has_failed_;  // cells, as soon as they have
  // Per kernel: calls that hung, that died, that returned an error where a
  // result was due, and whether one gave an answer.
  std::vector<std::atomic<int>> hangs_, deaths_, errors_;
  std::vector<std::atomic<bool>> answers_;
  int64_t cases_done_ = 0, rounds_ = 0;
  bool interrupted_ = false;
  int64_t planned_done_ = 0;         // without replacements of refused ones
  std::vector<size_t> declaration_;  // of each kernel
  std::vector<OwnPlan> own_;         // of each declaration
  std::vector<std::optional<bool>> never_fitted_ =
      std::vector<std::optional<bool>>(total_.size());
  // While refused cases are replaced: the declaration for which others are
  // drawn, the cells that lack some, and how many each law lacks.
  size_t replaced_for_ = 0;
  std::vector<char> lacking_;
  std::vector<int64_t> lacks_;
  // For a round that has its expensive cases last: its first case, which cases
  // are expensive, and whether those are being run.
  int64_t first_of_round_ = 0;
  std::vector<char> dear_;
  bool is_turn_of_dear_ = false;
  std::atomic<int64_t> replaced_{0};
  AddedCases added_;
  std::optional<WideCases> wide_;  // once the first round is done
  size_t wide_turn_ = 0;           // the next one
  std::vector<PairTable> can_;     // per kernel: pairs that a case can have
  std::atomic<int64_t> progress_{0};
  std::atomic<int64_t> failing_{0};
  bool told_first_ = false;  // options_.first_failure was called
};

// Whether none of its cases was run.
bool is_untouched(const Cell& cell) {
  return cell.verdict == Verdict::kGaveUp && cell.checked == 0;
}

Judgement pinned_otherwise() {
  Judgement judgement;
  judgement.verdict = Verdict::kUnsupported;
  judgement.reason = "the law sets an extent that is pinned to another";
  return judgement;
}

std::string Runner::open_lanes() {
  size_t libraries = 0;
  for (const KernelUnderTest& kernel : kernels_)
    libraries = std::max(libraries, kernel.library + 1);
  lanes_.resize(static_cast<size_t>(std::max(1, options_.jobs)));
  for (Lane& lane : lanes_) {
    lane.tallies.resize(total_.size());
    lane.uses.resize(kernels_.size());
    lane.pairs.resize(kernels_.size());
    lane.added.resize(kernels_.size());
    lane.executors.resize(libraries);
    for (const KernelUnderTest& kernel : kernels_) {
      auto& executor = lane.executors[kernel.library];
      if (executor != nullptr) continue;
      Opened opened = open_(kernel.library);
      if (opened.executor == nullptr) return opened.error;
      executor = std::move(opened.executor);
    }
  }
  return "";
}

void Runner::record(Lane& lane, size_t kernel, int64_t number, CaseWork& work,
                    const Judgement& judgement, double seconds) {
  // Drawn for the declaration of others.
  if (!lacking_.empty() && declaration_[kernel] != replaced_for_ &&
      judgement.verdict == Verdict::kUnsupported)
    return;
  const Law& planned = planned_law(number);
  const Law* owner = &failed_law(planned, judgement);
  const bool keeps_law = law_index(*owner) == options_.laws.size();
  if (keeps_law) owner = &planned;
  const size_t cell = cell_index(kernel, law_index(*owner));
  Tally& tally = lane.tallies[cell];
  add_judgement(tally, number, work.value(), judgement, seconds,
                added_.at(number) != nullptr);
  if (tells_sharpness(*owner, judgement))
    add_case(tally.sharpness, work.value(), judgement);
  if (judgement.verdict != Verdict::kFailed) return;
  if (!has_failed_[cell].exchange(true)) ++failing_;
  const Candidate candidate{number,
                            &planned,
                            work.value(),
                            judgement,
                            seconds_since(start_),
                            keeps_law,
                            options_.fail_fast};
  if (owner == &planned && (!tally.own || number < tally.own->number))
    tally.own = candidate;
  // A lane takes cases in ascending order, except for those of other laws with
  // failures that this law owns.
  const auto place = std::find_if(
      tally.failing.begin(), tally.failing.end(),
      [number](const Candidate& other) { return number < other.number; });
  tally.failing.insert(place, candidate);
  if (tally.failing.size() > kMostCandidates) tally.failing.pop_back();
}

void Runner::run_on_kernel(Lane& lane, size_t kernel,
                           std::vector<std::pair<int64_t, CaseWork*>>& works) {
  const KernelUnderTest& under_test = kernels_[kernel];
  std::vector<KernelCall> calls;
  std::vector<std::pair<size_t, size_t>> slices(works.size());
  for (size_t i = 0; i < works.size(); ++i) {
    const auto [number, work] = works[i];
    const PairCase* added = added_.at(number);
    if (added != nullptr && !added->kernels[kernel]) continue;
    if (!takes(kernel, law_index(planned_law(number)))) continue;
    if (!options_.planned && !keeps_pins(options_.scope, work->value())) {
      record(lane, kernel, number, *work, pinned_otherwise(), 0);
      // No case for this run, whatever the kernel is.
      const size_t law = law_index(planned_law(number));
      if (lacking_.empty()) --lane.tallies[cell_index(kernel, law)].planned;
      continue;
    }
    if (const auto settled = work->settled(under_test.judged)) {
      record(lane, kernel, number, *work, *settled, 0);
      continue;
    }
    const auto more = work->calls_for(under_test.judged);
    slices[i] = {calls.size(), more.size()};
    calls.insert(calls.end(), more.begin(), more.end());
  }
  if (calls.empty() || has_ended(kernel)) return;
  const Clock::time_point start = Clock::now();
  std::vector<CallOutcome> outcomes;
  {
    const Stopwatch watch(lane.time.kernel);
    outcomes = lane.executors[under_test.library]->run(under_test.index, calls);
  }
  for (size_t i = 0; i < works.size(); ++i) {
    const auto [from, count] = slices[i];
    const Case& value = works[i].second->value();
    const bool computes = count > 0 && value.subject() == Subject::kAttention &&
                          some_row_sees_a_key(value);
    PairCoverage& pairs = added_.at(works[i].first) != nullptr
                              ? lane.added[kernel]
                              : lane.pairs[kernel];
    const bool answered =
        std::all_of(outcomes.begin() + static_cast<ptrdiff_t>(from),
                    outcomes.begin() + static_cast<ptrdiff_t>(from + count),
                    [](const CallOutcome& one) {
                      return one.status != CallStatus::kUnsupported;
                    });
    if (value.subject() == Subject::kCache && count > 0 && answered)
      lane.uses[kernel].count_story(value);
    for (size_t call = from; call < from + count; ++call) {
      if (outcomes[call].status == CallStatus::kDone) answers_[kernel] = true;
      lane.uses[kernel].count(calls[call], outcomes[call]);
      if (computes && outcomes[call].status == CallStatus::kDone)
        pairs.count(value, calls[call]);
    }
  }
  const double per_call =
      seconds_since(start) / static_cast<double>(calls.size());
  for (size_t i = 0; i < works.size(); ++i) {
    const auto [from, count] = slices[i];
    if (count == 0) continue;
    const Clock::time_point judging = Clock::now();
    const Judgement judgement = works[i].second->judge(
        under_test.judged, std::span(outcomes).subspan(from, count));
    if (judgement.verdict == Verdict::kSkipped) continue;  // after a hang
    if (judgement.kind == FailureKind::kHang) ++hangs_[kernel];
    // A fault is a death as well if the first failure ends the run.
    if (judgement.kind == FailureKind::kCrash ||
        (options_.fail_fast && judgement.kind == FailureKind::kMemory &&
         outcomes[from + count - 1].status == CallStatus::kFault))
      ++deaths_[kernel];
    // Further errors are no failures of further laws.
    if (judgement.verdict == Verdict::kFailed && !answers_[kernel] &&
        returned_errors(std::span(outcomes).subspan(from, count)) &&
        errors_[kernel]++ > 0)
      continue;
    record(lane, kernel, works[i].first, *works[i].second, judgement,
           seconds_since(judging) + per_call * static_cast<double>(count));
  }
}

Case Runner::case_of(const Law& law, int64_t number) const {
  if (const PairCase* added = added_.at(number)) return added->value;
  if (options_.planned) return options_.planned(number);
  const Scope& scope =
      lacking_.empty() ? options_.scope : own_[replaced_for_].scope;
  return planned_case(law, options_.seed, number, scope);
}

void Runner::run_chunk(Lane& lane, int64_t first, int64_t last) {
  std::vector<std::unique_ptr<CaseWork>> made;
  std::vector<std::pair<int64_t, CaseWork*>> works;
  for (int64_t number = first; number <= last; ++number) {
    if (added_.at(number) == nullptr &&
        !in_shard(options_, number, std::ssize(asked_)))
      continue;
    if (is_turn_of_dear_ &&
        !dear_[static_cast<size_t>(number - first_of_round_)])
      continue;
    const Law& law = planned_law(number);
    if (!lacking_.empty()) {
      const int64_t n = (number - first_of_round_) / std::ssize(asked_);
      if (n >= lacks_[law_index(law)]) continue;
      ++replaced_;
    }
    Case value;
    {
      const Stopwatch watch(lane.time.generate);
      value = case_of(law, number);
      if (is_for_later(number, value)) continue;
      if (options_.covers_pairs && added_.at(number) == nullptr)
        lane.cost += cost_of(value);
    }
    made.push_back(std::make_unique<CaseWork>(
        law, std::move(value), with_twin(number), lane.time, options_.oracle));
    works.emplace_back(number, made.back().get());
  }
  for (size_t kernel = 0; kernel < kernels_.size(); ++kernel)
    run_on_kernel(lane, kernel, works);
  for (const auto& [number, work] : works)
    if (auto suspicion = count_votes(work->value(), number, work->ballots()))
      lane.suspicions.push_back(std::move(*suspicion));
  if (lacking_.empty() && !is_turn_of_dear_ && added_.at(first) == nullptr)
    progress_ += last - first + 1;
}

// A kernel that dies in every call costs a process for each of them. This is
// established before threads take many cases at once.
bool Runner::asks_alone(int64_t number) const {
  bool is_open = false;
  for (size_t k = 0; k < kernels_.size(); ++k)
    is_open |= !answers_[k] && !has_ended(k);
  return is_open && number <= kMostAskedAlone && !is_stopped();
}

std::string Runner::why_ended(size_t kernel) const {
  const int hangs = hangs_[kernel], errors = errors_[kernel];
  const int lost = deaths_[kernel] + errors;
  if (hangs > 0)
    return "not asked: the kernel hung in " + std::to_string(hangs) +
           (hangs == 1 ? " case" : " cases");
  return std::string("not asked: the kernel ") +
         (errors > 0 ? "gave no result in " : "died in ") +
         (lost == 1 ? "its first case"
                    : "all of its first " + std::to_string(lost) + " cases");
}

// How many of them were begun before the run was stopped.
int64_t Runner::run_cases(int64_t first, int64_t last) {
  int64_t alone = first;
  for (; alone <= last && asks_alone(alone); ++alone)
    run_chunk(lanes_[0], alone, alone);
  std::atomic<int64_t> next{alone};
  // As many cases of a shard.
  const int64_t chunk = kChunk * options_.shards;
  const auto work = [&](Lane& lane, bool reports) {
    for (;;) {
      if (is_stopped()) return;
      const int64_t from = next.fetch_add(chunk);
      if (from > last) return;
      run_chunk(lane, from, std::min(last, from + chunk - 1));
      if (reports) report_progress(/*shrinking=*/false);
      if (reports) tell_first_failure(lane.tallies);
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < lanes_.size(); ++i)
    threads.emplace_back(work, std::ref(lanes_[i]), false);
  work(lanes_[0], true);
  for (std::thread& thread : threads) thread.join();
  return std::min<int64_t>(next, last + 1) - first;
}

bool Runner::is_for_later(int64_t number, const Case& value) {
  if (dear_.empty() || is_turn_of_dear_ || cost_of(value) <= kDear)
    return false;
  dear_[static_cast<size_t>(number - first_of_round_)] = 1;
  return true;
}

// As run_cases(). Whether a case is expensive depends only on the case, so that
// threads change nothing.
int64_t Runner::run_cheap_first(int64_t first, int64_t last) {
  first_of_round_ = first;
  dear_.assign(static_cast<size_t>(last - first + 1), 0);
  const int64_t begun = run_cases(first, last);
  const int64_t dear = std::count(dear_.begin(), dear_.end(), 1);
  if (failing_ == 0 && dear > 0) {
    is_turn_of_dear_ = true;
    run_cases(first, last);
    is_turn_of_dear_ = false;
  }
  dear_.clear();
  return failing_ > 0 ? begun - dear : begun;
}

void Runner::run_round(int64_t first, int64_t last) {
  cases_done_ += run_cases(first, last);
  end_round();
}

void Runner::end_round() {
  ++rounds_;
  for (Lane& lane : lanes_)
    for (size_t i = 0; i < total_.size(); ++i) {
      merge(total_[i], lane.tallies[i]);
      if (!total_[i].failing.empty()) stopped_[i] = 1;
    }
  tell_first_failure(total_);
  if (options_.round_done)
    options_.round_done(rounds_, cases_done_,
                        std::count(stopped_.begin(), stopped_.end(), 1));
}

// Reports the first of these failing cases in the plan. The end of the run
// shrinks it again, with the results of the other laws.
void Runner::tell_first_failure(const std::vector<Tally>& tallies) {
  if (!options_.first_failure || failing_ == 0 || told_first_) return;
  size_t first = tallies.size();
  for (size_t i = 0; i < tallies.size(); ++i)
    if (!tallies[i].failing.empty() &&
        (first == tallies.size() ||
         tallies[i].failing[0].number < tallies[first].failing[0].number))
      first = i;
  if (first == tallies.size()) return;
  told_first_ = true;
  const KernelUnderTest& kernel = kernels_[first / options_.laws.size()];
  options_.first_failure(kernel,
                         shrunk_failure(tallies[first].failing[0], kernel,
                                        *lanes_[0].executors[kernel.library],
                                        lanes_[0].time, options_.scope));
}

void Runner::report_progress(bool shrinking) const {
  if (!options_.progress) return;
  const auto kernels = static_cast<int64_t>(kernels_.size());
  options_.progress({progress_ * kernels,
                     options_.budget ? 0 : options_.cases * kernels, failing_,
                     shrinking});
}

// A kernel that fails twenty laws mostly does so for one or two causes. The
// cheapest of its failures is shrunk first. The others, one and then twice as
// many at a time, may start from the results of the earlier ones: never from
// those of the same batch, so that the result does not depend on the order of
// threads.
void Runner::shrink_failures() {
  if (failing_ > 0) report_progress(/*shrinking=*/true);
  const size_t laws = options_.laws.size();
  std::vector<std::vector<size_t>> failing(kernels_.size());  // cells
  for (size_t i = 0; i < total_.size(); ++i)
    if (!total_[i].failing.empty()) failing[i / laws].push_back(i);
  for (std::vector<size_t>& cells : failing)
    std::stable_sort(cells.begin(), cells.end(), [this](size_t a, size_t b) {
      return cost_of(total_[a].failing[0].value) <
             cost_of(total_[b].failing[0].value);
    });
  std::vector<std::vector<Case>> like(kernels_.size());
  std::vector<size_t> now;
  for (size_t first = 0, count = 1; first == 0 || !now.empty();
       first += count, count = first) {
    now.clear();
    for (const std::vector<size_t>& cells : failing)
      for (size_t n = first; n < std::min(first + count, cells.size()); ++n)
        now.push_back(cells[n]);
    shrink_cells(now, like);
    for (const size_t i : now)
      for (const std::vector<Failure>* found : {&failures_[i], &strays_[i]})
        if (!found->empty() && found->front().shrink_steps > 0)
          add_like(found->front().smallest, like[i / laws]);
  }
  settle_strays();
}

// `like`: of each kernel small cases in which it fails other laws.
void Runner::shrink_cells(const std::vector<size_t>& cells,
                          const std::vector<std::vector<Case>>& like) {
  std::atomic<size_t> next{0};
  const auto shrink_cell = [&](Lane& lane, size_t i) {
    const size_t k = i / options_.laws.size();
    const KernelUnderTest& kernel = kernels_[k];
    const auto shrunk = [&](const std::vector<Candidate>& failing) {
      return shrunk_failures(failing, kernel, *lane.executors[kernel.library],
                             lane.time, options_.scope, like[k]);
    };
    const Law* law = options_.laws[i % options_.laws.size()];
    failures_[i] = shrunk(total_[i].failing);
    const auto strays = std::stable_partition(
        failures_[i].begin(), failures_[i].end(),
        [law](const Failure& failure) { return failure.law == law; });
    strays_[i].assign(std::make_move_iterator(strays),
                      std::make_move_iterator(failures_[i].end()));
    failures_[i].erase(strays, failures_[i].end());
    if (failures_[i].empty() && total_[i].own)
      failures_[i] = shrunk({*total_[i].own});
  };
  const auto work = [&](Lane& lane) {
    for (size_t n = next.fetch_add(1); n < cells.size(); n = next.fetch_add(1))
      shrink_cell(lane, cells[n]);
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < lanes_.size(); ++i)
    threads.emplace_back(work, std::ref(lanes_[i]));
  work(lanes_[0]);
  for (std::thread& thread : threads) thread.join();
}

// A failure that does not repeat under the law that owns it belongs to the law
// that found it: a replay under the other would pass.
void Runner::settle_strays() {
  for (size_t i = 0; i < strays_.size(); ++i) {
    for (Failure& stray : strays_[i]) {
      std::vector<Failure>& own = failures_[cell_index(i / options_.laws.size(),
                                                       law_index(*stray.law))];
      if (own.empty())
        own.push_back(std::move(stray));
      else if (stray.number < own[0].number)
        own[0] = std::move(stray);
    }
  }
}

RunResult Runner::result() {
  RunResult result;
  for (size_t k = 0; k < kernels_.size(); ++k) {
    KernelResult kernel{kernels_[k], {}};
    for (size_t l = 0; l < options_.laws.size(); ++l) {
      const size_t i = cell_index(k, l);
      if (asks(k, l) && has_number())
        total_[i].planned += planned_for(*options_.laws[l]);
      kernel.cells.push_back(
          cell_of(total_[i], std::move(failures_[i]),
                  mistrust_in(kernels_[k].judged, options_)));
      Cell& cell = kernel.cells.back();
      cell.law = options_.laws[l];
      if (cell.failure || cell.law->domain.lasts) continue;
      if (!asks(k, l)) {
        cell.verdict = Verdict::kUnsupported;
        cell.reason = own(k).needs[l];
        cell.about = About::kDeclaration;
      } else if (!has_ended(k) && never_fitted(k, l)) {
        cell.verdict = Verdict::kGaveUp;
        cell.about = About::kOther;
        cell.reason =
            std::to_string(cell.unsupported) +
            " cases were drawn, and none is as declared: " + cell.reason;
      }
    }
    OptionUse use;
    for (const Lane& lane : lanes_) use.add(lane.uses[k]);
    kernel.hollow = use.hollow();
    // The other subjects have options of their own, which their laws name. For
    // a kernel with both attention and a cache, paths are those of attention.
    const KernelInfo& info = kernel.kernel.judged.info;
    const Subject subject = options_.laws[0]->domain.subject;
    const bool is_attention = subject == Subject::kAttention;
    const bool has_paths =
        subject == Subject::kCache || subject == Subject::kLayer;
    if (is_attention || (has_paths && !info.has_forward))
      for (const Hint& hint : kernels_[k].hints)
        kernel.near_hints.push_back(use.near(hint.path));
    if (has_paths && !info.has_forward)
      use.tell_paths(info, " in " + std::string(subject_row(subject).text),
                     options_.scope.largest, kernel.drawn, kernel.never_drawn);
    if (is_attention) {
      use.tell(info, options_.scope.largest, kernel.drawn, kernel.never_drawn);
      const PairCoverage pairs = pairs_of(k);
      kernel.pairs = pairs.met(can_.empty() ? nullptr : &can_[k]);
      const PairCoverage planned = pairs_of_plan(k);
      kernel.pairs.added = pairs.pairs() - planned.pairs();
      kernel.pairs.added_triples = pairs.triples() - planned.triples();
    }
    result.kernels.push_back(std::move(kernel));
  }
  for (Lane& lane : lanes_) {
    result.time.add(lane.time);
    for (Suspicion& suspicion : lane.suspicions) {
      ++result.suspicions;
      if (!result.suspicion || suspicion.number < result.suspicion->number)
        result.suspicion = std::move(suspicion);
    }
  }
  result.planned_cases = std::min(cases_done_, planned_done_);
  result.replaced_cases = replaced_;
  result.added_cases = added_.count();
  result.rounds = rounds_;
  result.interrupted = interrupted_;
  result.wall_seconds = seconds_since(start_);
  return result;
}

void Runner::replace_refused() {
  if (!replaces_refused()) return;
  // A richer kernel takes the cases of a poorer one as well.
  std::vector<size_t> order(own_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    return std::popcount(own_[a].scope.options) <
           std::popcount(own_[b].scope.options);
  });
  for (const size_t declaration : order) replace_refused_of(declaration);
  lacking_.clear();
}

void Runner::replace_refused_of(size_t declaration) {
  const auto laws = static_cast<int64_t>(asked_.size());
  const int64_t last = cases_done_ + planned_done_;
  replaced_for_ = declaration;
  while (cases_done_ < last && !is_stopped()) {
    const int64_t most = find_lacking(declaration, planned_done_ / laws);
    if (most == 0) break;
    first_of_round_ = cases_done_ + 1;
    run_round(first_of_round_, cases_done_ + most * laws);
  }
}

// Sets which cells lack cases, and returns the largest number that a law lacks:
// 0 if no kernel of the declaration lacks any.
int64_t Runner::find_lacking(size_t declaration, int64_t share) {
  // Run at once. The short plan has few more cases than its number.
  constexpr int64_t kFewest = 4;
  lacking_.assign(total_.size(), 0);
  lacks_.assign(options_.laws.size(), 0);
  for (const Law* law : asked_) {
    const size_t l = law_index(*law);
    for (size_t k = 0; k < kernels_.size(); ++k) {
      const size_t cell = cell_index(k, l);
      const int64_t lacks = lacking_cases(total_[cell], share);
      if (lacks == 0 || !asks(k, l) || stopped_[cell]) continue;
      // The kernel refused all cases of this law.
      if (total_[cell].checked == 0 && !never_fitted(k, l)) continue;
      lacking_[cell] = 1;
      if (declaration_[k] == declaration)
        lacks_[l] = own_.size() == 1 ? kRoundPerLaw
                                     : std::max({lacks_[l], lacks, kFewest});
      // One case in dozens may be as the kernel declares.
      if (declaration_[k] == declaration && total_[cell].checked == 0)
        lacks_[l] = std::max(lacks_[l], 4 * kRoundPerLaw);
    }
  }
  return *std::max_element(lacks_.begin(), lacks_.end());
}

// Whether no case of the law was as the kernel declares, though some are.
bool Runner::never_fitted(size_t kernel, size_t law) {
  const size_t cell = cell_index(kernel, law);
  const Tally& tally = total_[cell];
  if (!replaces_refused() || tally.checked > 0 || tally.refused > 0 ||
      tally.unsupported_for.about != About::kDeclaration)
    return false;
  std::optional<bool>& known = never_fitted_[cell];
  if (!known)
    known = can_be_asked(*options_.laws[law], kernels_[kernel],
                         own(kernel).scope, options_.seed, lanes_[0].time);
  return *known;
}

// Cases of the plan, or of the shard's part of it.
int64_t Runner::planned_for(const Law& law) const {
  const auto laws = static_cast<int64_t>(asked_.size());
  const int64_t place =
      std::find(asked_.begin(), asked_.end(), &law) - asked_.begin();
  int64_t sum = 0;
  for (int64_t n = place + 1; place < laws && n <= planned_done_; n += laws)
    sum += in_shard(options_, n, laws);
  return sum;
}

PairCoverage Runner::pairs_of_plan(size_t kernel) const {
  PairCoverage pairs;
  for (const Lane& lane : lanes_) pairs.add(lane.pairs[kernel]);
  return pairs;
}

PairCoverage Runner::pairs_of(size_t kernel) const {
  PairCoverage pairs = pairs_of_plan(kernel);
  for (const Lane& lane : lanes_) pairs.add(lane.added[kernel]);
  return pairs;
}

// A shard has no data about the others, a budget is used up, and a kernel that
// compiles for each shape must not get new ones.
bool Runner::adds_cases_of(Subject subject) const {
  return options_.covers_pairs && !options_.planned && !options_.budget &&
         options_.shards == 1 && !options_.scope.few_shapes &&
         !asked_.empty() && asked_[0]->domain.subject == subject;
}

int64_t Runner::cost_so_far() const {
  int64_t cost = 0;
  for (const Lane& lane : lanes_) cost += lane.cost;
  return cost;
}

PairPlan Runner::plan_of_all() const {
  PairPlan plan{asked_, options_.seed, options_.scope, {}, {}, 0, 0};
  for (const KernelUnderTest& kernel : kernels_)
    plan.kernels.push_back(&kernel.judged.info);
  return plan;
}

// Runs the wide cases of the first turns, each once. They are run within the
// rounds of the plan, so that a fault that only they show is reported early.
// The cost of the whole plan is estimated from its first round.
void Runner::ask_wide(size_t turns) {
  const bool of_gradients = adds_cases_of(Subject::kBackward);
  if (is_stopped() || !(of_gradients || adds_cases_of(Subject::kAttention)))
    return;
  if (!wide_) {
    const Stopwatch watch(lanes_[0].time.generate);
    PairPlan plan = plan_of_all();
    plan.most_cases = options_.cases / kShareOfWide;
    plan.most_cost =
        cost_so_far() / std::max<int64_t>(1, cases_done_) * plan.most_cases;
    wide_ = of_gradients ? WideCases{data_cases(plan)} : wide_cases(plan);
  }
  for (; wide_turn_ < std::min(turns, kWideTurns); ++wide_turn_) {
    const auto [first, last] = added_.add(options_.cases + added_.count() + 1,
                                          std::move((*wide_)[wide_turn_]));
    run_cases(first, last);
  }
}

// After all other cases.
void Runner::add_cases() {
  if (!adds_cases_of(Subject::kAttention) ||
      (options_.fail_fast && failing_ > 0))
    return;
  PairPlan plan = plan_of_all();
  for (size_t k = 0; k < kernels_.size(); ++k) {
    plan.met.push_back(pairs_of(k).table());
  }
  const int64_t cost = cost_so_far();
  const auto take = [&](int64_t share) {
    plan.most_cost = cost / share;
    plan.most_cases = planned_done_ / share;
  };
  lacking_.clear();
  PairCases pairs;
  {
    const Stopwatch watch(lanes_[0].time.generate);
    take(kShareOfPairs);
    plan.most_cases -= added_.count();
    pairs = cases_for_pairs(plan);
  }
  can_ = std::move(pairs.can);
  run_added(std::move(pairs.cases));
  std::vector<PairCase> triples;
  {
    const Stopwatch watch(lanes_[0].time.generate);
    std::vector<TripleSet> met;
    for (size_t k = 0; k < kernels_.size(); ++k) {
      const PairCoverage all = pairs_of(k);
      plan.met[k] = all.table();
      met.push_back(all.triple_set());
    }
    take(kShareOfTriples);
    triples = cases_for_triples(plan, met);
  }
  run_added(std::move(triples));
}

// Repeats the first refused case of each law under the law about refusals: the
// refusal may depend on its values.
void Runner::add_refused_cases() {
  const auto form =
      std::find_if(options_.laws.begin(), options_.laws.end(),
                   [](const Law* law) { return law->domain.refusals; });
  if (form == options_.laws.end() || options_.planned ||
      (options_.fail_fast && failing_ > 0))
    return;
  std::vector<PairCase> cases;
  for (size_t k = 0; k < kernels_.size(); ++k)
    for (const Law* law : options_.laws) {
      const auto& refused = total_[cell_index(k, law_index(*law))].refused_case;
      if (law != *form && refused)
        add_for(k, kernels_.size(), **form,
                constrained(**form, refused->second), cases);
    }
  lacking_.clear();
  run_added(std::move(cases));
}

// Adds a few cases of each law that makes thousands of calls, only in one
// shard.
void Runner::add_lasting_cases() {
  if (options_.planned || options_.shard != 1 ||
      (options_.fail_fast && failing_ > 0))
    return;
  lacking_.clear();
  for (const Law* law : options_.laws)
    if (law->domain.lasts && asked_[0] != law)
      run_added(lasting_cases(*law, options_.seed, options_.scope, kernels_,
                              lanes_[0].time));
}

void Runner::run_added(std::vector<PairCase> cases) {
  const auto [first, last] = added_.add(cases_done_ + 1, std::move(cases));
  if (first <= last) run_round(first, last);
}

bool Runner::round() {
  if (lanes_.empty()) error_ = open_lanes();
  const auto laws = static_cast<int64_t>(options_.laws.size());
  const int64_t first = cases_done_ + 1;
  if (!error_.empty() || laws == 0 || is_stopped()) return false;
  if (options_.budget ? seconds_since(start_) >= *options_.budget && rounds_
                      : first > options_.cases)
    return false;
  int64_t last = first + per_law_ * laws - 1;
  per_law_ = std::min(2 * per_law_, kRoundPerLaw);
  if (!options_.budget) last = std::min(last, options_.cases);
  cases_done_ += options_.fail_fast ? run_cheap_first(first, last)
                                    : run_cases(first, last);
  const bool is_over = options_.fail_fast && failing_ > 0;
  if (!is_over)
    ask_wide(last == options_.cases
                 ? kWideTurns
                 : std::min(static_cast<size_t>(rounds_) + 1, kWideTurns - 1));
  end_round();
  return !(options_.fail_fast && failing_ > 0);
}

RunResult Runner::finish(bool whole) {
  if (!error_.empty()) {
    RunResult result;
    result.error = std::move(error_);
    return result;
  }
  interrupted_ = is_stopped();
  planned_done_ = cases_done_;
  cases_done_ += added_.count();  // which have numbers of their own
  if (!interrupted_ && whole) replace_refused();
  if (!interrupted_ && whole) add_cases();
  if (!interrupted_ && whole) add_refused_cases();
  if (!interrupted_ && whole) add_lasting_cases();
  // Another part may have failed before this one had a round.
  if (!lanes_.empty()) shrink_failures();
  RunResult made = result();
  for (size_t k = 0; k < kernels_.size(); ++k)
    for (Cell& cell : made.kernels[k].cells)
      if (is_untouched(cell) && has_ended(k)) cell.reason = why_ended(k);
  return made;
}

}  // namespace

std::unique_ptr<SubjectRun> begin_subject(
    const std::vector<KernelUnderTest>& kernels, const ExecutorFactory& open,
    const RunOptions& options) {
  return std::make_unique<Runner>(kernels, open, options);
}

RunResult run_subject(const std::vector<KernelUnderTest>& kernels,
                      const ExecutorFactory& open, const RunOptions& options) {
  Runner run(kernels, open, options);
  while (run.round()) {
  }
  return run.finish(/*whole=*/true);
}

}  // namespace qkvet::properties

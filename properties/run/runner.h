// SPDX-License-Identifier: Apache-2.0
// The run: a numbered plan in rounds, every case on every kernel, in threads
// that each have workers of their own. The report does not depend on the number
// of threads.
#ifndef QKVET_PROPERTIES_RUN_RUNNER_H_
#define QKVET_PROPERTIES_RUN_RUNNER_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "properties/cases/pair_coverage.h"
#include "properties/cases/scope.h"
#include "properties/checking/case_work.h"
#include "properties/run/sharpness.h"
#include "properties/sequences/story_fault.h"

namespace qkvet::properties {

// A kernel and its address: library number and number within the library.
struct KernelUnderTest {
  JudgedKernel judged;
  size_t library = 0;
  int index = 0;
  std::vector<Hint> hints = {};  // where it may take another path
};

// Opens a fresh executor on a library: called once per thread and library.
using ExecutorFactory = std::function<Opened(size_t library)>;

// For a user's own kernel: some seconds on two cores.
inline constexpr int64_t kDefaultCases = 16384;
// The default for the kernels that come with QKVet: so many cases for each law,
// however many laws its subject has, that every law has cases in which it could
// fail, and that all of it takes ten seconds on two cores.
inline constexpr int64_t kShortCasesPerLaw = 48;

struct Failure;

// How far a run is. A case counts once for every kernel.
struct RunProgress {
  int64_t done = 0;
  int64_t planned = 0;  // 0: unknown
  int64_t failures = 0;
  bool shrinking = false;  // no further cases: failures are made smaller
};

struct RunOptions {
  std::vector<const Law*> laws;
  int64_t cases = kDefaultCases;  // per kernel, over all laws of a subject
  int64_t cases_per_law = 0;      // > 0: this many for every law, instead
  std::optional<double> budget;   // seconds; instead of `cases`, whole rounds
  // Instead of random cases: agreement on every case of the small scope.
  bool exhaustive = false;
  // Makes case `number` of the plan; null: planned_case().
  std::function<Case(int64_t number)> planned = nullptr;
  // Adds cases after the plan's, at most an eighth of them, for pairs of
  // settings that these did not have.
  bool covers_pairs = false;
  bool fail_fast = false;  // no further round once something has failed
  uint64_t seed = 1;
  Scope scope;
  Oracle oracle = plain_forward;  // another one only in tests
  // Trusts neither assumptions nor declarations looser than generic.
  bool strict = false;
  bool allow_loose = false;  // but the latter are
  int jobs = 1;
  // The shard of the plan's cases to run, from 1 (in_shard()).
  int64_t shard = 1, shards = 1;
  // Called now and then, from all threads: once it returns true, no further
  // case is begun. Failures until then are shrunk and reported.
  std::function<bool()> stop;
  // Called now and then from one thread, for a progress line.
  std::function<void(const RunProgress&)> progress;
  // Called once from one thread, as soon as a failure is found and shrunk; the
  // run goes on. Null: no failure is shrunk before the end.
  std::function<void(const KernelUnderTest&, const Failure&)> first_failure;
  // Called after every round, with the number of (kernel, law) that failed.
  std::function<void(int64_t round, int64_t cases_done, int64_t failed)>
      round_done;
};

// The first failure of a kernel under a law, shrunk.
struct Failure {
  const Law* law = nullptr;  // the law that it is a failure of
  int64_t number = 0;        // of the case in the plan, from 1
  Case found;                // as the plan made it
  Case smallest;             // after shrinking
  Judgement judgement;       // on the smallest
  int shrink_steps = 0;      // accepted
  int shrink_tries = 0;
  int repeats = 0;         // runs of the found case ...
  int repeats_failed = 0;  // ... and how many of them failed
  double seconds = 0;      // since the run began
  uint32_t digest = 0;     // of the smallest case's inputs
  std::string dialect;     // "" or the declaration under which it would pass
  // For a recorded story: "41208 commands -> 5", and which of them failed.
  std::string recorded, where;
  StoryFault story;  // for a cache: the source of the mistake
  // Failing cases of the law that may have this cause, among those that were
  // kept; 0: not counted.
  int64_t alike = 0;
};

// The properties that a case needs to fail this way, judging by the smallest
// one: options, causal, a type of less than 32 bits, a negative scale; and
// whether the output is NaN or an infinity. A failing case without one of these
// fails for another cause.
struct Traits {
  std::string outcome;  // "NaN", "infinity" or ""
  uint64_t needs = 0;
  friend bool operator==(const Traits&, const Traits&) = default;
};
Traits traits_of(const Case& value, const Judgement& judgement);

inline constexpr size_t kMostOthers = 4;

// Checked cases by their distance to the bound: by the power of two below the
// largest error/bound of a case; ratios beyond +-kMostPower count there. Cases
// without any error are left out.
inline constexpr int kMostPower = 60;
using RatioPowers = std::map<int, int64_t>;

// One kernel under one law: elements that were compared, and those without a
// bound or a number.
struct Elements {
  int64_t compared = 0;
  int64_t vacuous = 0;   // besides these
  int64_t both_nan = 0;  // of the vacuous: NaN in both calls

  Elements& operator+=(const Elements& other);
  Elements& operator-=(const Elements& other);
};

struct Cell {
  const Law* law = nullptr;
  Verdict verdict = Verdict::kGaveUp;
  std::string reason;           // for every verdict but Passed and Failed
  About about = About::kOther;  // the reason
  // Its cases of the plan, however many are refused; 0: it is not run.
  int64_t planned = 0;
  int64_t checked = 0;  // cases with a comparison that could have failed
  int64_t unsupported = 0;
  int64_t refused = 0;  // of these, by the kernel itself, which declares them
  std::string refusal;  // of the first unsupported case
  int64_t not_applicable = 0;
  Elements elements;  // outside of stress data
  Elements of_long;   // of these, in long cases
  int64_t long_cases = 0;
  Elements emptiest;  // of the others, of the least informative case
  RatioPowers ratios;
  SharpnessByStorage sharpness;  // of a law of agreement
  double worst_ratio = 0;        // error/bound over passed and failed elements
  double seconds = 0;            // of calls and judging
  // Cases that passed with a warning: the first of them, and its warning.
  int64_t warned = 0;
  int64_t warning_number = 0;
  std::string warning;
  std::optional<Failure> failure;
  // Failures of the same law that have other causes, at most kMostOthers.
  std::vector<Failure> others;

  bool crashed() const {
    const auto died = [](const Failure& one) {
      return one.judgement.kind == FailureKind::kCrash ||
             one.judgement.kind == FailureKind::kHang;
    };
    return (failure && died(*failure)) ||
           std::any_of(others.begin(), others.end(), died);
  }
};

struct KernelResult {
  KernelUnderTest kernel;
  // One for each law about a declared subject, in the order of
  // RunOptions::laws.
  std::vector<Cell> cells;
  // Declared options that the kernel refuses in more than half of the calls
  // that use them: "lse: refused in 31 of 40 calls".
  std::vector<std::string> hollow = {};
  // Its declared items with the number of calls that had each: "storage f32:
  // 812 calls", and those that no call had: "storage q=f32,kv=f16,o=f32".
  std::vector<std::string> drawn = {};
  std::vector<std::string> never_drawn = {};
  // Answered calls at each hint or next to it; empty: none was tried.
  std::vector<int64_t> near_hints = {};
  // Which options, extents and data met in a call of attention.
  MetPairs pairs = {};
};

struct RunResult {
  std::vector<KernelResult> kernels;
  int64_t planned_cases = 0;   // per kernel and subject
  int64_t replaced_cases = 0;  // asked instead of refused ones, on top
  int64_t added_cases = 0;     // for pairs that had not met and numbers
                               // that need many bits, on top
  int64_t rounds = 0;
  bool interrupted = false;  // `stop` ended it
  double wall_seconds = 0;
  TimeUse time;  // summed over threads
  // Cases in which the vote is against the oracle: the first, and how many.
  std::optional<Suspicion> suspicion;
  int64_t suspicions = 0;
  std::string error;  // "" or why the run could not be made
};

// Whether a case of the plan is one of the shard's. Laws alternate in the plan:
// every shard gets cases of each, and every case is in one shard. `laws`: the
// number of laws that have cases.
inline bool in_shard(const RunOptions& options, int64_t number, int64_t laws) {
  const int64_t round = (number - 1) / laws, law = (number - 1) % laws;
  return (round + law) % options.shards == options.shard - 1;
}

// Whether some kernel failed a law.
bool some_failed(const RunResult& result);

// Whether the kernel declares these types for its tensors.
bool takes_dtype(const KernelInfo& kernel, const StorageTypes& types);
// The storage types that can be judged and that some kernel declares: first one
// type for all tensors, then mixtures.
std::vector<StorageTypes> declared_dtypes(
    const std::vector<KernelUnderTest>& kernels);

// Limits the cases to these kernels: their storage types, and the options that
// some of them declares.
void keep_scope_to(const std::vector<KernelUnderTest>& kernels, Scope& scope);

// The cases that a kernel gets for the subject that has most of them.
int64_t most_cases(const RunOptions& options);

// A kernel is judged by the laws about its declared subjects. Each subject has
// a plan, and each declaration a plan of its own, so that the cases and the
// verdict of a kernel are those of a run with it alone. In the short plan
// (cases_per_law) all kernels share the cases that they can take, and each gets
// others instead of those that it cannot.
RunResult run_plan(const std::vector<KernelUnderTest>& kernels,
                   const ExecutorFactory& open, const RunOptions& options);

// One part of a run: every kernel declares the subject of every law.
RunResult run_subject(const std::vector<KernelUnderTest>& kernels,
                      const ExecutorFactory& open, const RunOptions& options);

// The same, a round at a time. Its arguments must outlive it.
class SubjectRun {
 public:
  virtual ~SubjectRun() = default;
  virtual bool round() = 0;  // false: it was the last one, or none is left
  virtual bool has_failed() const = 0;
  // Not `whole`: another part has ended the run, and no cases are added.
  virtual RunResult finish(bool whole) = 0;
};
std::unique_ptr<SubjectRun> begin_subject(
    const std::vector<KernelUnderTest>& kernels, const ExecutorFactory& open,
    const RunOptions& options);

// "", or how the declaration is looser than generic, for some storage type of
// the run that the kernel takes: "tile = 3 (generic: 16)".
std::string looser_text(const JudgedKernel& kernel, const Scope& scope);

// "", or why this kernel's passed cases are not trusted.
std::string mistrust_in(const JudgedKernel& kernel, const RunOptions& options);

// A larger share of uninformative comparisons makes a cell Mistrusted.
inline constexpr double kMostVacuous = 0.05;

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_RUN_RUNNER_H_

// SPDX-License-Identifier: Apache-2.0
#include "cli/mutate/repair.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <tuple>

#include "cli/mutate/mutant_build.h"
#include "cli/mutate/mutant_run.h"
#include "cli/mutate/mutation_run.h"
#include "cli/mutate/schemata.h"
#include "cli/terminal/report.h"
#include "cli/terminal/select.h"
#include "core/base/read_file.h"
#include "properties/cases/generate.h"
#include "properties/run/shrink.h"
#include "report/lines.h"

namespace qkvet::cli {
namespace {

namespace fs = std::filesystem;

// Failing cases to run with each edit: enough to tell a mended kernel from a
// lucky one, few enough that the compiler takes nearly all of the time.
constexpr size_t kMostFailing = 8;

// Edits that are compiled together, and the most bytes of their functions'
// bodies: a compiler takes about as long for these as for the headers.
constexpr size_t kMostTogether = 48;
constexpr size_t kMostBytes = 48 << 10;

// Cases of each law that fails, and seconds, to see which lines passing ones
// run.
constexpr int64_t kPlannedOfLaw = 24;
constexpr double kSecondsOfLines = 3;

// The smallest case of each law first, then the cases as they were found:
// larger, with more options.
std::vector<FailingCase> failing_cases(const RunResult& result) {
  std::vector<FailingCase> cases;
  std::set<std::pair<const Law*, std::string>> known;
  const auto add = [&](size_t kernel, const Law* law, const Case& value) {
    if (cases.size() < kMostFailing &&
        known.insert({law, to_string(value)}).second)
      cases.push_back({kernel, law, value});
  };
  for (const bool smallest : {true, false})
    for (size_t n = 0; n < result.kernels.size(); ++n)
      for (const Cell& cell : result.kernels[n].cells)
        if (const auto& failure = cell.failure)
          add(n, failure->law, smallest ? failure->smallest : failure->found);
  return cases;
}

class Repair {
 public:
  Repair(const RepairWords& words, const MutantCompiler& compiler,
         const Tokens& tokens, RepairRun& run)
      : words_(words),
        compiler_(compiler),
        tokens_(tokens),
        mutations_(all_mutations(tokens)),
        run_(run) {
    run_.generated = mutations_.size();
  }

  // Fills in the failing cases, or the error.
  void begin();
  // Records the lines that failing and passing cases run, as far as possible.
  void count_lines();
  void search();

 private:
  using Clock = std::chrono::steady_clock;

  void run_lane(size_t lane);
  std::vector<size_t> next_edits();
  void try_edits(const std::vector<size_t>& numbers, const std::string& folder);
  void try_alone(size_t number, const std::string& folder);
  void try_edit(size_t number, const std::string& library,
                const std::string& folder, bool is_alone);
  bool goes_on() const { return !is_stopped() && Clock::now() < end_; }
  bool is_wanted(size_t number);
  void count_as_tried();
  // Whether a library of this code was not tried yet.
  bool is_new(const std::string& code) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return code.empty() || known_.insert(code).second;
  }
  Judgement asked(OpenedLibrary& library, const FailingCase& one);
  size_t mended_by(OpenedLibrary& library);
  std::vector<FailingCase> planned(const OpenedLibrary& library) const;
  void order_by_lines(const LinesRun& marks);
  void judge(OpenedLibrary& library, RepairEdit& edit);
  RunResult plan_of(const OpenedLibrary& library, bool fail_fast, int jobs);
  bool is_stopped() const { return words_.run.stop && words_.run.stop(); }

  const RepairWords& words_;
  const MutantCompiler& compiler_;
  const Tokens& tokens_;
  const std::vector<Mutation> mutations_;
  RepairRun& run_;
  ScratchFolder scratch_{mutant_scratch()};
  std::string declared_;                // by the kernel as it is
  std::vector<size_t> waiting_;         // edits, as the seed draws them
  std::vector<size_t> sizes_;           // of the body around each edit; 0: none
  std::map<int, size_t> best_of_line_;  // failing cases that its edits mend
  bool found_ = false;
  Clock::time_point end_;
  std::mutex mutex_;
  std::set<std::string> known_;  // code of tried libraries
};

RunResult Repair::plan_of(const OpenedLibrary& library, bool fail_fast,
                          int jobs) {
  RunOptions options = words_.run;
  options.fail_fast = fail_fast;
  options.jobs = jobs;
  options.scope.dtypes = declared_dtypes(library.selected.kernels);
  return run_plan(library.selected.kernels,
                  executor_factory(library.selected, /*in_process=*/false),
                  options);
}

void Repair::begin() {
  const auto failed = [&](std::string line) { run_.error = std::move(line); };
  const std::string path = scratch_.path() + "/original.so";
  if (std::string wrong =
          build_original(compiler_, tokens_.source(), scratch_.path(), path);
      !wrong.empty())
    return failed(std::move(wrong));
  known_.insert(code_hash(path));
  const OpenedLibrary original = open_built(path, words_.selection);
  if (!original.error.empty())
    return failed(compiler_.source + ": " + original.error);
  declared_ = original.declared;
  waiting_ = drawn_order(mutations_.size(), words_.run.seed);
  const RunResult result =
      plan_of(original, /*fail_fast=*/false, words_.run.jobs);
  if (!result.error.empty()) return failed(result.error);
  run_.interrupted = result.interrupted;
  run_.failing = failing_cases(result);
  const ReportInput report{result, words_.run, original.selected};
  run_.exit = exit_code_of(report);
  if (run_.failing.empty() && run_.exit != kConforms && !run_.interrupted)
    failed(compiler_.source + ": has no verdict as it is; `qkvet check " +
           shell_quoted(compiler_.source) + "` says why");
}

void Repair::search() {
  for (const Mutation& mutation : mutations_) {
    const auto body = body_around(tokens_, mutation);
    sizes_.push_back(body ? tokens_[body->close].at - tokens_[body->open].at
                          : 0);
  }
  end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(words_.seconds));
  std::vector<std::thread> threads;
  const auto lanes = static_cast<size_t>(std::max(1, words_.run.jobs));
  for (size_t lane = 1; lane < lanes; ++lane)
    threads.emplace_back([this, lane] { run_lane(lane); });
  run_lane(0);
  for (std::thread& thread : threads) thread.join();
  run_.interrupted |= is_stopped();
  run_.out_of_time = !run_.interrupted && Clock::now() >= end_ &&
                     run_.tried < mutations_.size();
  const auto rank = [&](const RepairEdit& edit) {
    const auto operators = mutation_operators();
    const auto at = std::find_if(
        operators.begin(), operators.end(),
        [&](const Operator& one) { return one.name == edit.operation; });
    return std::tuple(!edit.conforms, -static_cast<int64_t>(edit.mends),
                      at - operators.begin(), edit.line, edit.id);
  };
  std::sort(run_.edits.begin(), run_.edits.end(),
            [&](const RepairEdit& a, const RepairEdit& b) {
              return rank(a) < rank(b);
            });
}

void Repair::run_lane(size_t lane) {
  const std::string folder = fmt::format("{}/{}", scratch_.path(), lane);
  std::error_code code;
  fs::create_directories(folder, code);
  for (;;) {
    const std::vector<size_t> numbers = next_edits();
    if (numbers.empty()) return;
    try_edits(numbers, folder);
  }
}

// Edits of lines where another edit mends something come first; once a repair
// is found, only these are left. If no edit of a line has an effect, the
// mistake is hardly there. Returns as many as fit into one library.
std::vector<size_t> Repair::next_edits() {
  std::vector<size_t> numbers;
  if (!goes_on()) return numbers;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto mended = [&](size_t number) {
    const auto known = best_of_line_.find(mutations_[number].line);
    return known == best_of_line_.end() ? 0 : known->second;
  };
  std::stable_sort(waiting_.begin(), waiting_.end(),
                   [&](size_t a, size_t b) { return mended(a) > mended(b); });
  size_t bytes = 0;
  for (const size_t number : waiting_) {
    if (found_ && mended(number) == 0) break;
    const size_t size = sizes_[number];
    const bool fits = numbers.size() < kMostTogether && size > 0 &&
                      bytes + size <= kMostBytes;
    if (!fits && !numbers.empty()) continue;
    numbers.push_back(number);
    bytes += size;
    if (size == 0) break;
  }
  std::erase_if(waiting_, [&](size_t number) {
    return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
  });
  return numbers;
}

// False if a later finding makes it unnecessary.
bool Repair::is_wanted(size_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !found_ || best_of_line_.count(mutations_[number].line) > 0;
}

void Repair::count_as_tried() {
  const std::lock_guard<std::mutex> lock(mutex_);
  run_.tried += !is_stopped();
  if (words_.progress)
    words_.progress(run_.tried, mutations_.size(),
                    static_cast<size_t>(std::count_if(
                        run_.edits.begin(), run_.edits.end(),
                        [](const auto& one) { return one.conforms; })));
}

void Repair::try_edits(const std::vector<size_t>& numbers,
                       const std::string& folder) {
  Schemata together;
  if (numbers.size() > 1)
    together = build_schemata(compiler_, tokens_, mutations_, numbers, folder);
  for (size_t n = 0; n < together.refused.size(); ++n) count_as_tried();
  const std::string copy = folder + "/chosen.so";
  for (size_t n = 0; n < together.mutants.size() && goes_on(); ++n) {
    const size_t number = together.mutants[n];
    if (!is_wanted(number)) continue;
    if (choose_mutant(together.library, n + 1, copy).empty())
      try_edit(number, copy, folder, /*is_alone=*/false);
    count_as_tried();
  }
  if (!together.library.empty()) return;
  for (const size_t number : numbers)
    if (goes_on() && is_wanted(number)) {
      try_alone(number, folder);
      count_as_tried();
    }
}

void Repair::try_alone(size_t number, const std::string& folder) {
  const std::string library = folder + "/alone.so";
  const std::string text = mutated(tokens_.source(), mutations_[number]);
  if (build_mutant(compiler_, text, folder, library).empty() &&
      is_new(code_hash(library)))
    try_edit(number, library, folder, /*is_alone=*/true);
}

void Repair::try_edit(size_t number, const std::string& library,
                      const std::string& folder, bool is_alone) {
  const Mutation& mutation = mutations_[number];
  OpenedLibrary opened = open_built(library, words_.selection);
  // An edit that weakens the declaration is no repair.
  if (!opened.error.empty() || opened.declared != declared_) return;
  RepairEdit edit;
  edit.mends = mended_by(opened);
  if (edit.mends == 0 || is_stopped()) return;
  edit.id = mutation.id();
  edit.operation = mutation.operation;
  edit.line = mutation.line;
  const std::string text = mutated(tokens_.source(), mutation);
  edit.diff = diff_text(compiler_.source, tokens_.source(), text);
  if (edit.mends == run_.failing.size()) {
    if (!is_alone) {
      // A repair is judged in the form in which it is printed.
      const std::string printed = folder + "/printed.so";
      if (!build_mutant(compiler_, text, folder, printed).empty() ||
          !is_new(code_hash(printed)))
        return;
      opened = open_built(printed, words_.selection);
      if (!opened.error.empty()) return;
    }
    judge(opened, edit);
  }
  if (is_stopped()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t& best = best_of_line_[edit.line];
  best = std::max(best, edit.mends);
  found_ |= edit.conforms;
  run_.edits.push_back(std::move(edit));
}

Judgement Repair::asked(OpenedLibrary& library, const FailingCase& one) {
  if (one.kernel >= library.selected.kernels.size()) return {};
  const KernelUnderTest& kernel = library.selected.kernels[one.kernel];
  TimeUse time;
  return check_case(*one.law, one.value, kernel.judged, kernel.index,
                    *library.executor, /*with_twin=*/false, time);
}

size_t Repair::mended_by(OpenedLibrary& library) {
  size_t mends = 0;
  for (const FailingCase& one : run_.failing) {
    const Judgement judgement = asked(library, one);
    mends += judgement.verdict == Verdict::kPassed && judgement.compared > 0;
    // Each takes seconds, and the next will probably hang, too.
    if (judgement.kind == FailureKind::kHang) break;
  }
  return mends;
}

// Cases of the failing laws, some of which will pass.
std::vector<FailingCase> Repair::planned(const OpenedLibrary& library) const {
  std::vector<FailingCase> cases;
  std::set<std::pair<size_t, const Law*>> known;
  for (const FailingCase& failing : run_.failing) {
    if (!known.insert({failing.kernel, failing.law}).second) continue;
    const KernelUnderTest& kernel = library.selected.kernels[failing.kernel];
    Scope scope = words_.run.scope;
    scope.largest = std::min(scope.largest, SizeClass::kSmall);
    scope.dtypes = declared_dtypes({kernel});
    keep_scope_to({kernel}, scope);
    for (int64_t number = 1; number <= kPlannedOfLaw; ++number)
      cases.push_back(
          {failing.kernel, failing.law,
           planned_case(*failing.law, words_.run.seed, number, scope)});
  }
  return cases;
}

void Repair::count_lines() {
  LinesRun marks(compiler_, tokens_, scratch_.path());
  const std::string library = scratch_.path() + "/marked.so";
  if (!build_mutant(compiler_, marks.text(), scratch_.path(), library).empty())
    return;
  OpenedLibrary opened = open_built(library, words_.selection);
  if (!opened.error.empty() || opened.declared != declared_) return;
  std::map<int, LineCount> counts;
  int failing = 0, passing = 0;
  const auto ask = [&](const FailingCase& one) {
    marks.forget();
    const Judgement judgement = asked(opened, one);
    const bool fails = judgement.verdict == Verdict::kFailed;
    if (!fails &&
        (judgement.verdict != Verdict::kPassed || judgement.compared == 0))
      return;
    ++(fails ? failing : passing);
    for (const int line : marks.lines()) {
      counts[line].line = line;
      ++(fails ? counts[line].failing : counts[line].passing);
    }
  };
  for (const FailingCase& one : run_.failing) ask(one);
  // If marks change the kernel's results, they show nothing about the original.
  if (failing < std::ssize(run_.failing)) return;
  const Clock::time_point start = Clock::now();
  for (const FailingCase& one : planned(opened))
    if (!is_stopped() &&
        seconds_since(start) < std::min(kSecondsOfLines, words_.seconds / 10))
      ask(one);
  for (const auto& [line, count] : counts)
    if (count.failing > 0) run_.lines.push_back(count);
  std::stable_sort(run_.lines.begin(), run_.lines.end(),
                   [&](const LineCount& a, const LineCount& b) {
                     return a.suspicion(failing) > b.suspicion(failing);
                   });
  run_.asked_failing = failing;
  run_.asked_passing = passing;
  order_by_lines(marks);
}

// An edit of a line that no failing case runs mends nothing.
void Repair::order_by_lines(const LinesRun& marks) {
  std::map<int, double> suspicion_of;
  for (const LineCount& one : run_.lines)
    suspicion_of[one.line] = one.suspicion(run_.asked_failing);
  std::vector<double> suspicion(mutations_.size(), 0);
  std::erase_if(waiting_, [&](size_t number) {
    const int line = marks.line_of(mutations_[number]);
    const auto known = suspicion_of.find(line);
    if (known != suspicion_of.end()) suspicion[number] = known->second;
    return line > 0 && known == suspicion_of.end();
  });
  // Lines that are as suspicious as one another keep the order of the seed:
  // there are many.
  std::stable_sort(waiting_.begin(), waiting_.end(), [&](size_t a, size_t b) {
    return suspicion[a] > suspicion[b];
  });
}

// Judges by the plan that the kernel failed.
void Repair::judge(OpenedLibrary& library, RepairEdit& edit) {
  const RunResult result = plan_of(library, /*fail_fast=*/true, 1);
  for (const KernelResult& kernel : result.kernels)
    for (const Cell& cell : kernel.cells) {
      edit.checked += cell.checked;
      if (cell.failure && edit.fails.empty())
        edit.fails = std::string(cell.failure->law->id) + ", " +
                     to_string(cell.failure->smallest);
    }
  const ReportInput report{result, words_.run, library.selected};
  edit.conforms = result.error.empty() && exit_code_of(report) == kConforms;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

}  // namespace

std::string diff_text(const std::string& name, const std::string& before,
                      const std::string& after) {
  const std::vector<std::string> from = lines_of(before), to = lines_of(after);
  size_t head = 0, tail = 0;
  const size_t least = std::min(from.size(), to.size());
  while (head < least && from[head] == to[head]) ++head;
  while (tail < least - head &&
         from[from.size() - 1 - tail] == to[to.size() - 1 - tail])
    ++tail;
  const auto range = [&](const std::vector<std::string>& lines) {
    const size_t count = lines.size() - head - tail;
    // For an empty range, diff names the line before it.
    return count == 1 ? fmt::format("{}", head + 1)
                      : fmt::format("{},{}", head + (count > 0), count);
  };
  std::string out = fmt::format("--- {}\n+++ {}\n@@ -{} +{} @@\n", name, name,
                                range(from), range(to));
  for (size_t n = head; n < from.size() - tail; ++n)
    out += "-" + from[n] + "\n";
  for (size_t n = head; n < to.size() - tail; ++n) out += "+" + to[n] + "\n";
  return out;
}

std::vector<LineCount> telling_lines(const RepairRun& run) {
  std::vector<LineCount> lines;
  for (const LineCount& one : run.lines) {
    if (one.failing < run.asked_failing || 2 * one.passing > run.asked_passing)
      continue;
    if (!lines.empty() && one.passing != lines[0].passing) break;
    lines.push_back(one);
  }
  return run.asked_passing > 0 ? lines : std::vector<LineCount>();
}

RepairRun run_repair(const RepairWords& words) {
  const auto start = std::chrono::steady_clock::now();
  RepairRun run;
  const std::string& source = words.selection.sources[0];
  MutantCompiler compiler;
  run.error = find_mutant_compiler(source, words.selection.cflags, &compiler);
  std::string text;
  if (run.error.empty()) run.error = read_file(source, &text);
  if (!run.error.empty()) return run;
  const Tokens tokens(text, compiler.language);
  Repair repair(words, compiler, tokens, run);
  repair.begin();
  if (run.error.empty() && !run.failing.empty() && !run.interrupted) {
    repair.count_lines();
    repair.search();
  }
  run.wall_seconds = seconds_since(start);
  return run;
}

}  // namespace qkvet::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/mutate/mutation_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "cli/mutate/continued_log.h"
#include "cli/mutate/trap.h"
#include "cli/terminal/report.h"
#include "cli/terminal/select.h"
#include "core/base/philox.h"
#include "core/base/read_file.h"
#include "core/base/sha256.h"
#include "report/lines.h"

namespace qkvet::cli {
namespace {

namespace fs = std::filesystem;
using MutantLog = ContinuedLog<MutantRecord>;

// Mutants that a thread compiles and then judges side by side.
constexpr size_t kBatch = 8;

std::string first_line(const std::string& text) {
  // The line with the error is the most informative of the compiler's output.
  const size_t error = text.find("error");
  const size_t begin =
      error == std::string::npos ? 0 : text.rfind('\n', error) + 1;
  return text.substr(begin, text.find('\n', begin) - begin);
}

std::string library_of(const std::string& folder, size_t number) {
  return fmt::format("{}/{}.so", folder, number);
}

class Mutations {
 public:
  Mutations(const MutationWords& words, const MutantCompiler& compiler,
            const Tokens& tokens, const std::vector<Mutation>& mutations,
            MutationRun& run)
      : words_(words),
        compiler_(compiler),
        tokens_(tokens),
        mutations_(mutations),
        run_(run) {
    limits_ = {words.run.laws, words.run.cases, words.run.budget,
               words.run.seed, words.run.scope, words.run.stop};
  }

  // "" or one line, with run_.exit.
  std::string begin();
  void judge(std::vector<size_t> pending, MutantLog& log);
  const std::string& original_code() const { return original_code_; }

 private:
  struct Built {
    size_t number = 0;
    OpenedLibrary library;
  };

  std::string baseline(OpenedLibrary& original);
  void run_thread(size_t lane, const std::vector<size_t>& pending,
                  std::atomic<size_t>& next, MutantLog& log);
  void run_batch(const std::string& folder, OpenedLibrary& original,
                 std::span<const size_t> batch, MutantLog& log);
  bool build(const std::string& folder, size_t number, Built& built);
  void see_what_is_reached(const std::string& folder, OpenedLibrary& original,
                           size_t number);
  void done(size_t number, MutantLog& log);
  bool is_stopped() const { return limits_.stop && limits_.stop(); }

  const MutationWords& words_;
  const MutantCompiler& compiler_;
  const Tokens& tokens_;
  const std::vector<Mutation>& mutations_;
  MutationRun& run_;
  MutantLimits limits_;
  ScratchFolder scratch_{mutant_scratch()};
  std::string original_, original_code_;
  std::mutex mutex_;
  std::map<std::string, std::string> known_;  // code to the id that has it
  size_t finished_ = 0, all_ = 0, survivors_ = 0;
  std::string broken_;  // "" or the error that ended a thread
};

std::string Mutations::begin() {
  original_ = scratch_.path() + "/original.so";
  if (std::string wrong = build_original(compiler_, tokens_.source(),
                                         scratch_.path(), original_);
      !wrong.empty())
    return wrong;
  original_code_ = code_hash(original_);
  OpenedLibrary original = open_built(original_, words_.selection);
  if (!original.error.empty()) return compiler_.source + ": " + original.error;
  return baseline(original);
}

// The kernel must pass as it is, by the plan that its mutants get.
std::string Mutations::baseline(OpenedLibrary& original) {
  RunOptions options = words_.run;
  options.fail_fast = true;
  options.scope.dtypes = declared_dtypes(original.selected.kernels);
  const RunResult result = run_plan(
      original.selected.kernels,
      executor_factory(original.selected, /*in_process=*/false), options);
  if (!result.error.empty()) return result.error;
  const ReportInput report{result, options, original.selected};
  const ExitCode exit = exit_code_of(report);
  run_.interrupted = result.interrupted;
  if (exit == kConforms || result.interrupted) return "";
  run_.exit = exit;
  for (const KernelResult& kernel : result.kernels)
    for (const Cell& cell : kernel.cells)
      if (cell.failure)
        return fmt::format(
            "{}: fails as it is, unmutated: {}, {}; `qkvet check {}` says why",
            compiler_.source, cell.law->id, to_string(cell.failure->smallest),
            shell_quoted(compiler_.source));
  return compiler_.source +
         ": has no verdict as it is, unmutated; `qkvet check " +
         shell_quoted(compiler_.source) + "` says why";
}

void Mutations::judge(std::vector<size_t> pending, MutantLog& log) {
  all_ = pending.size();
  known_[original_code_] = "";
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  const auto lanes = static_cast<size_t>(std::max(1, words_.run.jobs));
  for (size_t lane = 1; lane < lanes; ++lane)
    threads.emplace_back([&, lane] { run_thread(lane, pending, next, log); });
  run_thread(0, pending, next, log);
  for (std::thread& thread : threads) thread.join();
  if (!broken_.empty()) run_.error = broken_;
  run_.interrupted |= is_stopped();
}

void Mutations::run_thread(size_t lane, const std::vector<size_t>& pending,
                           std::atomic<size_t>& next, MutantLog& log) {
  const std::string folder = fmt::format("{}/{}", scratch_.path(), lane);
  std::error_code code;
  fs::create_directories(folder, code);
  OpenedLibrary original = open_built(original_, words_.selection);
  if (!original.error.empty()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    broken_ = original.error;
    return;
  }
  // Few mutants are still shared by all threads.
  const size_t most = std::clamp<size_t>(
      pending.size() / static_cast<size_t>(std::max(1, words_.run.jobs)), 1,
      kBatch);
  for (size_t from = next.fetch_add(most);
       from < pending.size() && !is_stopped(); from = next.fetch_add(most))
    run_batch(
        folder, original,
        std::span(pending).subspan(from, std::min(most, pending.size() - from)),
        log);
}

void Mutations::run_batch(const std::string& folder, OpenedLibrary& original,
                          std::span<const size_t> batch, MutantLog& log) {
  std::vector<std::unique_ptr<Built>> all;
  for (const size_t number : batch) {
    if (is_stopped()) return;
    auto built = std::make_unique<Built>();
    if (build(folder, number, *built))
      all.push_back(std::move(built));
    else if (!is_stopped())  // otherwise the compiler may have been stopped,
                             // too
      done(number, log);
  }
  std::vector<Contestant> contestants;
  for (const auto& built : all)
    contestants.push_back({&built->library, &run_.records[built->number]});
  MutantLimits limits = limits_;
  std::set<size_t> dead;  // and written down
  limits.killed = [&](const MutantRecord& record) {
    const auto number = static_cast<size_t>(&record - run_.records.data());
    // A request to stop may have ended its worker as well.
    if (!is_stopped() && dead.insert(number).second) done(number, log);
  };
  if (!judge_mutants(original, contestants, limits)) return;
  for (const auto& built : all) {
    built->library = {};  // its worker ends
    see_what_is_reached(folder, original, built->number);
    if (is_stopped()) return;
    if (dead.count(built->number) == 0) done(built->number, log);
    std::error_code code;
    fs::remove(library_of(folder, built->number), code);
  }
}

// False if there is nothing to judge.
bool Mutations::build(const std::string& folder, size_t number, Built& built) {
  MutantRecord& record = run_.records[number];
  const std::string library = library_of(folder, number);
  const std::string said =
      build_mutant(compiler_, mutated(tokens_.source(), mutations_[number]),
                   folder, library);
  if (!said.empty()) {
    record.fate = MutantFate::kInvalid;
    record.text = first_line(said);
    return false;
  }
  record.code = code_hash(library);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [known, is_new] = known_.try_emplace(record.code, record.id);
    if (!is_new && !record.code.empty()) {
      record.fate =
          known->second.empty() ? MutantFate::kSameCode : MutantFate::kTwin;
      record.of = known->second;
      return false;
    }
  }
  built.number = number;
  built.library = open_built(library, words_.selection);
  if (built.library.error.empty()) return true;
  record.fate = MutantFate::kKilled;
  record.how = "not opened";
  record.text = built.library.error;
  return false;
}

// Only for mutants without a visible effect: a visible one has been reached.
void Mutations::see_what_is_reached(const std::string& folder,
                                    OpenedLibrary& original, size_t number) {
  MutantRecord& record = run_.records[number];
  Survival& survival = record.survival;
  if (record.fate != MutantFate::kSurvived || survival.differ > 0 ||
      survival.refused > 0 || !survival.declares.empty() || is_stopped())
    return;
  const auto text = with_trap(tokens_, mutations_[number]);
  const std::string library = fmt::format("{}/{}-trap.so", folder, number);
  if (!text || !build_mutant(compiler_, *text, folder, library).empty()) return;
  OpenedLibrary trapped = open_built(library, words_.selection);
  MutantRecord seen;
  if (!trapped.error.empty()) {
    survival.reached = true;
    return;
  }
  if (judge_mutants(original, {{&trapped, &seen}}, limits_))
    survival.reached = seen.fate == MutantFate::kKilled;
}

void Mutations::done(size_t number, MutantLog& log) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const MutantRecord& record = run_.records[number];
  ++finished_;
  survivors_ += record.fate == MutantFate::kSurvived;
  if (const std::string error = log.add(record); !error.empty())
    broken_ = error;
  if (words_.progress) words_.progress(finished_, all_, survivors_);
}

// By the timing of threads, a twin may have been judged instead of an earlier
// one: its verdict moves to the first in the source.
void settle_twins(std::vector<MutantRecord>& records) {
  std::map<std::string, size_t> first;
  for (size_t i = 0; i < records.size(); ++i) {
    MutantRecord& record = records[i];
    if (record.code.empty() || record.fate == MutantFate::kSameCode ||
        record.fate == MutantFate::kInvalid)
      continue;
    const auto [place, is_new] = first.try_emplace(record.code, i);
    MutantRecord& leader = records[place->second];
    if (is_new) continue;
    if (leader.fate == MutantFate::kTwin && record.fate != MutantFate::kTwin) {
      leader.fate = record.fate;
      leader.how = record.how;
      leader.law = record.law;
      leader.text = record.text;
      leader.number = record.number;
      leader.survival = record.survival;
      leader.of = "";
      record.survival = {};
      record.how = record.law = record.text = "";
      record.number = 0;
    }
    record.fate = MutantFate::kTwin;
    record.of = leader.id;
  }
}

MutantRecord record_of(const std::string& source, const Mutation& mutation) {
  MutantRecord record;
  record.id = mutation.id();
  record.operation = mutation.operation;
  record.line = mutation.line;
  const ChangedLine line = changed_line(source, mutation);
  record.before = line.before;
  record.after = line.after;
  return record;
}

// Keeps the requested mutations, in the order of the source; "" or one line.
std::string choose(const MutationWords& words, const std::string& source,
                   std::vector<Mutation>& mutations) {
  std::vector<Mutation> chosen;
  if (!words.only.empty()) {
    for (Mutation& one : mutations)
      if (one.id() == words.only) chosen.push_back(std::move(one));
    if (chosen.empty())
      return fmt::format(
          "--only {}: {} has no such mutant; `qkvet mutate {} --list` shows "
          "all",
          words.only, source, shell_quoted(source));
  } else {
    for (const size_t i :
         sample_of(mutations.size(), words.sample, words.run.seed))
      chosen.push_back(std::move(mutations[i]));
  }
  mutations = std::move(chosen);
  return "";
}

// Everything on which the verdicts depend: a folder with another head is not
// continued.
Json head_of(const MutationWords& words, const Tokens& tokens,
             const std::string& code) {
  Json head;
  head["type"] = "start";
  head["schema"] = kSchema;
  head["source"] = words.selection.sources[0];
  head["text"] = sha256_hex(std::as_bytes(std::span(tokens.source())));
  head["code"] = code;
  head["seed"] = words.run.seed;
  head["cases"] = words.run.cases;
  head["budget"] = words.run.budget.value_or(0);
  std::vector<std::string> laws;
  for (const Law* law : words.run.laws) laws.emplace_back(law->id);
  head["laws"] = laws.size() == all_laws().size() ? "all" : joined(laws, ",");
  return head;
}

}  // namespace

std::vector<size_t> drawn_order(size_t count, uint64_t seed) {
  std::vector<size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  constexpr uint32_t kStream = 0x6d757461;  // a separate one
  std::stable_sort(numbers.begin(), numbers.end(), [&](size_t a, size_t b) {
    const auto key = [&](size_t n) {
      return philox_u64(seed, static_cast<uint32_t>(n), kStream, 0);
    };
    return key(a) < key(b);
  });
  return numbers;
}

std::vector<size_t> sample_of(size_t count, size_t most, uint64_t seed) {
  std::vector<size_t> numbers = drawn_order(count, seed);
  if (most > 0 && most < count) numbers.resize(most);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::vector<Mutation> mutations_of(const std::string& source,
                                   std::string* error) {
  Language language = Language::kCxx;
  std::string text;
  *error = source_language(source, &language);
  if (!error->empty()) *error = source + ": " + *error;
  if (error->empty()) *error = read_file(source, &text);
  return error->empty() ? all_mutations(Tokens(text, language))
                        : std::vector<Mutation>{};
}

OneMutant one_mutant(const std::string& source, const std::string& id) {
  OneMutant one;
  std::vector<Mutation> mutations = mutations_of(source, &one.error);
  MutationWords words;
  words.only = id;
  if (one.error.empty()) one.error = choose(words, source, mutations);
  std::string text;
  if (one.error.empty()) one.error = read_file(source, &text);
  if (!one.error.empty()) return one;
  one.text = mutated(text, mutations[0]);
  one.line = changed_line(text, mutations[0]);
  return one;
}

MutationRun run_mutation(const MutationWords& words) {
  const auto start = std::chrono::steady_clock::now();
  MutationRun run;
  const std::string& source = words.selection.sources[0];
  MutantCompiler compiler;
  run.error = find_mutant_compiler(source, words.selection.cflags, &compiler);
  std::string text;
  if (run.error.empty()) run.error = read_file(source, &text);
  if (!run.error.empty()) return run;
  const Tokens tokens(text, compiler.language);
  std::vector<Mutation> mutations = all_mutations(tokens);
  run.generated = mutations.size();
  run.error = choose(words, source, mutations);
  if (!run.error.empty()) return run;
  for (const Mutation& one : mutations)
    run.records.push_back(record_of(text, one));

  Mutations all(words, compiler, tokens, mutations, run);
  run.error = all.begin();
  if (run.interrupted) run.records.clear();
  if (!run.error.empty() || run.interrupted) return run;
  MutantLog log;
  run.error = log.open(words.out, "mutants.jsonl",
                       head_of(words, tokens, all.original_code()));
  if (!run.error.empty()) return run;
  std::vector<size_t> pending;
  for (size_t i = 0; i < run.records.size(); ++i) {
    if (const MutantRecord* known = log.find(run.records[i].id))
      run.records[i] = *known, ++run.kept;
    else
      pending.push_back(i);
  }
  std::vector<char> is_done(run.records.size(), 1);
  for (const size_t i : pending) is_done[i] = 0;
  all.judge(pending, log);
  // Mutants that were not reached before the end have no verdict.
  std::vector<MutantRecord> records;
  for (size_t i = 0; i < run.records.size(); ++i)
    if (is_done[i] || log.find(run.records[i].id) != nullptr)
      records.push_back(std::move(run.records[i]));
  run.records = std::move(records);
  settle_twins(run.records);
  run.wall_seconds = seconds_since(start);
  return run;
}

}  // namespace qkvet::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/mutate/diagnosis_scores.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "cli/mutate/continued_log.h"
#include "cli/mutate/mutant_build.h"
#include "cli/mutate/mutant_run.h"
#include "cli/mutate/mutation_run.h"
#include "cli/mutate/repair.h"
#include "cli/terminal/diagnoses.h"
#include "cli/terminal/select.h"
#include "core/base/read_file.h"
#include "core/base/sha256.h"
#include "diagnosis/diagnose.h"
#include "properties/run/runner.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kJudgesSeed = 0x4A55;  // that no search uses

const char* certainty_word(Certainty certainty) {
  return certainty == Certainty::kSure     ? "sure"
         : certainty == Certainty::kLikely ? "likely"
                                           : "unknown";
}

using ScoreLog = ContinuedLog<DiagnosedMutant>;

// The mutants of one source.
class ScoredKernel {
 public:
  ScoredKernel(const MutatedKernel& which, const ScoreWords& words,
               Catalogue& catalogue)
      : which_(which), words_(words), catalogue_(catalogue) {}

  // "" or one line.
  std::string begin() {
    if (const std::string error =
            find_mutant_compiler(which_.source, which_.cflags, &compiler_);
        !error.empty())
      return error;
    if (std::string wrong = read_file(which_.source, &source_); !wrong.empty())
      return wrong;
    for (const KnownStage& known : words_.stages)
      if (known.kernel == which_.kernel &&
          source_.find(known.part) == std::string::npos)
        return which_.source + ": no line has \"" + known.part +
               "\", which is to have a known stage";
    mutations_ = all_mutations(Tokens(source_, compiler_.language));
    order_ = drawn_order(mutations_.size(), words_.seed);
    if (!words_.only.empty())
      std::erase_if(
          order_, [&](size_t n) { return mutations_[n].id() != words_.only; });
    return "";
  }

  // Until so many are killed.
  void score(size_t count, ScoreLog& log, std::vector<DiagnosedMutant>& out) {
    size_t killed = 0;
    for (const size_t n : order_) {
      if (killed == count) break;
      const DiagnosedMutant* known = log.find(which_.kernel + " " + id_of(n));
      DiagnosedMutant mutant = known != nullptr ? *known : diagnosed(n);
      if (known == nullptr) log.add(mutant);
      killed += mutant.is_scored();
      if (words_.done) words_.done(mutant);
      out.push_back(std::move(mutant));
    }
  }

 private:
  std::string id_of(size_t n) const { return mutations_[n].id(); }

  DiagnosedMutant diagnosed(size_t n) {
    DiagnosedMutant out;
    const ChangedLine line = changed_line(source_, mutations_[n]);
    out.kernel = which_.kernel;
    out.id = id_of(n);
    out.before = line.before;
    out.after = line.after;
    const std::string library = built(mutated(source_, mutations_[n]));
    if (library.empty()) {
      out.fate = "does not compile";
      return out;
    }
    const std::string code = code_hash(library);
    if (codes_.empty()) codes_.insert(code_hash(built(source_)));
    if (!code.empty() && !codes_.insert(code).second) {
      out.fate = "same code";
      return out;
    }
    OpenedLibrary opened = open_built(library, {});
    if (!opened.error.empty()) {
      out.fate = "cannot be opened";
      return out;
    }
    diagnose_in(opened, out);
    if (out.is_scored() && words_.repair_seconds > 0) search_edit(n, out);
    return out;
  }

  void search_edit(size_t n, DiagnosedMutant& out) {
    const fs::path folder = fs::path(scratch_.path()) / "repair";
    std::error_code code;
    fs::create_directories(folder, code);
    const std::string path =
        (folder / fs::path(which_.source).filename()).string();
    if (!write_file(path, mutated(source_, mutations_[n])).empty()) return;
    RepairWords words;
    words.selection.sources = {path};
    words.selection.cflags = which_.cflags;
    words.selection.kernels = {which_.kernel};
    words.run.laws.assign(all_laws().begin(), all_laws().end());
    words.run.cases = kMutantCases;
    words.run.jobs =
        static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    words.seconds = words_.repair_seconds;
    const RepairRun run = run_repair(words);
    out.is_searched = run.error.empty() && !run.failing.empty();
    out.line = mutations_[n].line;
    out.repair_seconds = run.wall_seconds;
    const auto name = [&](int line) {
      if (out.named_lines.size() < 3 &&
          std::find(out.named_lines.begin(), out.named_lines.end(), line) ==
              out.named_lines.end())
        out.named_lines.push_back(line);
    };
    for (const RepairEdit& edit : run.edits) out.is_repaired |= edit.conforms;
    // In the order of the report: edits come first, unless none makes it
    // conform.
    if (!out.is_repaired)
      for (const LineCount& one : telling_lines(run)) name(one.line);
    for (const RepairEdit& edit : run.edits) name(edit.line);
  }

  // Built libraries are kept by their text. "": it does not compile.
  std::string built(const std::string& text) {
    const std::string folder =
        words_.out.empty() ? scratch_.path() : words_.out + "/built";
    std::error_code code;
    fs::create_directories(folder, code);
    const std::string made_of =
        which_.source + "\n" + which_.cflags + "\n" + text;
    const std::string path =
        folder + "/" +
        sha256_hex(std::as_bytes(std::span(made_of))).substr(0, 16) + ".so";
    if (fs::exists(path, code)) return path;
    const std::string part = scratch_.path() + "/part.so";
    if (!build_mutant(compiler_, text, scratch_.path(), part).empty())
      return "";
    fs::copy_file(part, path, code);
    return code ? part : path;
  }

  void diagnose_in(OpenedLibrary& opened, DiagnosedMutant& out) {
    std::vector<KernelUnderTest> kernels;
    for (const KernelUnderTest& kernel : opened.selected.kernels)
      if (kernel.judged.info.name == which_.kernel) kernels.push_back(kernel);
    if (kernels.empty()) {
      out.fate = "has another name";
      return;
    }
    RunOptions options;
    options.laws.assign(all_laws().begin(), all_laws().end());
    options.cases = words_.cases;
    options.fail_fast = true;
    options.scope.dtypes = declared_dtypes(kernels);
    const RunResult result = run_plan(
        kernels, executor_factory(opened.selected, /*in_process=*/false),
        options);
    std::vector<const Failure*> failures;
    for (const KernelResult& kernel : result.kernels)
      for (const Cell& cell : kernel.cells)
        if (cell.failure) failures.push_back(&*cell.failure);
    out.fate = failures.empty() ? "survived" : "killed";
    if (failures.empty()) return;
    TimeUse time;
    const Clock::time_point start = Clock::now();
    const std::vector<CauseOfFailures> causes =
        diagnose_all(failures, kernels[0], *opened.executor, catalogue_, time);
    out.seconds = seconds_since(start);
    const CauseOfFailures& first = causes.at(0);
    const FailsWhere& where = first.diagnosis.where;
    out.law = first.best->law->id;
    out.cause = first.diagnosis.name();
    out.certainty = certainty_word(first.diagnosis.certainty);
    out.sentence = where.text();
    out.is_claimed = where.is_known();
    out.calls = where.calls;
    const FreshVerdicts fresh = predict_fresh(
        where, kJudgesSeed, words_.fresh, {kernels[0], *opened.executor, time});
    out.right = fresh.right;
    out.all = fresh.all;
    out.failing = fresh.failing;
    const Instead& instead = first.diagnosis.instead;
    out.instead = instead.text();
    out.is_described = instead.is_description();
    const InsteadScore score = score_instead(
        instead, *first.best, where, {kernels[0], *opened.executor, time},
        kJudgesSeed, words_.fresh);
    out.described = score.all;
    out.described_rightly = score.right;
    out.stage = stage_name(instead.stage);
    out.known_stage = stage_name(
        known_stage(words_.stages, which_.kernel, out.before, out.after));
  }

  const MutatedKernel& which_;
  const ScoreWords& words_;
  Catalogue& catalogue_;
  ScratchFolder scratch_{mutant_scratch()};
  MutantCompiler compiler_;
  std::string source_;
  std::vector<Mutation> mutations_;
  std::vector<size_t> order_;
  std::set<std::string> codes_;
};

struct ScoreCounts {
  int killed = 0, right = 0, wrong = 0, none = 0, sure = 0;
  std::vector<double> seconds;
  int told = 0, told_wrong = 0, told_nothing = 0;      // descriptions
  int staged = 0, staged_wrong = 0, staged_never = 0;  // of known lines

  int searched = 0, first = 0, among_three = 0, repaired = 0;
  std::vector<double> repair_seconds;

  void add(const DiagnosedMutant& mutant) {
    if (!mutant.is_scored()) return;
    add_search(mutant);
    ++killed;
    right += mutant.is_claimed && mutant.is_true();
    wrong += mutant.is_claimed && !mutant.is_true();
    none += !mutant.is_claimed;
    sure += mutant.certainty == "sure";
    seconds.push_back(mutant.seconds);
    ++(!mutant.is_described           ? told_nothing
       : mutant.is_description_true() ? told
                                      : told_wrong);
    if (mutant.known_stage.empty()) return;
    ++(mutant.stage.empty()                 ? staged_never
       : mutant.stage == mutant.known_stage ? staged
                                            : staged_wrong);
  }

  void add_search(const DiagnosedMutant& mutant) {
    if (!mutant.is_searched) return;
    const int place = mutant.place_of_line();
    ++searched;
    first += place == 1;
    among_three += place > 0;
    repaired += mutant.is_repaired;
    repair_seconds.push_back(mutant.repair_seconds);
  }

  static std::vector<double> in_order(std::vector<double> numbers) {
    std::sort(numbers.begin(), numbers.end());
    if (numbers.empty()) numbers.push_back(0);
    return numbers;
  }

  std::string search_row(const std::string& name) const {
    const std::vector<double> sorted = in_order(repair_seconds);
    return fmt::format("| {} | {} | {} | {} | {} | {:.0f} s | {:.0f} s |\n",
                       name, searched, first, among_three, repaired,
                       sorted[sorted.size() / 2], sorted.back());
  }

  std::string row(const std::string& name) const {
    const std::vector<double> sorted = in_order(seconds);
    return fmt::format(
        "| {} | {} | {} | {} | {} | {} | {:.1f} s | {:.1f} s |\n", name, killed,
        right, wrong, none, sure, sorted[sorted.size() / 2], sorted.back());
  }

  std::string instead_row(const std::string& name) const {
    return fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", name, told,
                       told_wrong, told_nothing, staged, staged_wrong,
                       staged_never);
  }
};

// Whether the characters in which two lines differ are within this part of the
// first.
bool lies_in(const std::string& part, const std::string& before,
             const std::string& after) {
  const size_t at = before.find(part);
  if (at == std::string::npos) return false;
  const auto [differs, in_after] =
      std::mismatch(before.begin(), before.end(), after.begin(), after.end());
  const auto [rest, rest_of_after] =
      std::mismatch(before.rbegin(), std::make_reverse_iterator(differs),
                    after.rbegin(), std::make_reverse_iterator(in_after));
  const auto first = static_cast<size_t>(differs - before.begin());
  const auto end = static_cast<size_t>(rest.base() - before.begin());
  return first >= at && end <= at + part.size();
}

}  // namespace

Stage known_stage(const std::vector<KnownStage>& stages,
                  const std::string& kernel, const std::string& before,
                  const std::string& after) {
  for (const KnownStage& known : stages)
    if (known.kernel == kernel &&
        (known.holds_change ? lies_in(known.part, before, after)
                            : before.find(known.part) != std::string::npos))
      return known.stage;
  return Stage::kUnknown;
}

int DiagnosedMutant::place_of_line() const {
  const auto found = std::find(named_lines.begin(), named_lines.end(), line);
  return found == named_lines.end()
             ? 0
             : static_cast<int>(found - named_lines.begin()) + 1;
}

std::vector<DiagnosedMutant> score_diagnoses(const ScoreWords& words,
                                             std::string* error) {
  std::vector<DiagnosedMutant> out;
  Json head = {{"seed", words.seed},
               {"cases", words.cases},
               {"fresh", words.fresh},
               {"describes", true}};
  if (words.repair_seconds > 0) head["repair"] = words.repair_seconds;
  ScoreLog log;
  *error = log.open(words.out, "diagnosed.jsonl", head);
  if (!error->empty()) return out;
  const std::unique_ptr<Catalogue> catalogue = known_faults(error);
  if (!error->empty()) return out;
  for (size_t n = 0; n < words.kernels.size(); ++n) {
    ScoredKernel kernel(words.kernels[n], words, *catalogue);
    *error = kernel.begin();
    if (!error->empty()) return out;
    // The remainder goes to the first.
    const size_t share = words.count / words.kernels.size() +
                         (n < words.count % words.kernels.size() ? 1 : 0);
    kernel.score(share, log, out);
  }
  return out;
}

std::string scores_text(const std::vector<DiagnosedMutant>& mutants) {
  std::vector<std::string> names;
  std::map<std::string, ScoreCounts> of;
  ScoreCounts all;
  for (const DiagnosedMutant& mutant : mutants) {
    if (of.count(mutant.kernel) == 0) names.push_back(mutant.kernel);
    of[mutant.kernel].add(mutant);
    all.add(mutant);
  }
  std::string text =
      "| kernel | killed mutants | sentence, right | sentence, wrong | no "
      "sentence | cause sure | median | slowest |\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const std::string& name : names) text += of[name].row(name);
  text += all.row("all");
  text +=
      "\n| kernel | description, right | description, wrong | none | stage, "
      "right | stage, wrong | no stage |\n|---|---|---|---|---|---|---|\n";
  for (const std::string& name : names) text += of[name].instead_row(name);
  text += all.instead_row("all");
  if (all.searched == 0) return text;
  text +=
      "\n| kernel | searched | changed line first | among the first three | "
      "made to conform | median | longest |\n|---|---|---|---|---|---|---|\n";
  for (const std::string& name : names) text += of[name].search_row(name);
  return text + all.search_row("all");
}

}  // namespace qkvet::cli

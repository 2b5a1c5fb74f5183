// SPDX-License-Identifier: Apache-2.0
// Prints how often diagnoses of mutants of built-in kernels are right: a line
// for each mutant as it is done, then the table of diagnosis/report.md.
#include <cstdio>

#include "cli/describe/command_line.h"
#include "cli/mutate/diagnosis_scores.h"
#include "report/exit_code.h"

namespace qkvet::cli {
namespace {

// From the build: kernel, source, flags with the other objects.
const std::vector<MutatedKernel>& kernels_here() {
  static const std::vector<MutatedKernel> kernels = {
#include QKVET_MUTATED_KERNELS
  };
  return kernels;
}

// Stages of their lines. The stage of a line without a row is not scored: a
// loop over channels, for example, can be wrong in several ways. Neither is the
// stage of an exponential, which ends the scores and begins the softmax.
const std::vector<KnownStage>& stages_here() {
  static const std::vector<KnownStage> stages = {
      {"scalar/plain", "weights[", Stage::kOutput},
      {"scalar/plain", "softcap", Stage::kScores},
      {"scalar/plain", "bias", Stage::kBias},
      {"scalar/plain", "slopes", Stage::kBias},
      {"scalar/plain", "distance", Stage::kBias},
      {"scalar/plain", "call.q.at", Stage::kScores},
      {"scalar/plain", "call.k.at", Stage::kScores},
      {"scalar/plain", "dot", Stage::kScores},
      {"scalar/plain", "c < call.width", Stage::kScores},
      {"scalar/plain", "max + std::log(sum)", Stage::kLse},
      {"scalar/plain", "call.lse", Stage::kLse},
      {"scalar/plain", "fmax", Stage::kSoftmax},
      {"scalar/plain", "std::exp", Stage::kUnknown},
      {"scalar/plain", "sum += row.scores", Stage::kSoftmax},
      {"scalar/plain", "/= sum", Stage::kSoftmax},
      {"scalar/plain", "kept(row, n)", Stage::kValues},
      {"scalar/plain", "call.v.", Stage::kValues},
      {"scalar/plain", "list_keys", Stage::kKeys},
      {"scalar/plain", "call.o.", Stage::kOutput},
      {"eigen/plain", "call.lse.data", Stage::kLse},
      {"eigen/plain", "/ sums[r]", Stage::kSoftmax, true},
      {"eigen/plain", "/ sum", Stage::kSoftmax, true},
      {"eigen/plain", "acc.row(r) /", Stage::kValues, true},
      {"eigen/plain", "head->o.row", Stage::kOutput},
      {"eigen/plain", "acc.", Stage::kValues},
      {"eigen/plain", "row_acc.noalias", Stage::kValues},
      {"eigen/plain", "maxCoeff", Stage::kSoftmax},
      {"eigen/plain", "(row - max).exp()", Stage::kUnknown},
      {"eigen/plain", "row.sum()", Stage::kSoftmax},
      {"eigen/plain", "max + std::log(sum)", Stage::kLse},
      {"eigen/plain", "lse[", Stage::kLse},
      {"eigen/plain", "call.q.", Stage::kScores},
      {"eigen/plain", "call.k.", Stage::kScores},
      {"eigen/plain", "head.q.", Stage::kScores},
      {"eigen/plain", "head.k.", Stage::kScores},
      {"eigen/plain", "call.scale", Stage::kScores},
      {"eigen/plain", "dropout.factor", Stage::kValues},
      {"eigen/plain", "call.v.", Stage::kValues},
      {"eigen/plain", "->v.", Stage::kValues},
      {"eigen/plain", "row.segment", Stage::kValues},
      {"eigen/plain", "call.o.", Stage::kOutput},
      {"eigen/plain", "list_keys", Stage::kKeys},
      {"avx2/flash", "empty ? -INFINITY", Stage::kEmptyRows, true},
      {"avx2/flash", "max[r], sum[r]", Stage::kUnknown, true},
      {"avx2/flash", "write_row", Stage::kOutput},
      {"avx2/flash", "pack_queries", Stage::kScores},
      {"avx2/flash", "values(", Stage::kValues},
      {"avx2/flash", "empty = row.keys", Stage::kEmptyRows},
      {"avx2/flash", "max = ", Stage::kSoftmax},
      {"avx2/flash", "max[", Stage::kSoftmax},
      {"avx2/flash", "exp_nonpositive", Stage::kUnknown},
      {"avx2/flash", "row_weights", Stage::kSoftmax},
      {"avx2/flash", "score_panel", Stage::kScores},
      {"avx2/flash", "head.scale", Stage::kScores},
      {"avx2/flash", "value_panel", Stage::kValues},
      {"avx2/flash", "* factor[r]", Stage::kSoftmax},
      {"avx2/flash", "logf(sum)", Stage::kLse},
      {"avx2/flash", "1 / sum", Stage::kSoftmax},
      {"avx2/flash", "storeu", Stage::kOutput},
      {"avx2/flash", "maskstore", Stage::kOutput},
      {"avx2/flash", "c < head.value_width", Stage::kOutput},
      // The page that appended tokens get: their own, or the copy of a shared
      // one.
      {"kv_cache/paged", "copies", Stage::kUnknown},
      {"kv_cache/paged", "reading", Stage::kWritten},
      {"kv_cache/paged", "load_rows", Stage::kWritten},
      {"kv_cache/paged", "store_token", Stage::kWritten},
      {"kv_cache/paged", "step.tokens", Stage::kWritten},
      {"kv_cache/paged", "token % page_tokens", Stage::kWritten},
      {"kv_cache/paged", "token / page_tokens", Stage::kWritten},
      {"kv_cache/paged", "before + j", Stage::kWritten},
      {"kv_cache/paged", "own(", Stage::kMoved},
      {"kv_cache/paged", "shared", Stage::kMoved},
      {"kv_cache/paged", "from ", Stage::kMoved},
      {"kv_cache/paged", "to % page_tokens", Stage::kMoved},
      {"kv_cache/paged", "to / page_tokens", Stage::kMoved},
      {"kv_cache/paged", "release(", Stage::kMoved},
      {"kv_cache/paged", "parent", Stage::kMoved},
      {"kv_cache/paged", "head * page_tokens();", Stage::kMoved}};
  return stages;
}

void print(const DiagnosedMutant& mutant) {
  if (!mutant.is_scored()) return;
  const char* word = !mutant.is_claimed ? "----"
                     : mutant.is_true() ? "ok  "
                                        : "BAD ";
  const char* told = !mutant.is_described           ? "----"
                     : mutant.is_description_true() ? "ok  "
                                                    : "BAD ";
  std::printf("%s %-14s %-22s %3d/%3d %5.1f s  %s: %s\n    - %s\n    + %s\n",
              word, mutant.kernel.c_str(), mutant.id.c_str(), mutant.right,
              mutant.all, mutant.seconds, mutant.law.c_str(),
              mutant.sentence.c_str(), mutant.before.c_str(),
              mutant.after.c_str());
  std::printf("%s   %3d/%3d  %s stage %s (%s)\n", told,
              mutant.described_rightly, mutant.described,
              mutant.instead.c_str(), mutant.stage.c_str(),
              mutant.known_stage.c_str());
  if (!mutant.cause.empty())
    std::printf("       %s: %s\n", mutant.certainty.c_str(),
                mutant.cause.c_str());
  if (mutant.is_searched) {
    std::string lines;
    for (const int line : mutant.named_lines)
      lines += " " + std::to_string(line);
    std::printf("       line %d:%s%s, %.1f s\n", mutant.line,
                lines.empty() ? " none is named" : lines.c_str(),
                mutant.is_repaired ? ", conforms" : "", mutant.repair_seconds);
  }
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  CLI::App app(
      "Diagnoses mutants of kernels here, and counts how often the reports are "
      "true",
      "diagnosis_scores");
  ScoreWords words;
  std::string kernel;
  app.add_option("--count", words.count, "Killed mutants, all kernels together")
      ->check(CLI::Range(size_t{1}, size_t{100'000}));
  app.add_option("--seed", words.seed, "Number that the mutants are drawn by");
  app.add_option("-n,--cases", words.cases, "Cases that have to kill a mutant")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}));
  app.add_option("--out", words.out,
                 "Folder that keeps what is done; a later run goes on from it");
  app.add_option("--repair", words.repair_seconds,
                 "Seconds for a search for the edit that puts each right; 0: "
                 "there is none")
      ->check(CLI::Range(0.0, 86'400.0));
  app.add_option("--kernel", kernel, "One of the kernels: scalar/plain, ...");
  app.add_option("--only", words.only, "One mutant, by its id");
  std::string error;
  if (read_command_line(app, argc, argv, &error) == CommandLine::kShown)
    return kConforms;
  std::string names;
  for (const MutatedKernel& one : kernels_here()) {
    names += (names.empty() ? "" : ", ") + one.kernel;
    if (kernel.empty() || kernel == one.kernel) words.kernels.push_back(one);
  }
  if (error.empty() && words.kernels.empty())
    error = "--kernel " + kernel + ": is none of those that are mutated (" +
            names + ")";
  words.stages = stages_here();
  words.done = print;
  std::vector<DiagnosedMutant> mutants;
  if (error.empty()) mutants = score_diagnoses(words, &error);
  if (!error.empty()) {
    std::fprintf(stderr, "diagnosis_scores: %s\n", error.c_str());
    return kWrongUse;
  }
  std::printf("\n%s", scores_text(mutants).c_str());
  return kConforms;
}

}  // namespace
}  // namespace qkvet::cli

int main(int argc, char** argv) { return qkvet::cli::run(argc, argv); }

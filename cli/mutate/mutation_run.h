// SPDX-License-Identifier: Apache-2.0
// All mutants of a source, or a sample: made, compiled, judged, each written
// down as it is done.
#ifndef QKVET_CLI_MUTATE_MUTATION_RUN_H_
#define QKVET_CLI_MUTATE_MUTATION_RUN_H_

#include <functional>
#include <string>
#include <vector>

#include "cli/mutate/mutant_build.h"
#include "cli/mutate/mutant_run.h"
#include "cli/mutate/operators.h"
#include "properties/run/runner.h"
#include "report/exit_code.h"

namespace qkvet::cli {

// Per mutant: a survivor of a small kernel takes some seconds.
inline constexpr int64_t kMutantCases = 1024;

struct MutationWords {
  KernelSelection selection;  // one source, cflags, dialect, precision
  RunOptions run;             // laws, cases, budget, seed, scope, jobs, stop
  size_t sample = 0;          // 0: all
  std::string only;           // the id of one; "" for all
  std::string flags;          // as they were given: " --cases 256"
  std::string out;            // folder with finished mutants; "" for none
  std::function<void(size_t done, size_t all, size_t survivors)> progress = {};
};

struct MutationRun {
  std::vector<MutantRecord> records;  // in the order of the source
  size_t generated = 0;               // the records are a sample of these
  size_t kept = 0;                    // that an earlier run had judged
  bool interrupted = false;
  double wall_seconds = 0;
  // One line, and the exit code of the program; if set, ignore the other
  // fields. A kernel that fails unmutated has the code of `check`.
  std::string error;
  ExitCode exit = kWrongUse;
};

MutationRun run_mutation(const MutationWords& words);

// All mutations of a source, in its order; none with one line in *error.
std::vector<Mutation> mutations_of(const std::string& source,
                                   std::string* error);

// The source with the mutation of this id; an error is one line.
struct OneMutant {
  std::string text;
  ChangedLine line;
  std::string error;
};
OneMutant one_mutant(const std::string& source, const std::string& id);

// The numbers below `count` in the order in which a seed draws them.
std::vector<size_t> drawn_order(size_t count, uint64_t seed);

// A sample of `most`, in the given order; it depends only on the ids and the
// seed.
std::vector<size_t> sample_of(size_t count, size_t most, uint64_t seed);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_MUTATE_MUTATION_RUN_H_

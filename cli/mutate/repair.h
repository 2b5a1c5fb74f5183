// SPDX-License-Identifier: Apache-2.0
// Mutation in reverse: finds the single edits that make a failing kernel
// conform, with the operators by which `qkvet mutate` adds mistakes. An edit
// that mends only some of the failing cases shows at least where to search
// (mutants as fault localisation: Moon, Kim, Kim and Yoo, "Ask the Mutants",
// ICST 2014).
#ifndef QKVET_CLI_MUTATE_REPAIR_H_
#define QKVET_CLI_MUTATE_REPAIR_H_

#include <functional>
#include <string>
#include <vector>

#include "cli/kernels/kernels.h"
#include "cli/mutate/lines_run.h"
#include "properties/run/runner.h"
#include "report/exit_code.h"

namespace qkvet::cli {

struct RepairWords {
  KernelSelection selection;  // one source, cflags, dialect, precision
  RunOptions run;             // laws, cases, seed, scope, jobs, stop
  double seconds = 0;         // for the edits, without the kernel's own run
  std::function<void(size_t done, size_t all, size_t found)> progress = {};
};

// A case that the kernel fails as it is.
struct FailingCase {
  size_t kernel = 0;  // of the source's
  const Law* law = nullptr;
  Case value;
};

struct RepairEdit {
  std::string id, operation;
  int line = 0;
  std::string diff;       // unified, without context, as patch(1) takes it
  size_t mends = 0;       // failing cases that pass with it
  bool conforms = false;  // and so does the whole plan
  int64_t checked = 0;    // cases of the plan, over all laws, until it ended
  std::string fails;      // otherwise "law, case" of the plan, or ""
};

struct RepairRun {
  std::vector<FailingCase> failing;
  // Edits that mend something: conforming ones first, then by the number of
  // mended cases; equals in the order of the operators, then of the source.
  std::vector<RepairEdit> edits;
  // Lines that failing cases run, the most suspicious first; empty if unknown.
  // asked_failing and asked_passing count the cases run for it, all of laws
  // that fail.
  std::vector<LineCount> lines;
  int asked_failing = 0, asked_passing = 0;
  size_t generated = 0, tried = 0;
  bool interrupted = false;
  bool out_of_time = false;
  double wall_seconds = 0;
  // One line, and the exit code of the program; if set, ignore the other
  // fields.
  std::string error;
  ExitCode exit = kWrongUse;
};

// Lines that all failing cases run, and that fewer passing ones run than any
// other line. Empty if more than half of the passing cases run them: this is
// too little evidence.
std::vector<LineCount> telling_lines(const RepairRun& run);

// Without failing cases and without an error the kernel conforms as it is.
RepairRun run_repair(const RepairWords& words);

// 0: it conforms unchanged, or one edit makes it; 1: no edit does; 3: the
// search did not finish and has found none.
ExitCode repair_exit(const RepairRun& run);

// For people, with `most` edits at most.
std::string repair_text(const RepairWords& words, const RepairRun& run,
                        size_t most);
// JSON Lines: a line an edit, a summary.
std::string repair_json(const RepairWords& words, const RepairRun& run);

// The difference of two texts in one place, as `diff -U0` prints it.
std::string diff_text(const std::string& name, const std::string& before,
                      const std::string& after);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_MUTATE_REPAIR_H_

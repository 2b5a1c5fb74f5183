// SPDX-License-Identifier: Apache-2.0
// Common parts of several commands: the words of a run, laws by their names,
// one case under one law, the screen.
#ifndef QKVET_CLI_TERMINAL_SELECT_H_
#define QKVET_CLI_TERMINAL_SELECT_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/kernels/kernels.h"
#include "cli/terminal/diagnoses.h"
#include "report/exit_code.h"

namespace qkvet::properties {
struct Law;
}  // namespace qkvet::properties

namespace qkvet::cli {

// The words of a run, as text, for `qkvet check` and the Python package.
struct RunWords {
  std::vector<std::string> laws;  // globs; empty: all
  std::optional<int64_t> cases;   // absent: kDefaultCases, or the short plan
  std::string budget;             // "60s", "2m", "" for none
  bool exhaustive = false;
  std::string seed = "1";
  int jobs = 0;                // 0: one per core
  std::string sizes = "long";  // small, medium, large, long
  std::string strict;          // "all", "dialect" (conventions only), ""
  std::string pin;             // "d=72,Tk=64"; "" for none
  bool fail_fast = false;
  std::string shard;  // "2/4"; "" for the whole plan
};
// Options that differ from their defaults, for a shell: " --law x --cases 256".
// Without the number of threads, which changes nothing.
std::string flags_of(const RunWords& words);
// Reads these words into `run`. "" or one line.
std::string read_run_words(const RunWords& words, RunOptions& run);

// One case under one law, in the form that reports take. `after`: in a new
// process, after one call of each of these.
KernelResult replay_one(const Law& law, const Case& value,
                        const KernelUnderTest& kernel, Executor& executor,
                        TimeUse& time, const std::vector<Case>& after = {});

double seconds_since(std::chrono::steady_clock::time_point start);

// Prints one line on stderr, and returns kWrongUse.
ExitCode wrong_use(const std::string& line);

// The message if no law has the name.
std::string no_such_law(const std::string& name);

// The laws that match the globs, in their order; empty with *error otherwise.
std::vector<const Law*> select_laws(const std::vector<std::string>& globs,
                                    std::string* error);

// Whether colour may be written to stdout.
bool colour_wanted();

// Columns of the screen that stdout is connected to, by $COLUMNS or the
// terminal; 100 elsewhere.
size_t screen_width();

}  // namespace qkvet::cli

#endif  // QKVET_CLI_TERMINAL_SELECT_H_

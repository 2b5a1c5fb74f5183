// SPDX-License-Identifier: Apache-2.0
// The lines of a source that a call runs. Lines that failing calls run and
// passing ones do not are the first suspects; a line that no failing call runs
// is right, or does not matter (spectra of programs: Abreu, Zoeteweij and van
// Gemund, "On the accuracy of spectrum-based fault localization", TAIC PART
// 2007).
#ifndef QKVET_CLI_MUTATE_LINES_RUN_H_
#define QKVET_CLI_MUTATE_LINES_RUN_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/mutate/mutant_build.h"
#include "cli/mutate/operators.h"

namespace qkvet::cli {

// A source that records in a file which of its statements are run, even if its
// process dies. Covers statements of functions in C and C++ that can have
// another statement before them; identified by their first lines.
class LinesRun {
 public:
  // The file is made in `folder`.
  LinesRun(const MutantCompiler& compiler, const Tokens& tokens,
           const std::string& folder);

  // The text to compile instead of the source. It may fail to compile.
  std::string text() const;

  // Marks all lines as not run.
  void forget();
  // Lines that were, since then.
  std::set<int> lines() const;

  // The line that is recorded for a mutation's statement; 0: none.
  int line_of(const Mutation& mutation) const;

 private:
  struct Mark {
    size_t token = 0;
    bool is_among_others = false;  // statements, and not the body of an if
  };
  void find_marks();
  std::string file_bytes() const;

  const MutantCompiler* compiler_;
  const Tokens* tokens_;
  std::string file_;
  std::map<size_t, Mark> marks_;  // by first byte
};

// Numbers of failing and of passing cases that run a line.
struct LineCount {
  int line = 0;
  int failing = 0, passing = 0;

  // The cosine of the set of failing cases and the set of cases that run the
  // line (Ochiai): 1 for a line that all failing cases run and no other. 0
  // without failing cases.
  double suspicion(int all_failing) const;
};

}  // namespace qkvet::cli

#endif  // QKVET_CLI_MUTATE_LINES_RUN_H_

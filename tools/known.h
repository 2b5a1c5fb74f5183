// SPDX-License-Identifier: Apache-2.0
// Failures that are accepted, a line each:
//
//   # kernel    law                 fails  since       why
//   mine/fast   weights_sum_to_one  law    2026-11-22  the mask comes too late,
//   #12
//
// `fails` is how: law, memory, crash or hang, or the cause that a report names,
// such as no_scale or unknown. What fails as it says there does not fail the
// run. What no longer fails, or fails otherwise, does.
#ifndef QKVET_TOOLS_KNOWN_H_
#define QKVET_TOOLS_KNOWN_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "properties/runner.h"

namespace qkvet {

struct ReportInput;

struct KnownFailure {
  std::string kernel;
  const Law* law = nullptr;
  FailureKind kind = FailureKind::kLaw;  // without a cause
  std::string cause;                     // "" or the name of one
  std::string since;                     // a day, 2026-11-22
  std::string why;
  int line = 0;
};

struct KnownFailures {
  std::string file;  // as it was named
  std::vector<KnownFailure> all;

  bool names_causes() const;
  const KnownFailure* find(const std::string& kernel, const Law& law) const;
};

// On failure *error is one line that begins with "FILE:LINE: ".
std::optional<KnownFailures> read_known(const std::string& file,
                                        std::string* error);
std::optional<KnownFailures> parse_known(std::string_view text,
                                         const std::string& file,
                                         std::string* error);

// What a file of known failures says of a cell.
enum class KnownState : uint8_t {
  kNothing,    // there is no line about it
  kAsKnown,    // it fails as the line says
  kOtherwise,  // it fails in another way
  kGone        // it does not fail
};
// The line about a cell; null if there is none.
const KnownFailure* known_line(const ReportInput& input,
                               const KernelResult& kernel, const Cell& cell);
KnownState known_state(const ReportInput& input, const KernelResult& kernel,
                       const Cell& cell);

// For a report: what was accepted, and which lines are wrong; "" without a
// file.
std::string known_text(const ReportInput& input);
// "known.txt:3: mine/fast weights_sum_to_one passed 312 cases: ..."; only for
// lines that are wrong.
std::string known_problem(const ReportInput& input, const KernelResult& kernel,
                          const Cell& cell);
// "since 2026-11-22: the mask comes too late"
std::string known_reason(const KnownFailure& known);

}  // namespace qkvet

#endif  // QKVET_TOOLS_KNOWN_H_

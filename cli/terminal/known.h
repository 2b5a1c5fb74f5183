// SPDX-License-Identifier: Apache-2.0
// Failures that are accepted, a line each:
//
//   # kernel    law                 fails  since       why
//   mine/fast   weights_sum_to_one  law    2026-11-22  the mask comes too late,
//   #12
//   mine/fast   rows_stay_in_hull   law    2026-11-22  until=2027-01-31  soon
//
// `fails` is how: law, memory, crash or hang, or the cause that a report names,
// such as no_scale or unknown. A law that fails in several ways has a line for
// each. A failure that matches its line does not fail the run. The run fails if
// a line's failure is gone, if there is any other failure, or if a failure
// persists after the day that `until=` names (in UTC).
#ifndef QKVET_CLI_TERMINAL_KNOWN_H_
#define QKVET_CLI_TERMINAL_KNOWN_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "properties/run/runner.h"

namespace qkvet::cli {

struct ReportInput;

struct KnownFailure {
  std::string kernel;
  const Law* law = nullptr;
  FailureKind kind = FailureKind::kLaw;  // without a cause
  std::string cause;                     // "" or the name of one
  std::string since;                     // a day, 2026-11-22
  std::string until;                     // the last on which it counts; or ""
  std::string why;
  int line = 0;
};

struct KnownFailures {
  std::string file;  // as it was named
  std::vector<KnownFailure> all;
  std::string today;  // a day, by which lines expire

  bool has_expired(const KnownFailure& known) const {
    return !known.until.empty() && known.until < today;
  }

  bool names_causes() const;
  // The lines about a law of a kernel.
  std::vector<const KnownFailure*> find(const std::string& kernel,
                                        const Law& law) const;
};

// On failure *error is one line that begins with "FILE:LINE: ".
std::optional<KnownFailures> read_known(const std::string& file,
                                        std::string* error);
std::optional<KnownFailures> parse_known(std::string_view text,
                                         const std::string& file,
                                         std::string* error);
// "2026-11-22", in UTC.
std::string day_now();

// How a cell compares with the file of known failures.
enum class KnownState : uint8_t {
  kNothing,    // it has no line
  kAsKnown,    // it fails as in its lines, and in no other way
  kOtherwise,  // it fails in a way that no line names
  kGone        // the failure of a line is gone, and all others have a line
};
struct KnownCell {
  KnownState state = KnownState::kNothing;
  std::vector<const KnownFailure*> lines;
  // One per wrong line and per failure without a line: "known.txt:3: mine/fast
  // weights_sum_to_one does not fail any more ...".
  std::vector<std::string> problems;

  // "since 2026-11-22: the mask comes too late", for every line.
  std::string reason() const;
};
KnownCell known_cell(const ReportInput& input, const KernelResult& kernel,
                     const Cell& cell);
// Whether a line accepts this failure.
bool is_known(const ReportInput& input, const KernelResult& kernel,
              const Failure& failure);

// For a report: accepted failures, and wrong lines; "" without a file.
std::string known_text(const ReportInput& input);
// "since 2026-11-22: the mask comes too late"
std::string known_reason(const KnownFailure& known);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_TERMINAL_KNOWN_H_

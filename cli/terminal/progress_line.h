// SPDX-License-Identifier: Apache-2.0
// How far a run is, in a line that rewrites itself on a terminal.
#ifndef QKVET_CLI_TERMINAL_PROGRESS_LINE_H_
#define QKVET_CLI_TERMINAL_PROGRESS_LINE_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "properties/run/runner.h"

namespace qkvet::cli {

// Estimates the time for the rest of some work, by the speed of the last
// seconds: for example, cases of gradients take longer than those of caches.
class TimeLeft {
 public:
  // `done` pieces were done `seconds` after the start; both only grow.
  void note(double seconds, int64_t done);
  // Seconds; absent while there is too little evidence.
  std::optional<double> of(int64_t rest) const;

 private:
  double seconds_ = 0, span_ = 0, work_ = 0;
  int64_t done_ = 0;
};

// "12,345 of 45,678 cases, 1 failure, 9 s left"
std::string progress_text(const RunProgress& progress,
                          std::optional<double> left);

// On stderr, if it is a terminal; silent otherwise. Without escape sequences:
// the line is overwritten with blanks.
class ProgressLine {
 public:
  // `budget`: seconds for the run, if its work is not planned.
  explicit ProgressLine(std::optional<double> budget);
  bool is_visible() const { return terminal_; }
  void show(const RunProgress& progress);
  // The first failure, which the line names from now on.
  void found(const Failure& failure);
  void say(const std::string& text);
  void clear() { say(""); }

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_;
  std::optional<double> budget_;
  Clock::time_point start_ = Clock::now(), shown_ = start_;
  size_t length_ = 0;  // of the line on the screen
  TimeLeft left_;
  std::string found_;
};

}  // namespace qkvet::cli

#endif  // QKVET_CLI_TERMINAL_PROGRESS_LINE_H_

// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal/progress_line.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/terminal/report_parts.h"
#include "cli/terminal/select.h"

namespace qkvet::cli {
namespace {

// "9 s", "12 min", "3.5 h": only as many digits as such a guess has.
std::string duration_text(double seconds) {
  constexpr double kMinute = 60, kHour = 60 * kMinute;
  if (seconds < 2 * kMinute) return fmt::format("{:.0f} s", std::ceil(seconds));
  if (seconds < 2 * kHour)
    return fmt::format("{:.0f} min", std::ceil(seconds / kMinute));
  return fmt::format("{:.1f} h", seconds / kHour);
}

}  // namespace

void TimeLeft::note(double seconds, int64_t done) {
  // Seconds after which work counts 1/e.
  constexpr double kMemory = 5;
  const double passed = seconds - seconds_;
  if (passed <= 0) return;
  const double kept = std::exp(-passed / kMemory);
  span_ = kept * span_ + passed;
  work_ = kept * work_ + static_cast<double>(done - done_);
  seconds_ = seconds;
  done_ = done;
}

std::optional<double> TimeLeft::of(int64_t rest) const {
  constexpr double kLeastSeconds = 0.5;
  if (seconds_ < kLeastSeconds || work_ <= 0) return std::nullopt;
  return static_cast<double>(std::max<int64_t>(0, rest)) * span_ / work_;
}

std::string progress_text(const RunProgress& progress,
                          std::optional<double> left) {
  if (progress.shrinking)
    return "making " + counted(progress.failures, "failure") + " smaller";
  std::string out = progress.planned > 0 ? grouped(progress.done) + " of " +
                                               counted(progress.planned, "case")
                                         : counted(progress.done, "case");
  out += ", " + counted(progress.failures, "failure");
  if (left) out += ", " + duration_text(*left) + " left";
  return out;
}

ProgressLine::ProgressLine(std::optional<double> budget)
    : terminal_(isatty(STDERR_FILENO) != 0), budget_(budget) {}

void ProgressLine::show(const RunProgress& progress) {
  constexpr auto kEvery = std::chrono::milliseconds(100);
  const auto now = Clock::now();
  if (now - shown_ < kEvery && !progress.shrinking) return;
  shown_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  left_.note(seconds, progress.done);
  const std::optional<double> left =
      budget_                ? std::max(0.0, *budget_ - seconds)
      : progress.planned > 0 ? left_.of(progress.planned - progress.done)
                             : std::nullopt;
  // A line that wraps could not be overwritten.
  say((progress_text(progress, left) + found_).substr(0, screen_width() - 1));
}

void ProgressLine::found(const Failure& failure) {
  found_ = fmt::format("; {} fails: {}", failure.law->id,
                       to_string(failure.smallest));
}

void ProgressLine::say(const std::string& text) {
  if (!terminal_) return;
  const size_t rest = length_ - std::min(length_, text.size());
  std::fprintf(stderr, "\r%s%s%s", text.c_str(), std::string(rest, ' ').c_str(),
               text.empty() ? "\r" : "");
  std::fflush(stderr);
  length_ = text.size();
}

}  // namespace qkvet::cli

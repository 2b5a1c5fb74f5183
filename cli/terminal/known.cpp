// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal/known.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <sstream>

#include "cli/terminal/baseline.h"
#include "cli/terminal/report.h"
#include "cli/terminal/select.h"
#include "core/base/read_file.h"
#include "report/lines.h"

namespace qkvet::cli {
namespace {

// In the order of FailureKind.
constexpr std::array<std::string_view, 4> kKinds = {"law", "memory", "crash",
                                                    "hang"};
constexpr const char* kLine =
    "a line is KERNEL LAW HOW SINCE [until=DAY] WHY, such as \"mine/fast "
    "weights_sum_to_one law 2026-11-22 the mask comes too late\"";

std::string_view kind_name(FailureKind kind) {
  return kKinds[static_cast<size_t>(kind)];
}

// How it is known to fail.
std::string how(const KnownFailure& known) {
  return known.cause.empty() ? std::string(kind_name(known.kind)) : known.cause;
}

// How it does fail; only the kind is known of a failure without a diagnosis.
std::string how(const ReportInput& input, const Failure& failure,
                bool by_cause) {
  const CauseOfFailures* cause = cause_of(input.diagnoses, failure);
  return by_cause && cause != nullptr
             ? cause->diagnosis.name()
             : std::string(kind_name(failure.judgement.kind));
}

// Whether the word has the form of a cause in reports.
bool is_cause(const std::string& word) {
  return !word.empty() &&
         word.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") ==
             std::string::npos;
}

bool is_day(const std::string& text) {
  constexpr std::string_view kForm = "0000-00-00";
  if (text.size() != kForm.size()) return false;
  for (size_t n = 0; n < text.size(); ++n)
    if (kForm[n] == '-' ? text[n] != '-' : text[n] < '0' || text[n] > '9')
      return false;
  return std::chrono::year_month_day(
             std::chrono::year(std::stoi(text.substr(0, 4))),
             std::chrono::month(
                 static_cast<unsigned>(std::stoi(text.substr(5, 2)))),
             std::chrono::day(
                 static_cast<unsigned>(std::stoi(text.substr(8, 2)))))
      .ok();
}

// "" or the error in the line.
std::string read_line(const std::string& text, KnownFailure& known) {
  std::istringstream words(text);
  std::string law, kind;
  if (!(words >> known.kernel >> law >> kind >> known.since) ||
      !std::getline(words >> std::ws, known.why))
    return kLine;
  constexpr std::string_view kUntil = "until=";
  if (known.why.rfind(kUntil, 0) == 0) {
    std::istringstream rest(known.why.substr(kUntil.size()));
    if (!(rest >> known.until) || !std::getline(rest >> std::ws, known.why))
      return kLine;
  }
  known.law = find_law(law);
  if (known.law == nullptr) return no_such_law(law);
  const auto found = std::find(kKinds.begin(), kKinds.end(), kind);
  if (found != kKinds.end())
    known.kind = static_cast<FailureKind>(found - kKinds.begin());
  else if (is_cause(kind))
    known.cause = kind;
  else
    return "\"" + kind +
           "\": allowed: law, memory, crash, hang, or a cause as reports name "
           "it, such as no_scale or unknown";
  if (!is_day(known.since))
    return "\"" + known.since + "\": a day is written 2026-11-22";
  if (!known.until.empty() && !is_day(known.until))
    return "until=" + known.until + ": a day is written 2027-01-31";
  if (!known.until.empty() && known.until < known.since)
    return "until=" + known.until + ": is before " + known.since +
           ", since when it is known";
  return "";
}

std::string place_of(const ReportInput& input, const KnownFailure& known) {
  return fmt::format("{}:{}: {} {}", input.known->file, known.line,
                     known.kernel, known.law->id);
}

// The first failure of a cell and those of other causes.
std::vector<const Failure*> failures_of(const Cell& cell) {
  std::vector<const Failure*> out;
  if (cell.failure) out.push_back(&*cell.failure);
  for (const Failure& other : cell.others) out.push_back(&other);
  return out;
}

// Whether the line is about this failure, expired or not.
bool names(const ReportInput& input, const KnownFailure& line,
           const Failure& failure) {
  return how(input, failure, !line.cause.empty()) == how(line);
}

bool accepts(const ReportInput& input, const KnownFailure& line,
             const Failure& failure) {
  return names(input, line, failure) && !input.known->has_expired(line);
}

bool accepts_any(const ReportInput& input,
                 const std::vector<const KnownFailure*>& lines,
                 const Failure& failure) {
  return std::any_of(lines.begin(), lines.end(), [&](const auto* line) {
    return accepts(input, *line, failure);
  });
}

// The line that accepted this failure, to a day that is over; or nullptr.
const KnownFailure* expired_line(const ReportInput& input,
                                 const std::vector<const KnownFailure*>& lines,
                                 const Failure& failure) {
  const auto found =
      std::find_if(lines.begin(), lines.end(), [&](const auto* line) {
        return input.known->has_expired(*line) && names(input, *line, failure);
      });
  return found == lines.end() ? nullptr : *found;
}

// "scale_twice or law"
std::string how_all(const std::vector<const KnownFailure*>& lines) {
  std::string out;
  for (const KnownFailure* line : lines)
    out += (out.empty() ? "" : " or ") + how(*line);
  return out;
}

// Failures that would be accepted with one more line.
std::string lines_to_add(const ReportInput& input) {
  std::vector<std::string> lines;
  for (const KernelResult& kernel : input.result.kernels)
    for (const Cell& cell : kernel.cells)
      for (const Failure* failure : failures_of(cell)) {
        if (is_known(input, kernel, *failure)) continue;
        std::string line =
            fmt::format("{} {} {} DAY WHY", kernel.kernel.judged.info.name,
                        cell.law->id, how(input, *failure, true));
        if (std::find(lines.begin(), lines.end(), line) == lines.end())
          lines.push_back(std::move(line));
      }
  std::string out;
  for (const std::string& line : lines)
    out += field(out.empty() ? "to accept" : "", line);
  return out;
}

std::vector<const KnownFailure*> lines_about(const ReportInput& input,
                                             const KernelResult& kernel,
                                             const Law& law) {
  if (input.known == nullptr) return {};
  return input.known->find(kernel.kernel.judged.info.name, law);
}

}  // namespace

std::vector<const KnownFailure*> KnownFailures::find(const std::string& kernel,
                                                     const Law& law) const {
  std::vector<const KnownFailure*> out;
  for (const KnownFailure& known : all)
    if (known.kernel == kernel && known.law == &law) out.push_back(&known);
  return out;
}

std::optional<KnownFailures> parse_known(std::string_view text,
                                         const std::string& file,
                                         std::string* error) {
  KnownFailures known{file, {}, day_now()};
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const size_t from = line.find_first_not_of(" \t");
    if (from == std::string::npos || line[from] == '#') continue;
    KnownFailure one;
    one.line = number;
    std::string wrong = read_line(line, one);
    if (wrong.empty())
      for (const KnownFailure* other : known.find(one.kernel, *one.law))
        if (how(*other) == how(one))
          wrong = fmt::format("{} {} {} has a line already, {}", one.kernel,
                              one.law->id, how(one), other->line);
    if (!wrong.empty()) {
      *error = fmt::format("{}:{}: {}", file, number, wrong);
      return std::nullopt;
    }
    known.all.push_back(std::move(one));
  }
  return known;
}

std::optional<KnownFailures> read_known(const std::string& file,
                                        std::string* error) {
  std::string text;
  *error = read_file(file, &text);
  if (!error->empty()) return std::nullopt;
  return parse_known(text, file, error);
}

std::string day_now() {
  const std::chrono::year_month_day day(
      std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()));
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(day.year()),
                     static_cast<unsigned>(day.month()),
                     static_cast<unsigned>(day.day()));
}

bool KnownFailures::names_causes() const {
  return std::any_of(all.begin(), all.end(), [](const KnownFailure& known) {
    return !known.cause.empty();
  });
}

bool is_known(const ReportInput& input, const KernelResult& kernel,
              const Failure& failure) {
  return is_no_worse(input, kernel, failure) ||
         accepts_any(input, lines_about(input, kernel, *failure.law), failure);
}

KnownCell known_cell(const ReportInput& input, const KernelResult& kernel,
                     const Cell& cell) {
  KnownCell known;
  known.lines = lines_about(input, kernel, *cell.law);
  const auto failures = failures_of(cell);
  if (known.lines.empty()) {
    const bool accepted =
        !failures.empty() &&
        std::all_of(failures.begin(), failures.end(), [&](const auto* one) {
          return is_no_worse(input, kernel, *one);
        });
    if (accepted) known.state = KnownState::kAsKnown;
    return known;
  }
  known.state = KnownState::kAsKnown;
  for (const KnownFailure* line : known.lines) {
    if (std::any_of(failures.begin(), failures.end(), [&](const auto* failure) {
          return names(input, *line, *failure);
        }))
      continue;
    // A shard has not all the cases.
    known.state = failures.empty() && input.options.shards > 1
                      ? KnownState::kNothing
                      : KnownState::kGone;
    if (known.state == KnownState::kNothing) break;
    // If something else fails, the message below describes that.
    if (failures.empty() || known.lines.size() > 1)
      known.problems.push_back(fmt::format(
          "{} does not fail {}: take the line out", place_of(input, *line),
          failures.empty()
              ? fmt::format("any more ({}, {} checked)",
                            verdict_name(cell.verdict), cell.checked)
              : fmt::format("by {} any more", how(*line))));
  }
  for (const Failure* failure : failures) {
    if (accepts_any(input, known.lines, *failure)) continue;
    known.state = KnownState::kOtherwise;
    if (const KnownFailure* expired =
            expired_line(input, known.lines, *failure);
        expired != nullptr) {
      known.problems.push_back(
          fmt::format("{} was accepted until {}, and fails by {} still ({})",
                      place_of(input, *expired), expired->until, how(*expired),
                      known_reason(*expired)));
      continue;
    }
    known.problems.push_back(
        fmt::format("{} is known to fail by {}, and fails by {}",
                    place_of(input, *known.lines[0]), how_all(known.lines),
                    how(input, *failure, !known.lines[0]->cause.empty())));
  }
  return known;
}

std::string KnownCell::reason() const {
  std::string out;
  for (const KnownFailure* line : lines)
    out += (out.empty() ? "" : "; ") + known_reason(*line);
  return out;
}

std::string known_reason(const KnownFailure& known) {
  return fmt::format("since {}{}: {}", known.since,
                     known.until.empty() ? "" : ", until " + known.until,
                     known.why);
}

std::string known_text(const ReportInput& input) {
  if (input.known == nullptr) return "";
  std::string accepted, wrong;
  size_t looked_at = 0;
  for (const KernelResult& kernel : input.result.kernels)
    for (const Cell& cell : kernel.cells) {
      const KnownCell known = known_cell(input, kernel, cell);
      looked_at += known.lines.size();
      if (known.state == KnownState::kAsKnown)
        accepted += wrapped_field(
            accepted.empty() ? "known" : "",
            fmt::format("{} {}, {}", kernel.kernel.judged.info.name,
                        cell.law->id, known.reason()));
      for (const std::string& problem : known.problems)
        wrong += wrapped_field(wrong.empty() ? "outdated" : "", problem);
    }
  const size_t rest = input.known->all.size() - looked_at;
  std::string out = accepted + wrong;
  if (rest > 0)
    out += wrapped_field(
        "unused",
        fmt::format("{} of {} lines of {}: about kernels or laws that are not "
                    "in this run",
                    rest, input.known->all.size(), input.known->file));
  return out + lines_to_add(input);
}

}  // namespace qkvet::cli

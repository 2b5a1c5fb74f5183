// SPDX-License-Identifier: Apache-2.0
#include "tools/known.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tools/lines.h"
#include "tools/report.h"

namespace qkvet {
namespace {

// In the order of FailureKind.
constexpr std::array<std::string_view, 4> kKinds = {"law", "memory", "crash",
                                                    "hang"};
constexpr const char* kLine =
    "a line is KERNEL LAW HOW SINCE WHY, such as \"mine/fast "
    "weights_sum_to_one law 2026-11-22 the mask comes too late\"";

std::string_view kind_name(FailureKind kind) {
  return kKinds[static_cast<size_t>(kind)];
}

// How it is known to fail.
std::string how(const KnownFailure& known) {
  return known.cause.empty() ? std::string(kind_name(known.kind)) : known.cause;
}

// How it does fail; of a failure whose cause was not looked for, nothing but
// the kind is known.
std::string how(const ReportInput& input, const Failure& failure,
                bool by_cause) {
  const CauseOfFailures* cause = cause_of(input.diagnoses, failure);
  return by_cause && cause != nullptr
             ? cause->diagnosis.name()
             : std::string(kind_name(failure.judgement.kind));
}

// What a report calls a cause.
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

// "" or what is wrong with the line.
std::string read_line(const std::string& text, KnownFailure& known) {
  std::istringstream words(text);
  std::string law, kind;
  if (!(words >> known.kernel >> law >> kind >> known.since) ||
      !std::getline(words >> std::ws, known.why))
    return kLine;
  known.law = find_law(law);
  if (known.law == nullptr)
    return "no law is named \"" + law + "\"; `qkvet list laws` shows all";
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
  return "";
}

std::string place_of(const ReportInput& input, const KnownFailure& known) {
  return fmt::format("{}:{}: {} {}", input.known->file, known.line,
                     known.kernel, known.law->id);
}

// Failures that would be accepted with one more line.
std::string lines_to_add(const ReportInput& input) {
  std::string out;
  for (const KernelResult& kernel : input.result.kernels)
    for (const Cell& cell : kernel.cells)
      if (cell.failure &&
          known_state(input, kernel, cell) == KnownState::kNothing)
        out += field(
            out.empty() ? "to accept" : "",
            fmt::format("{} {} {} DAY WHY", kernel.kernel.judged.info.name,
                        cell.law->id, how(input, *cell.failure, true)));
  return out;
}

}  // namespace

const KnownFailure* KnownFailures::find(const std::string& kernel,
                                        const Law& law) const {
  for (const KnownFailure& known : all)
    if (known.kernel == kernel && known.law == &law) return &known;
  return nullptr;
}

std::optional<KnownFailures> parse_known(std::string_view text,
                                         const std::string& file,
                                         std::string* error) {
  KnownFailures known{file, {}};
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
    if (wrong.empty() && known.find(one.kernel, *one.law) != nullptr)
      wrong = fmt::format("{} {} has a line already, {}", one.kernel,
                          one.law->id, known.find(one.kernel, *one.law)->line);
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
  std::ifstream stream(file, std::ios::binary);
  if (!stream || std::filesystem::is_directory(file)) {
    *error = file + ": cannot be read";
    return std::nullopt;
  }
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  return parse_known(text, file, error);
}

bool KnownFailures::names_causes() const {
  return std::any_of(all.begin(), all.end(), [](const KnownFailure& known) {
    return !known.cause.empty();
  });
}

const KnownFailure* known_line(const ReportInput& input,
                               const KernelResult& kernel, const Cell& cell) {
  return input.known == nullptr
             ? nullptr
             : input.known->find(kernel.kernel.judged.info.name, *cell.law);
}

KnownState known_state(const ReportInput& input, const KernelResult& kernel,
                       const Cell& cell) {
  const KnownFailure* known = known_line(input, kernel, cell);
  if (known == nullptr) return KnownState::kNothing;
  if (!cell.failure) return KnownState::kGone;
  const bool by_cause = !known->cause.empty();
  return how(input, *cell.failure, by_cause) == how(*known)
             ? KnownState::kAsKnown
             : KnownState::kOtherwise;
}

std::string known_reason(const KnownFailure& known) {
  return fmt::format("since {}: {}", known.since, known.why);
}

std::string known_problem(const ReportInput& input, const KernelResult& kernel,
                          const Cell& cell) {
  const KnownState state = known_state(input, kernel, cell);
  if (state == KnownState::kNothing || state == KnownState::kAsKnown) return "";
  const KnownFailure& known = *known_line(input, kernel, cell);
  if (state == KnownState::kOtherwise)
    return fmt::format("{} is known to fail by {}, and fails by {}",
                       place_of(input, known), how(known),
                       how(input, *cell.failure, !known.cause.empty()));
  return fmt::format(
      "{} does not fail any more ({}, {} checked): take the line "
      "out",
      place_of(input, known), verdict_name(cell.verdict), cell.checked);
}

std::string known_text(const ReportInput& input) {
  if (input.known == nullptr) return "";
  std::string accepted, wrong;
  size_t looked_at = 0;
  for (const KernelResult& kernel : input.result.kernels)
    for (const Cell& cell : kernel.cells) {
      const KnownState state = known_state(input, kernel, cell);
      looked_at += state != KnownState::kNothing;
      const std::string& name = kernel.kernel.judged.info.name;
      if (state == KnownState::kAsKnown)
        accepted += wrapped_field(
            accepted.empty() ? "known" : "",
            fmt::format("{} {}, {}", name, cell.law->id,
                        known_reason(*known_line(input, kernel, cell))));
      else if (state != KnownState::kNothing)
        wrong += wrapped_field(wrong.empty() ? "outdated" : "",
                               known_problem(input, kernel, cell));
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

}  // namespace qkvet

// SPDX-License-Identifier: Apache-2.0
// JUnit XML, as Jenkins, GitLab and most others read it.
#include <fmt/core.h>

#include "report/lines.h"
#include "report/report_files.h"

namespace qkvet::report {
namespace {

// What JUnit counts a result as.
enum class Outcome : uint8_t { kPassed, kFailure, kError, kSkipped };

Outcome outcome_of(const ResultLine& result) {
  switch (result.state()) {
    case RowState::kPassed:
      return Outcome::kPassed;
    case RowState::kFailed:
      return Outcome::kFailure;
    case RowState::kCrash:
      return Outcome::kError;
    case RowState::kOpen:
      if (result.verdict != RowVerdict::kSkipped) return Outcome::kError;
      break;
    case RowState::kKnown:
    case RowState::kUnsupported:
    case RowState::kUndeclared:
      break;
  }
  return Outcome::kSkipped;
}

// "" or the content of the element of a test.
std::string content_of(const RunRecord& record, const ResultLine& result) {
  const auto tag = [](const char* name, const std::string& message) {
    return fmt::format("      <{} message=\"{}\"/>\n", name,
                       xml_escaped(message));
  };
  if (result.state() == RowState::kKnown)
    return tag("skipped", "known " + result.known_reason());
  if (result.known && result.known->gone)
    return tag("failure", result.known->problems.empty()
                              ? "known"
                              : result.known->problems[0]);
  const Outcome outcome = outcome_of(result);
  if (result.failure)
    return fmt::format("      <{0} message=\"{1}\">{2}</{0}>\n",
                       outcome == Outcome::kError ? "error" : "failure",
                       xml_escaped(record.law(result.law)->sentence),
                       xml_escaped(result.failure->report));
  const Tally& counts = result.counts;
  if (outcome != Outcome::kPassed)
    return tag(
        outcome == Outcome::kError ? "error" : "skipped",
        fmt::format("{}: {}", word_of(result.verdict), counts.reason.text));
  if (counts.warned == 0) return "";
  return fmt::format(
      "      <system-out>warning in {} cases, case {}: {}</system-out>\n",
      counts.warned, counts.warning.number, xml_escaped(counts.warning.text));
}

}  // namespace

std::string junit_report(const RunRecord& record) {
  int failures = 0, errors = 0, skipped = 0;
  std::string body;
  for (const ResultLine& result : record.results) {
    const Outcome outcome = outcome_of(result);
    failures += outcome == Outcome::kFailure;
    errors += outcome == Outcome::kError;
    skipped += outcome == Outcome::kSkipped;
    body += fmt::format(
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\"",
        xml_escaped(result.kernel), xml_escaped(result.law),
        result.counts.seconds);
    const std::string content = content_of(record, result);
    body += content.empty() ? "/>\n" : ">\n" + content + "    </testcase>\n";
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
      "  <testsuite name=\"qkvet\" tests=\"{}\" failures=\"{}\" errors=\"{}\" "
      "skipped=\"{}\" time=\"{:.3f}\">\n{}  </testsuite>\n</testsuites>\n",
      record.results.size(), failures, errors, skipped, record.end.wall_seconds,
      body);
}

}  // namespace qkvet::report

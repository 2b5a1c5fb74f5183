// SPDX-License-Identifier: Apache-2.0
// JUnit XML, as Jenkins, GitLab and most others read it.
#include <fmt/core.h>

#include "tools/base/lines.h"
#include "tools/record/report_files.h"

namespace qkvet::tools {
namespace {

// What JUnit counts a result as.
enum class Outcome : uint8_t { kPassed, kFailure, kError, kSkipped };

Outcome outcome_of(const Json& result) {
  const std::string_view state = state_of(result);
  if (state == "failed") return Outcome::kFailure;
  if (state == "passed") return Outcome::kPassed;
  if (state == "crash") return Outcome::kError;
  if (state == "open" && text_of(result, "verdict") != "skipped")
    return Outcome::kError;
  return Outcome::kSkipped;
}

// "" or what stands in the element of a test.
std::string content_of(const RunRecord& record, const Json& result) {
  const auto tag = [](const char* name, const std::string& message) {
    return fmt::format("      <{} message=\"{}\"/>\n", name,
                       xml_escaped(message));
  };
  const Json& known = part_of(result, "known");
  if (std::string_view(state_of(result)) == "known")
    return tag("skipped", "known " + known_reason_of(result));
  if (is_set(known, "gone")) {
    const auto problems = texts_of(known, "problems");
    return tag("failure", problems.empty() ? "known" : problems[0]);
  }
  if (const Json& failure = part_of(result, "failure"); failure.is_object()) {
    const char* name =
        outcome_of(result) == Outcome::kError ? "error" : "failure";
    const Json& law = record.law(text_of(result, "law"));
    return fmt::format("      <{0} message=\"{1}\">{2}</{0}>\n", name,
                       xml_escaped(text_of(law, "sentence")),
                       xml_escaped(text_of(failure, "report")));
  }
  if (outcome_of(result) != Outcome::kPassed)
    return tag(outcome_of(result) == Outcome::kError ? "error" : "skipped",
               fmt::format("{}: {}", text_of(result, "verdict"),
                           text_of(result, "reason")));
  if (count_of(result, "warned") == 0) return "";
  return fmt::format(
      "      <system-out>warning in {} cases, case {}: {}</system-out>\n",
      count_of(result, "warned"), count_of(result, "warning_number"),
      xml_escaped(text_of(result, "warning")));
}

}  // namespace

std::string junit_report(const RunRecord& record) {
  int failures = 0, errors = 0, skipped = 0;
  std::string body;
  for (const Json& result : record.results) {
    const Outcome outcome = outcome_of(result);
    failures += outcome == Outcome::kFailure;
    errors += outcome == Outcome::kError;
    skipped += outcome == Outcome::kSkipped;
    body += fmt::format(
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\"",
        xml_escaped(text_of(result, "kernel")),
        xml_escaped(text_of(result, "law")), number_of(result, "seconds"));
    const std::string content = content_of(record, result);
    body += content.empty() ? "/>\n" : ">\n" + content + "    </testcase>\n";
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
      "  <testsuite name=\"qkvet\" tests=\"{}\" failures=\"{}\" errors=\"{}\" "
      "skipped=\"{}\" time=\"{:.3f}\">\n{}  </testsuite>\n</testsuites>\n",
      record.results.size(), failures, errors, skipped,
      number_of(record.end, "wall_seconds"), body);
}

}  // namespace qkvet::tools

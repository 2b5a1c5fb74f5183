// SPDX-License-Identifier: Apache-2.0
// SARIF 2.1.0 (OASIS, 2020), for code scanning. Laws are rules, causes are
// results at the place of their kernel; accepted failures are suppressed.
#include <fmt/core.h>

#include "core/base/json.h"
#include "report/report_files.h"

namespace qkvet::report {
namespace {

constexpr const char* kSchemaAddress =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/"
    "sarif-schema-2.1.0.json";

// A path as a reference: absolute ones with their scheme.
std::string uri_of(const std::string& path) {
  std::string out = path.rfind('/', 0) == 0 ? "file://" : "";
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte >= '0' && byte <= '9') ||
                       (byte >= 'A' && byte <= 'Z') ||
                       (byte >= 'a' && byte <= 'z') ||
                       std::string_view("/._-~+").find(c) != std::string::npos;
    if (plain)
      out += c;
    else
      out += fmt::format("%{:02X}", byte);
  }
  return out;
}

Json rule_of(const LawLine& law, std::string_view kind) {
  Json rule{{"id", law.law}};
  rule["shortDescription"]["text"] = law.sentence;
  std::string help = law.sentence;
  const std::pair<const char*, const std::string*> rows[] = {
      {"Formula", &law.formula},
      {"Where it holds", &law.precondition},
      {"Why it is true", &law.reason},
      {"Why rounding cannot break it", &law.rounding}};
  for (const auto& [head, text] : rows)
    if (!text->empty()) help += fmt::format("\n\n{}: {}", head, *text);
  rule["help"]["text"] = help + "\n\nMore: qkvet " +
                         (kind == "law" ? "explain " : "golden show ") +
                         law.law;
  rule["defaultConfiguration"]["level"] = "error";
  rule["properties"]["tags"] = Json::array({"attention", "correctness"});
  rule["properties"]["subject"] = law.subject;
  return rule;
}

Json location_of(const RunRecord& record, const ResultLine& result) {
  Json location;
  if (const SourcePlace place = place_of(record, result); !place.file.empty()) {
    Json& physical = location["physicalLocation"];
    physical["artifactLocation"]["uri"] = uri_of(place.file);
    if (place.line > 0) physical["region"]["startLine"] = place.line;
  }
  location["logicalLocations"] = Json::array(
      {Json{{"fullyQualifiedName", result.kernel}, {"kind", "function"}}});
  return location;
}

// Another failure of the same cause.
Json related_location(const RunRecord& record, const ResultLine& result,
                      const FailureLine& failure) {
  Json out = location_of(record, result);
  out["message"]["text"] = fmt::format("{}: {}\nAgain: {}", result.law,
                                       failure.value, failure.again);
  return out;
}

// A result that fails, or has no verdict.
Json sarif_result(const RunRecord& record, const ResultLine& result, bool open,
                  const std::string& why) {
  Json out{{"ruleId", result.law},
           {"ruleIndex", record.law(result.law) - record.laws.data()},
           {"kind", open ? "open" : "fail"},
           {"level", open ? "none" : "error"}};
  out["message"]["text"] = fmt::format("{}: {}", result.kernel, why);
  out["locations"] = Json::array({location_of(record, result)});
  return out;
}

Json failure_result(const RunRecord& record, const ResultLine& result,
                    const FailureLine& failure) {
  const DiagnosisFound& cause = failure.cause();
  Json out = sarif_result(
      record, result, /*open=*/false,
      fmt::format("{}{}\nAgain: {}", failure_line(record, result, failure),
                  cause.fix.empty() ? "" : "\nFix: " + cause.fix,
                  failure.again));
  // Identifies the finding in the next run, even if its smallest case changes.
  const std::string known = cause.known_cause();
  out["partialFingerprints"]["qkvet/v2"] =
      result.kernel + "/" + (known.empty() ? result.law : known);
  out["properties"] = {{"case", failure.value}, {"report", failure.report}};
  if (result.state() == RowState::kKnown)
    out["suppressions"] = Json::array(
        {Json{{"kind", "external"}, {"justification", result.known_reason()}}});
  return out;
}

// One result per cause, at the law that is most informative about it.
void add_failures(const RunRecord& record, Json& results) {
  for (const Reported& one : reported_failures(record)) {
    Json out = failure_result(record, *one.result, *one.failure);
    for (const auto& [result, failure] : one.also)
      out["relatedLocations"].push_back(
          related_location(record, *result, *failure));
    results.push_back(std::move(out));
  }
}

void add_results(const RunRecord& record, const ResultLine& result,
                 Json& results) {
  const RowState state = result.state();
  if (!is_bad(state))
    for (const FailureLine* failure : result.failures())
      results.push_back(failure_result(record, result, *failure));
  if (state == RowState::kOpen)
    results.push_back(
        sarif_result(record, result, /*open=*/true,
                     fmt::format("{}: {}", word_of(result.verdict),
                                 result.counts.reason.text)));
  // A known failure that is gone.
  if (state == RowState::kFailed && !result.failure)
    results.push_back(
        sarif_result(record, result, /*open=*/false,
                     result.known && !result.known->problems.empty()
                         ? result.known->problems[0]
                         : "fails"));
}

}  // namespace

std::string sarif_report(const RunRecord& record) {
  const Environment& environment = record.start.environment;
  Json driver{{"name", "QKVet"}, {"version", environment.qkvet}};
  driver["rules"] = Json::array();
  for (const LawLine& law : record.laws)
    driver["rules"].push_back(rule_of(law, row_word(record)));
  Json invocation{{"executionSuccessful", record.end.exit != kNothingChecked},
                  {"exitCode", static_cast<int>(record.end.exit)},
                  {"startTimeUtc", environment.began}};
  Json run;
  run["tool"]["driver"] = std::move(driver);
  run["invocations"] = Json::array({std::move(invocation)});
  run["columnKind"] = "utf16CodeUnits";
  run["results"] = Json::array();
  add_failures(record, run["results"]);
  for (const ResultLine& result : record.results)
    add_results(record, result, run["results"]);
  run["properties"] = {{"verdict", verdict_sentence(record)},
                       {"plan", plan_words(record)}};
  Json log{{"$schema", kSchemaAddress}, {"version", "2.1.0"}};
  log["runs"] = Json::array({std::move(run)});
  return json_text(log, 1) + "\n";
}

}  // namespace qkvet::report

// SPDX-License-Identifier: Apache-2.0
// SARIF 2.1.0 (OASIS, 2020): what code scanning reads. Laws are rules, causes
// are results at the place of their kernel; what is accepted is suppressed.
#include <fmt/core.h>

#include <algorithm>

#include "tools/base/exit_code.h"
#include "tools/record/report_files.h"

namespace qkvet::tools {
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

// A law of an older record has nothing but its name.
Json rule_of(const Json& law, std::string_view kind) {
  const std::string id = text_of(law, "law");
  const std::string sentence = text_of(law, "sentence");
  Json rule{{"id", id}};
  rule["shortDescription"]["text"] = sentence.empty() ? id : sentence;
  std::string help = sentence.empty() ? id : sentence;
  const struct {
    const char* field;
    const char* head;
  } rows[] = {{"formula", "Formula"},
              {"precondition", "Where it holds"},
              {"reason", "Why it is true"},
              {"rounding", "Why rounding cannot break it"}};
  for (const auto& row : rows)
    if (const std::string text = text_of(law, row.field); !text.empty())
      help += fmt::format("\n\n{}: {}", row.head, text);
  rule["help"]["text"] = help + "\n\nMore: qkvet " +
                         (kind == "law" ? "explain " : "golden show ") + id;
  rule["defaultConfiguration"]["level"] = "error";
  rule["properties"]["tags"] = Json::array({"attention", "correctness"});
  if (const std::string subject = text_of(law, "subject"); !subject.empty())
    rule["properties"]["subject"] = subject;
  return rule;
}

Json location_of(const RunRecord& record, const Json& result) {
  const std::string kernel = text_of(result, "kernel");
  Json location;
  if (const KernelPlace place = place_of(record, result); !place.file.empty()) {
    Json& physical = location["physicalLocation"];
    physical["artifactLocation"]["uri"] = uri_of(place.file);
    if (place.line > 0) physical["region"]["startLine"] = place.line;
  }
  location["logicalLocations"] =
      Json::array({Json{{"fullyQualifiedName", kernel}, {"kind", "function"}}});
  return location;
}

int64_t rule_index(const RunRecord& record, const std::string& law) {
  const auto found = std::find_if(
      record.laws.begin(), record.laws.end(),
      [&law](const Json& row) { return text_of(row, "law") == law; });
  return found - record.laws.begin();
}

// The same finding in the next run, whose smallest case may be another.
std::string fingerprint(const Json& result, const Json& failure) {
  const Json& diagnosis = part_of(failure, "diagnosis");
  const std::string cause = text_of(diagnosis, "cause");
  return fmt::format(
      "{}/{}", text_of(result, "kernel"),
      cause.empty() || text_of(diagnosis, "certainty") == "unknown"
          ? text_of(result, "law")
          : cause);
}

// Another failure of the same cause.
Json related_location(const RunRecord& record, const Json& result,
                      const Json& failure) {
  Json out = location_of(record, result);
  out["message"]["text"] =
      fmt::format("{}: {}\nAgain: {}", text_of(result, "law"),
                  text_of(failure, "case"), text_of(failure, "again"));
  return out;
}

Json failure_result(const RunRecord& record, const Json& result,
                    const Json& failure) {
  const std::string law = text_of(result, "law");
  Json out{{"ruleId", law},
           {"ruleIndex", rule_index(record, law)},
           {"kind", "fail"},
           {"level", "error"}};
  std::string text = fmt::format("{}: {}", text_of(result, "kernel"),
                                 failure_line(record, result, failure));
  const std::string fix = text_of(part_of(failure, "diagnosis"), "fix");
  if (!fix.empty()) text += "\nFix: " + fix;
  text += "\nAgain: " + text_of(failure, "again");
  out["message"]["text"] = text;
  out["locations"] = Json::array({location_of(record, result)});
  out["partialFingerprints"]["qkvet/v2"] = fingerprint(result, failure);
  out["properties"] = {{"case", text_of(failure, "case")},
                       {"report", text_of(failure, "report")}};
  if (std::string_view(state_of(result)) == "known")
    out["suppressions"] = Json::array({Json{
        {"kind", "external"}, {"justification", known_reason_of(result)}}});
  return out;
}

// What fails without a failing case, and what has no verdict.
Json other_result(const RunRecord& record, const Json& result, bool open,
                  const std::string& why) {
  const std::string law = text_of(result, "law");
  Json out{{"ruleId", law},
           {"ruleIndex", rule_index(record, law)},
           {"kind", open ? "open" : "fail"},
           {"level", open ? "none" : "error"}};
  out["message"]["text"] =
      fmt::format("{}: {}", text_of(result, "kernel"), why);
  out["locations"] = Json::array({location_of(record, result)});
  return out;
}

// A result a cause, at the law that says most about it.
void add_failures(const RunRecord& record, Json& results) {
  for (const Reported& one : reported_failures(record)) {
    Json out = failure_result(record, *one.result, *one.failure);
    for (const auto& [result, failure] : one.also)
      out["relatedLocations"].push_back(
          related_location(record, *result, *failure));
    results.push_back(std::move(out));
  }
}

void add_results(const RunRecord& record, const Json& result, Json& results) {
  const auto failures = failures_of(result);
  const std::string_view state = state_of(result);
  if (!is_bad(state))
    for (const Json* failure : failures)
      results.push_back(failure_result(record, result, *failure));
  if (state == "open")
    results.push_back(
        other_result(record, result, /*open=*/true,
                     fmt::format("{}: {}", text_of(result, "verdict"),
                                 text_of(result, "reason"))));
  if (state == "failed" && failures.empty()) {
    const auto problems = texts_of(part_of(result, "known"), "problems");
    results.push_back(other_result(record, result, /*open=*/false,
                                   problems.empty() ? "fails" : problems[0]));
  }
}

}  // namespace

std::string sarif_report(const RunRecord& record) {
  const Json& environment = part_of(record.start, "environment");
  Json driver{{"name", "QKVet"}};
  if (const std::string version = text_of(environment, "qkvet");
      !version.empty())
    driver["version"] = version;
  driver["rules"] = Json::array();
  for (const Json& law : record.laws)
    driver["rules"].push_back(rule_of(law, row_word(record)));
  Json invocation{
      {"executionSuccessful", count_of(record.end, "exit") != kNothingChecked},
      {"exitCode", count_of(record.end, "exit")}};
  if (const std::string began = text_of(environment, "began"); !began.empty())
    invocation["startTimeUtc"] = began;
  Json run;
  run["tool"]["driver"] = std::move(driver);
  run["invocations"] = Json::array({std::move(invocation)});
  run["columnKind"] = "utf16CodeUnits";
  run["results"] = Json::array();
  add_failures(record, run["results"]);
  for (const Json& result : record.results)
    add_results(record, result, run["results"]);
  run["properties"] = {{"verdict", verdict_sentence(record)},
                       {"plan", plan_words(record)}};
  Json log{{"$schema", kSchemaAddress}, {"version", "2.1.0"}};
  log["runs"] = Json::array({std::move(run)});
  return json_text(log, 1) + "\n";
}

}  // namespace qkvet::tools

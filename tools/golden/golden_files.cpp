// SPDX-License-Identifier: Apache-2.0
// What `qkvet golden verify` writes for CI systems.
#include <fmt/core.h>

#include <cmath>

#include "core/base/json.h"
#include "tools/golden/golden_run.h"

namespace qkvet::tools {
namespace {

constexpr int kSchema = 1;

// Infinity has no spelling in JSON.
Json json_number(double value) {
  if (std::isinf(value)) return "inf";
  return value;
}

std::string line_of(const Json& json) { return json_text(json) + "\n"; }

enum class Outcome : uint8_t { kGood, kFailure, kError, kSkipped };

struct Test {
  Outcome outcome = Outcome::kGood;
  std::string message, text;
};

Test test_of(const ReportInput& input, const KernelResult& kernel,
             const Cell& cell, const SetVerdict& verdict,
             const GoldenRunOptions& options) {
  if (cell.failure)
    return {cell.crashed() ? Outcome::kError : Outcome::kFailure,
            "not what the definition allows",
            failure_text(input, kernel, *cell.failure)};
  if (verdict.correct.verdict == Verdict::kUnsupported)
    return {Outcome::kSkipped, verdict.correct.reason, ""};
  if (verdict.correct.verdict != Verdict::kPassed)
    return {Outcome::kError, verdict.correct.reason, ""};
  if (verdict.expected.verdict == Verdict::kFailed)
    return {Outcome::kFailure,
            "not what the set says: " + verdict.expected.finding->where, ""};
  if (changed_too_much(verdict, options))
    return {Outcome::kFailure, "changed: " + change_text(*verdict.change), ""};
  return {};
}

std::string junit_test(const std::string& kernel, const std::string& set,
                       double seconds, const Test& test) {
  std::string out =
      fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\"",
                  xml_escaped(kernel), xml_escaped(set), seconds);
  if (test.outcome == Outcome::kGood) return out + "/>\n";
  const char* tag = test.outcome == Outcome::kFailure ? "failure"
                    : test.outcome == Outcome::kError ? "error"
                                                      : "skipped";
  return out + fmt::format(
                   ">\n      <{0} message=\"{1}\">{2}</{0}>\n"
                   "    </testcase>\n",
                   tag, xml_escaped(test.message), xml_escaped(test.text));
}

void add_change(const SetVerdict& verdict, Json& json) {
  if (!verdict.change) return;
  json["elements"] = verdict.change->elements;
  json["changed"] = verdict.change->changed;
  json["most_ulps"] = json_number(verdict.change->most_ulps);
  json["most_of_bound"] = json_number(verdict.change->most_of_bound);
  if (!verdict.change->where.empty()) json["at"] = verdict.change->where;
}

Json set_json(const ReportInput& input, const KernelResult& kernel,
              const GoldenSet& set, const Cell& cell,
              const SetVerdict& verdict) {
  Json json;
  json["schema"] = kSchema;
  json["type"] = "set";
  json["kernel"] = kernel.kernel.judged.info.name;
  json["set"] = set.name;
  json["case"] = to_string(set.value());
  json["source"] = set.source;
  json["correct"] =
      cell.crashed() ? "crash" : verdict_name(verdict.correct.verdict);
  json["worst_error_over_bound"] = json_number(verdict.correct.worst_ratio);
  json["expected"] = verdict_name(verdict.expected.verdict);
  for (const Judgement* judged : {&verdict.correct, &verdict.expected})
    if (!judged->reason.empty()) json["reason"] = judged->reason;
  if (verdict.expected.finding)
    json["not_as_expected"] = {{"at", verdict.expected.finding->where},
                               {"expected", verdict.expected.finding->expected},
                               {"actual", verdict.expected.finding->actual}};
  add_change(verdict, json);
  json["seconds"] = cell.seconds;
  if (cell.failure)
    json["failure"] = failure_text(input, kernel, *cell.failure);
  return json;
}

}  // namespace

std::string golden_junit(const GoldenRun& run, const ReportInput& input,
                         const GoldenRunOptions& options) {
  int counts[4] = {};
  std::string body;
  for (size_t k = 0; k < run.verdicts.size(); ++k) {
    const KernelResult& kernel = run.result.kernels[k];
    for (size_t n = 0; n < run.verdicts[k].size(); ++n) {
      const Test test =
          test_of(input, kernel, kernel.cells[n], run.verdicts[k][n], options);
      ++counts[static_cast<int>(test.outcome)];
      body += junit_test(kernel.kernel.judged.info.name, (*run.sets)[n].name,
                         kernel.cells[n].seconds, test);
    }
  }
  for (const DoubtfulSet& one : run.doubtful) {
    ++counts[static_cast<int>(Outcome::kError)];
    body += junit_test("golden", one.set->name, 0,
                       {Outcome::kError, "in doubt: " + one.reason, ""});
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
      "  <testsuite name=\"qkvet golden\" tests=\"{}\" failures=\"{}\" "
      "errors=\"{}\" skipped=\"{}\">\n{}  </testsuite>\n</testsuites>\n",
      counts[0] + counts[1] + counts[2] + counts[3], counts[1], counts[2],
      counts[3], body);
}

std::string golden_json(const GoldenRun& run, const ReportInput& input,
                        const GoldenRunOptions& options) {
  std::string out;
  for (size_t k = 0; k < run.verdicts.size(); ++k)
    for (size_t n = 0; n < run.verdicts[k].size(); ++n)
      out +=
          line_of(set_json(input, run.result.kernels[k], (*run.sets)[n],
                           run.result.kernels[k].cells[n], run.verdicts[k][n]));
  for (const DoubtfulSet& one : run.doubtful)
    out += line_of({{"schema", kSchema},
                    {"type", "doubt"},
                    {"set", one.set->name},
                    {"reason", one.reason}});
  return out +
         line_of({{"schema", kSchema},
                  {"type", "end"},
                  {"exit", static_cast<int>(exit_code_of(run, input, options))},
                  {"sets", run.sets->size()}});
}

}  // namespace qkvet::tools

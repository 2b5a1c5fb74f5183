// SPDX-License-Identifier: Apache-2.0
// The record of `qkvet golden verify`.
#include <fmt/core.h>

#include <sstream>

#include "core/base/json.h"
#include "tools/base/json_lines.h"
#include "tools/golden/golden_run.h"
#include "tools/record/run_record.h"

namespace qkvet::tools {
namespace {

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
  Json json = json_line("set");
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
  if (verdict.correct.verdict == Verdict::kFailed)
    json["failure"] = failure_text(input, kernel, *cell.failure);
  return json;
}

// A row that is right and not as its set says has nothing to replay: the set is
// held against the kernel once more.
void add_again(const GoldenRun& run, size_t kernel, size_t set,
               const std::string& again, Json& result) {
  if (run.verdicts[kernel][set].correct.verdict != Verdict::kPassed) return;
  Json& failure = result["failure"];
  failure["again"] = again + " " + (*run.sets)[set].name;
  failure["report"] = fmt::format(
      "{}: right, and not as the set says\n  at        {}\n  expected  {}\n  "
      "actual    {}",
      text_of(result, "law"), text_of(failure, "at"),
      text_of(failure, "expected"), text_of(failure, "actual"));
}

}  // namespace

std::string golden_json(const GoldenRun& run, const ReportInput& input,
                        const std::string& again) {
  Json start = qkvet::json_of(json_start(input.options));
  start["rows"] = "set";
  std::string out = line_of(start), sets;
  for (size_t k = 0; k < run.verdicts.size(); ++k)
    for (size_t n = 0; n < run.verdicts[k].size(); ++n)
      sets +=
          line_of(set_json(input, run.result.kernels[k], (*run.sets)[n],
                           run.result.kernels[k].cells[n], run.verdicts[k][n]));
  for (const DoubtfulSet& one : run.doubtful)
    sets += line_of({{"schema", kSchema},
                     {"type", "doubt"},
                     {"set", one.set->name},
                     {"reason", one.reason}});
  size_t row = 0;
  std::istringstream lines(json_results(input));
  for (std::string line; std::getline(lines, line);) {
    Json json = qkvet::json_of(line);
    const std::string type = text_of(json, "type");
    // Kernel by kernel, set by set, as the verdicts are.
    if (type == "result") {
      if (json.contains("failure"))
        add_again(run, row / run.sets->size(), row % run.sets->size(), again,
                  json);
      ++row;
    }
    if (type == "end") {
      json["sets"] = run.sets->size();
      out += sets;
    }
    out += line_of(json);
  }
  return out;
}

}  // namespace qkvet::tools

// SPDX-License-Identifier: Apache-2.0
// The record of `qkvet golden verify`.
#include <fmt/core.h>

#include "cli/golden/golden_run.h"
#include "core/base/json.h"
#include "report/json_lines.h"
#include "report/run_record.h"

namespace qkvet::cli {
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
    json["failure"] =
        failure_text(input, kernel, *cell.failure, Detail::kWhole);
  return json;
}

}  // namespace

RunRecord golden_record(const GoldenRun& run, const ReportInput& input,
                        const std::string& again) {
  RunRecord record = record_of(input);
  record.start.rows = RowKind::kSet;
  record.end.sets = std::ssize(*run.sets);
  // Kernel by kernel, set by set, as the verdicts are.
  for (size_t row = 0; row < record.results.size(); ++row) {
    const size_t k = row / run.sets->size(), n = row % run.sets->size();
    auto& failure = record.results[row].failure;
    // A row that is right but differs from its set has no case to replay: the
    // set is compared with the kernel once more.
    if (!failure || run.verdicts[k][n].correct.verdict != Verdict::kPassed)
      continue;
    failure->again = again + " " + (*run.sets)[n].name;
    failure->report = fmt::format(
        "{}: right, and not as in the set\n  at        {}\n  expected  {}\n  "
        "actual    {}",
        record.results[row].law, failure->at, failure->expected,
        failure->actual);
  }
  return record;
}

std::string golden_lines(const GoldenRun& run, const ReportInput& input,
                         const RunRecord& record) {
  std::string sets;
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
  return start_text(record.start) + result_lines(record, sets);
}

}  // namespace qkvet::cli

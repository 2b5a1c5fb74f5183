// SPDX-License-Identifier: Apache-2.0
// The record of a run, the source of all reports (run_record.h).
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

#include "cli/terminal/baseline.h"
#include "cli/terminal/environment.h"
#include "cli/terminal/failure_tensors.h"
#include "cli/terminal/report_parts.h"
#include "core/base/json.h"
#include "core/capability/declaration.h"
#include "core/capability/paths.h"
#include "diagnosis/stage/described_cause.h"
#include "properties/conventions/domain.h"
#include "report/json_lines.h"

namespace qkvet::cli {
namespace {

// "b"
std::string letter(int64_t sequence) {
  return {static_cast<char>('a' + sequence)};
}

ReachLine line_of_reach(const Reach& reach) {
  return {reach.stale ? ReachKind::kStale : ReachKind::kLeak,
          reach.of == Reach::kUnowned   ? "unowned"
          : reach.of == Reach::kMembers ? "members"
                                        : letter(reach.of),
          reach.of < 0 ? std::to_string(reach.into) : letter(reach.into),
          reach.tokens, reach_text(reach)};
}

std::optional<WhereFound> where_found(const FailsWhere& where) {
  if (where.text().empty()) return std::nullopt;
  const FreshVerdicts& fresh = where.fresh;
  return WhereFound{.law = where.setting->law().id,
                    .data = where.setting->data_text(),
                    .sentence = where.hypothesis.sentence(),
                    .condition = where.hypothesis.formula(),
                    .believed = where.is_known(),
                    .fresh = fresh.all,
                    .right = fresh.right,
                    .fresh_failing = fresh.failing,
                    .failing = where.failing,
                    .passing = where.passing,
                    .calls = where.calls,
                    .text = where.text(),
                    .nearest_pass = where.nearest_pass,
                    .nearest_failure = where.nearest_failure,
                    .left_out = where.left_out};
}

std::optional<FactFound> fact_found(const FactInstead& fact) {
  if (fact.text.empty()) return std::nullopt;
  return FactFound{fact.text, fact.cases};
}

std::optional<InsteadFound> instead_found(const Instead& instead) {
  if (instead.text().empty()) return std::nullopt;
  InsteadFound out;
  out.cases = instead.cases;
  out.calls = instead.calls;
  out.text = instead.text();
  for (const OutputInstead& one : instead.outputs)
    out.outputs.push_back(
        {tensor_name(one.output), one.text, one.elements, one.cases});
  out.read_back = fact_found(instead.stored);
  out.end = fact_found(instead.end);
  out.left_out = instead.left_out;
  return out;
}

DiagnosisFound diagnosis_found(const CauseOfFailures& cause) {
  const Diagnosis& diagnosis = cause.diagnosis;
  const Instead& instead = diagnosis.instead;
  DiagnosisFound out;
  out.cause = diagnosis.name();
  out.certainty = diagnosis.certainty;
  out.reported_with = cause.best->law->id;
  out.probes = diagnosis.probes;
  out.failing = diagnosis.failing;
  out.foretold = diagnosis.predicted;
  out.calls = diagnosis.calls;
  out.hidden = diagnosis.hidden;
  for (const Case& one : diagnosis.earlier.before)
    out.after.push_back(to_string(one));
  out.left_out = diagnosis.left_out;
  out.where = where_found(diagnosis.where);
  out.instead = instead_found(instead);
  if (const std::string text = instead.stage_sentence(); !text.empty())
    out.stage = {stage_name(instead.stage), text};
  out.seen = diagnosis.seen;
  for (size_t i = 1; i < diagnosis.causes.size(); ++i)
    out.also_possible.push_back(diagnosis.causes[i].name);
  if (!diagnosis.causes.empty()) {
    out.text = joined_causes(diagnosis, &Cause::cause);
    out.fix = joined_causes(diagnosis, &Cause::fix);
  } else if (const auto described = described_cause(instead)) {
    out.text = described->cause + ": " + described->evidence;
    out.fix = described->fix;
  }
  return out;
}

OutputNumbers numbers_of(const WrittenCall& call, const WrittenOutput& output) {
  OutputNumbers out;
  out.name = output.name;
  out.axes = index_letters(call.plan.operation, output.tensor);
  out.dtype = dtype_name(output.spec.dtype);
  out.shape.assign(output.spec.shape.begin(),
                   output.spec.shape.begin() + output.spec.ndim);
  for (const Wanted& wanted : output.wanted_here()) {
    out.expected.push_back(wanted.value);
    out.low.push_back(wanted.low);
    out.high.push_back(wanted.high);
  }
  out.actual = output.numbers;
  return out;
}

std::vector<CallNumbers> calls_of(const ReportInput& input,
                                  const Failure& failure) {
  std::vector<CallNumbers> out;
  const auto* calls = tensors_of(input.tensors, failure);
  if (calls == nullptr) return out;
  for (const WrittenCall& call : *calls) {
    out.push_back({call.place, {}});
    for (const WrittenOutput& output : call.outputs)
      if (OutputNumbers one = numbers_of(call, output); misfit(one).empty())
        out.back().outputs.push_back(std::move(one));
  }
  return out;
}

FailureLine line_of_failure(const ReportInput& input,
                            const KernelResult& kernel,
                            const Failure& failure) {
  FailureLine out;
  out.law = failure.law->id;
  out.value = to_string(failure.smallest);
  out.found = to_string(failure.found);
  out.number = failure.number;
  out.digest = fmt::format("{:08x}", failure.digest);
  out.shrink_steps = failure.shrink_steps;
  out.alike = failure.alike;
  out.repeats = failure.repeats;
  out.repeats_failed = failure.repeats_failed;
  out.seconds = failure.seconds;
  if (const auto& finding = failure.judgement.finding) {
    out.at = finding->where;
    out.expected = finding->expected;
    out.actual = finding->actual;
    out.allowed = finding->allowed;
    out.looks = looks_text(input, failure);
    out.error_over_bound = finding->ratio;
    out.printed = finding->printed;
  }
  out.picture = failure.judgement.picture;
  for (const Reach& reach : failure.story.reaches)
    out.reaches.push_back(line_of_reach(reach));
  out.whose = failure.story.whose;
  out.unsteady = unsteady_text(failure);
  out.other_dialect = failure.dialect;
  if (const CauseOfFailures* cause = cause_of(input.diagnoses, failure))
    out.diagnosis = diagnosis_found(*cause);
  out.where = failure.where;
  out.again = replay_line(input, kernel, failure);
  out.report = failure_text(input, kernel, failure, Detail::kWhole);
  out.calls = calls_of(input, failure);
  return out;
}

// Each law of the results once.
std::vector<LawLine> laws_of(const RunResult& result) {
  std::vector<LawLine> out;
  std::vector<const Law*> seen;
  for (const KernelResult& kernel : result.kernels)
    for (const Cell& cell : kernel.cells) {
      const Law& law = *cell.law;
      if (std::find(seen.begin(), seen.end(), &law) != seen.end()) continue;
      seen.push_back(&law);
      out.push_back({law.id, subject_text(law.domain.subject), law.sentence,
                     law.formula, law.precondition, law.reason, law.rounding});
    }
  return out;
}

// "windows 812"
DrawnCalls drawn_calls(const std::string& line) {
  const size_t blank = line.rfind(' ');
  return {line.substr(0, blank), std::atoll(line.c_str() + blank + 1)};
}

KernelLine line_of_kernel(const ReportInput& input,
                          const KernelResult& kernel) {
  const JudgedKernel& judged = kernel.kernel.judged;
  const KernelInfo& info = judged.info;
  KernelLine out;
  out.kernel = info.name;
  out.description = info.description;
  if (!info.source_file.empty())
    out.source = {info.source_file, info.source_line};
  if (kernel.kernel.library < input.selected.libraries.size())
    out.library = input.selected.libraries[kernel.kernel.library].path;
  out.device = info.device() != QKVET_DEVICE_CPU;
  for (const Assumption& one : judged.assumed)
    out.assumed.push_back({one.field, one.constant, assumed_word(judged, one)});
  out.precision_declared = info.precision.struct_size != 0;
  out.precision = precision_lines(info.precision);
  out.paths = paths_text(info.capabilities);
  out.looser = looser_text(judged, input.options.scope);
  out.mistrust = mistrust_in(judged, input.options);
  out.hollow = kernel.hollow;
  for (const std::string& line : kernel.drawn)
    out.drawn.push_back(drawn_calls(line));
  out.never_drawn = kernel.never_drawn;
  out.pairs = kernel.pairs;
  for (size_t i = 0; i < kernel.near_hints.size(); ++i) {
    const Hint& hint = kernel.kernel.hints[i];
    out.hints.push_back(
        {path_text(hint.path), hint.from, kernel.near_hints[i]});
  }
  return out;
}

Tally counts_in(const Cell& cell) {
  Tally out;
  out.planned = cell.planned;
  out.checked = cell.checked;
  out.unsupported = cell.unsupported;
  out.refused = cell.refused;
  out.not_applicable = cell.not_applicable;
  out.elements = cell.elements;
  out.of_long = cell.of_long;
  out.long_cases = cell.long_cases;
  out.emptiest = cell.emptiest;
  out.worst_ratio = cell.worst_ratio;
  out.seconds = cell.seconds;
  out.ratios = cell.ratios;
  out.sharpness = cell.sharpness;
  out.warned = cell.warned;
  out.warning = {cell.warning, cell.warning_number};
  out.reason = {.text = cell.reason, .about = cell.about};
  out.refusal.text = cell.refusal;
  return out;
}

std::optional<KnownLine> line_of_known(const KnownCell& known) {
  if (known.lines.empty()) return std::nullopt;
  const KnownFailure& first = *known.lines[0];
  return KnownLine{.line = first.line,
                   .since = first.since,
                   .why = first.why,
                   .until = first.until,
                   .holds = known.state == KnownState::kAsKnown,
                   .gone = known.state == KnownState::kGone,
                   .reason = known.reason(),
                   .problems = known.problems};
}

ResultLine line_of_result(const ReportInput& input, const KernelResult& kernel,
                          const Cell& cell) {
  ResultLine out;
  out.kernel = kernel.kernel.judged.info.name;
  out.law = cell.law->id;
  out.verdict = row_verdict(cell.verdict, cell.crashed());
  out.counts = counts_in(cell);
  if (cell.failure) out.failure = line_of_failure(input, kernel, *cell.failure);
  for (const Failure& other : cell.others)
    out.others.push_back(line_of_failure(input, kernel, other));
  out.baseline = baseline_of(input, out);
  out.known = line_of_known(known_cell(input, kernel, cell));
  return out;
}

EndLine end_of(const ReportInput& input) {
  const RunResult& result = input.result;
  EndLine out;
  out.interrupted = result.interrupted;
  out.whole_plan = asks_whole_plan(input);
  out.by_default = input.selected.by_default;
  if (input.baseline != nullptr) {
    out.baseline = input.baseline->name;
    out.baseline_exit = input.baseline->end.exit;
    out.baseline_gone = gone_since_baseline(input);
  }
  out.planned_cases = result.planned_cases;
  out.replaced_cases = result.replaced_cases;
  out.added_cases = result.added_cases;
  out.rounds = result.rounds;
  out.wall_seconds = result.wall_seconds;
  out.not_judged = not_judged(input);
  out.notes = input.selected.notes;
  if (const auto& suspicion = result.suspicion)
    out.oracle_suspected = {to_string(suspicion->value), suspicion->where,
                            suspicion->kernels, result.suspicions};
  out.thread_seconds = result.time;
  return out;
}

}  // namespace

StartLine start_of(const RunOptions& options) {
  StartLine out;
  out.seed = options.seed;
  out.budget_seconds = options.budget;
  if (!options.budget) out.cases = most_cases(options);
  out.cases_per_law = options.cases_per_law;
  out.exhaustive = options.exhaustive;
  if (options.shards > 1) out.shard = {options.shard, options.shards};
  out.sizes = properties::size_class_name(options.scope.largest);
  for (const Pin& pin : options.scope.pins) out.pin[pin.extent] = pin.value;
  out.jobs = options.jobs;
  out.environment = environment();
  for (const Law* law : options.laws) out.laws.emplace_back(law->id);
  return out;
}

std::string json_round(int64_t round, int64_t cases_done, int64_t failed) {
  return line_of(Json{{"schema", kSchema},
                      {"type", "round"},
                      {"round", round},
                      {"cases", cases_done},
                      {"failed", failed}});
}

RunRecord record_of(const ReportInput& input, const StartLine& start) {
  RunRecord out;
  out.start = start;
  out.laws = laws_of(input.result);
  for (const KernelResult& kernel : input.result.kernels) {
    out.kernels.push_back(line_of_kernel(input, kernel));
    for (const Cell& cell : kernel.cells) {
      ResultLine result = line_of_result(input, kernel, cell);
      result.row = out.kernels.size() - 1;
      out.add_result(std::move(result));
    }
  }
  out.end = end_of(input);
  set_verdict(out);
  return out;
}

RunRecord record_of(const ReportInput& input) {
  return record_of(input, start_of(input.options));
}

}  // namespace qkvet::cli

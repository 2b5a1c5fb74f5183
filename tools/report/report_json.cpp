// SPDX-License-Identifier: Apache-2.0
// The record of a run: JSON Lines, of which all other reports are written
// (run_record.h). run.schema.json says what may stand there.
#include <fmt/core.h>

#include <algorithm>

#include "core/base/json.h"
#include "core/capability/declaration.h"
#include "core/capability/paths.h"
#include "diagnosis/stage/described_cause.h"
#include "properties/conventions/domain.h"
#include "tools/base/json_lines.h"
#include "tools/record/report_files.h"
#include "tools/record/result_counts.h"
#include "tools/report/baseline.h"
#include "tools/report/environment.h"
#include "tools/report/failure_tensors.h"
#include "tools/report/report_parts.h"

namespace qkvet::tools {
namespace {

// "b"
std::string letter(int64_t sequence) {
  return {static_cast<char>('a' + sequence)};
}

// Which tokens reach the answer of a cache that should not, and whose fault it
// is.
void add_story_fault(const StoryFault& fault, Json& out) {
  for (const Reach& reach : fault.reaches)
    out["reaches"].push_back(
        {{"kind", reach.stale ? "stale" : "leak"},
         {"of", reach.of == Reach::kUnowned   ? "unowned"
                : reach.of == Reach::kMembers ? "members"
                                              : letter(reach.of)},
         {"into",
          reach.of < 0 ? std::to_string(reach.into) : letter(reach.into)},
         {"tokens", reach.tokens},
         {"text", reach_text(reach)}});
  if (!fault.whose.empty()) out["whose"] = fault.whose;
}

const char* certainty_name(Certainty certainty) {
  return certainty == Certainty::kSure     ? "sure"
         : certainty == Certainty::kLikely ? "likely"
                                           : "unknown";
}

Json where_json(const FailsWhere& where) {
  const FreshVerdicts& fresh = where.fresh;
  Json json{{"law", where.setting->law().id},
            {"data", where.setting->data_text()},
            {"sentence", where.hypothesis.sentence()},
            {"condition", where.hypothesis.formula()},
            {"believed", where.is_known()},
            {"fresh", fresh.all},
            {"right", fresh.right},
            {"fresh_failing", fresh.failing},
            {"failing", where.failing},
            {"passing", where.passing},
            {"calls", where.calls},
            {"text", where.text()}};
  if (!where.nearest_pass.empty()) {
    json["nearest_pass"] = where.nearest_pass;
    json["nearest_failure"] = where.nearest_failure;
  }
  if (!where.left_out.empty()) json["left_out"] = where.left_out;
  return json;
}

Json instead_json(const Instead& instead) {
  Json json{{"cases", instead.cases},
            {"calls", instead.calls},
            {"text", instead.text()}};
  json["outputs"] = Json::array();
  for (const OutputInstead& one : instead.outputs)
    json["outputs"].push_back({{"output", tensor_name(one.output)},
                               {"description", one.text},
                               {"wrong_elements", one.elements},
                               {"cases", one.cases}});
  const auto add_fact = [&json](const char* name, const FactInstead& fact) {
    if (!fact.text.empty())
      json[name] = {{"description", fact.text}, {"cases", fact.cases}};
  };
  add_fact("read_back", instead.stored);
  add_fact("end", instead.end);
  if (!instead.left_out.empty()) json["left_out"] = instead.left_out;
  return json;
}

void add_diagnosis(const CauseOfFailures& cause, Json& out) {
  const Diagnosis& diagnosis = cause.diagnosis;
  Json json{{"cause", diagnosis.name()},
            {"certainty", certainty_name(diagnosis.certainty)},
            {"reported_with", cause.best->law->id},
            {"probes", diagnosis.probes},
            {"failing", diagnosis.failing},
            {"foretold", diagnosis.predicted},
            {"calls", diagnosis.calls},
            {"hidden", diagnosis.hidden}};
  for (const Case& one : diagnosis.earlier.before)
    json["after"].push_back(to_string(one));
  if (!diagnosis.left_out.empty()) json["left_out"] = diagnosis.left_out;
  if (!diagnosis.where.text().empty())
    json["where"] = where_json(diagnosis.where);
  const Instead& instead = diagnosis.instead;
  if (!instead.text().empty()) json["instead"] = instead_json(instead);
  if (const std::string text = instead.stage_sentence(); !text.empty())
    json["stage"] = {{"name", stage_name(instead.stage)}, {"text", text}};
  if (!diagnosis.seen.empty()) json["seen"] = diagnosis.seen;
  json["also_possible"] = Json::array();
  for (size_t i = 1; i < diagnosis.causes.size(); ++i)
    json["also_possible"].push_back(diagnosis.causes[i].name);
  if (!diagnosis.causes.empty()) {
    json["text"] = joined_causes(diagnosis, &Cause::cause);
    json["fix"] = joined_causes(diagnosis, &Cause::fix);
  } else if (const auto described = described_cause(instead)) {
    json["text"] = described->cause + ": " + described->evidence;
    if (!described->fix.empty()) json["fix"] = described->fix;
  }
  out["diagnosis"] = std::move(json);
}

Json shape_json(const TensorSpec& spec) {
  Json shape = Json::array();
  for (int axis = 0; axis < spec.ndim; ++axis)
    shape.push_back(spec.shape[axis]);
  return shape;
}

Json output_json(const WrittenCall& call, const WrittenOutput& output) {
  Json out{{"name", output.name},
           {"axes", index_letters(call.plan.operation, output.tensor)},
           {"dtype", dtype_name(output.spec.dtype)},
           {"shape", shape_json(output.spec)}};
  for (const Wanted& wanted : output.wanted_here()) {
    out["expected"].push_back(json_number(wanted.value));
    out["low"].push_back(json_number(wanted.low));
    out["high"].push_back(json_number(wanted.high));
  }
  for (const double number : output.numbers)
    out["actual"].push_back(json_number(number));
  return out;
}

void add_tensors(const ReportInput& input, const Failure& failure, Json& out) {
  const auto* calls = tensors_of(input.tensors, failure);
  if (calls == nullptr) return;
  for (const WrittenCall& call : *calls) {
    Json json = Json::object();
    if (!call.place.empty()) json["place"] = call.place;
    json["outputs"] = Json::array();
    for (const WrittenOutput& output : call.outputs)
      if (!output.numbers.empty())
        json["outputs"].push_back(output_json(call, output));
    out["calls"].push_back(std::move(json));
  }
}

Json failure_json(const ReportInput& input, const KernelResult& kernel,
                  const Failure& failure) {
  Json out;
  out["law"] = failure.law->id;
  out["case"] = to_string(failure.smallest);
  out["found"] = to_string(failure.found);
  out["number"] = failure.number;
  out["digest"] = fmt::format("{:08x}", failure.digest);
  out["shrink_steps"] = failure.shrink_steps;
  if (failure.alike > 0) out["alike"] = failure.alike;
  out["repeats"] = failure.repeats;
  out["repeats_failed"] = failure.repeats_failed;
  out["seconds"] = failure.seconds;
  if (failure.judgement.finding) {
    const Finding& finding = *failure.judgement.finding;
    out["at"] = finding.where;
    out["expected"] = finding.expected;
    out["actual"] = finding.actual;
    out["allowed"] = finding.allowed;
    out["looks"] = looks_text(input, failure);
    out["error_over_bound"] = json_number(finding.ratio);
    if (!finding.printed.empty()) out["printed"] = finding.printed;
  }
  if (!failure.judgement.picture.empty())
    out["picture"] = failure.judgement.picture;
  add_story_fault(failure.story, out);
  if (const std::string text = unsteady_text(failure); !text.empty())
    out["unsteady"] = text;
  if (!failure.dialect.empty()) out["other_dialect"] = failure.dialect;
  if (const CauseOfFailures* cause = cause_of(input.diagnoses, failure))
    add_diagnosis(*cause, out);
  if (!failure.where.empty()) out["where"] = failure.where;
  out["again"] = replay_line(input, kernel, failure);
  out["report"] = failure_text(input, kernel, failure);
  add_tensors(input, failure, out);
  return out;
}

}  // namespace

std::string verdict_word(const Cell& cell) {
  return cell.crashed() ? "crash" : std::string(verdict_name(cell.verdict));
}

void add_accepted(const ReportInput& input, const KernelResult& kernel,
                  const Cell& cell, Json& result) {
  if (const Json before = baseline_of(input, kernel, cell); !before.is_null())
    result["baseline"] = before;
  const KnownCell known = known_cell(input, kernel, cell);
  if (known.lines.empty()) return;
  result["known"] = {{"line", known.lines[0]->line},
                     {"since", known.lines[0]->since},
                     {"why", known.lines[0]->why},
                     {"holds", known.state == KnownState::kAsKnown},
                     {"gone", known.state == KnownState::kGone},
                     {"reason", known.reason()}};
  if (!known.lines[0]->until.empty())
    result["known"]["until"] = known.lines[0]->until;
  if (!known.problems.empty()) result["known"]["problems"] = known.problems;
}

std::string json_start(const RunOptions& options) {
  Json json;
  json["schema"] = kSchema;
  json["type"] = "start";
  json["seed"] = options.seed;
  if (options.budget)
    json["budget_seconds"] = *options.budget;
  else
    json["cases"] = most_cases(options);
  if (options.cases_per_law > 0) json["cases_per_law"] = options.cases_per_law;
  if (options.exhaustive) json["exhaustive"] = true;
  if (options.shards > 1)
    json["shard"] = {{"number", options.shard}, {"of", options.shards}};
  json["sizes"] = properties::size_class_name(options.scope.largest);
  for (const Pin& pin : options.scope.pins) json["pin"][pin.extent] = pin.value;
  json["jobs"] = options.jobs;
  json["environment"] = environment_json();
  for (const Law* law : options.laws) json["laws"].push_back(law->id);
  return line_of(json);
}

std::string json_round(int64_t round, int64_t cases_done, int64_t failed) {
  return line_of(Json{{"schema", kSchema},
                      {"type", "round"},
                      {"round", round},
                      {"cases", cases_done},
                      {"failed", failed}});
}

namespace {

// Each law of the results once.
std::string law_lines(const ReportInput& input) {
  std::string out;
  std::vector<const Law*> seen;
  for (const KernelResult& kernel : input.result.kernels)
    for (const Cell& cell : kernel.cells) {
      const Law& law = *cell.law;
      if (std::find(seen.begin(), seen.end(), &law) != seen.end()) continue;
      seen.push_back(&law);
      Json json = json_line("law");
      json["law"] = law.id;
      json["subject"] = subject_text(law.domain.subject);
      json["sentence"] = law.sentence;
      json["formula"] = law.formula;
      json["precondition"] = law.precondition;
      json["reason"] = law.reason;
      json["rounding"] = law.rounding;
      out += line_of(json);
    }
  return out;
}

std::string kernel_line(const ReportInput& input, const KernelResult& kernel) {
  const JudgedKernel& judged = kernel.kernel.judged;
  Json json = json_line("kernel");
  json["kernel"] = judged.info.name;
  if (!judged.info.description.empty())
    json["description"] = judged.info.description;
  if (!judged.info.source_file.empty())
    json["source"] = {{"file", judged.info.source_file},
                      {"line", judged.info.source_line}};
  if (kernel.kernel.library < input.selected.libraries.size())
    json["library"] = input.selected.libraries[kernel.kernel.library].path;
  json["device"] = judged.info.device() != QKVET_DEVICE_CPU;
  json["assumed"] = Json::array();
  for (const Assumption& one : judged.assumed)
    json["assumed"].push_back({{"field", one.field},
                               {"value", one.constant},
                               {"word", assumed_word(judged, one)}});
  json["precision_declared"] = judged.info.precision.struct_size != 0;
  for (std::string& line : precision_lines(judged.info.precision))
    json["precision"].push_back(std::move(line));
  if (const std::string paths = paths_text(judged.info.capabilities);
      !paths.empty())
    json["paths"] = paths;
  if (const std::string looser = looser_text(judged, input.options.scope);
      !looser.empty())
    json["looser"] = looser;
  json["hollow"] = kernel.hollow;
  return line_of(json);
}

std::string result_line(const ReportInput& input, const KernelResult& kernel,
                        const Cell& cell) {
  Json json = json_line("result");
  json["kernel"] = kernel.kernel.judged.info.name;
  json["law"] = cell.law->id;
  json["verdict"] = verdict_word(cell);
  if (is_undeclared(cell)) json["undeclared"] = true;
  add_counts(cell, json);
  if (!cell.reason.empty()) json["reason"] = cell.reason;
  if (cell.failure)
    json["failure"] = failure_json(input, kernel, *cell.failure);
  for (const Failure& other : cell.others)
    json["other_failures"].push_back(failure_json(input, kernel, other));
  add_accepted(input, kernel, cell, json);
  return line_of(json);
}

std::string end_line(const ReportInput& input) {
  const auto& [code, why] = verdict_of(verdict_facts(input));
  Json end = json_line("end");
  end["exit"] = static_cast<int>(code);
  if (!why.empty()) end["why"] = why;
  end["interrupted"] = input.result.interrupted;
  // What decides, beside the results, whether this is a pass.
  end["whole_plan"] = asks_whole_plan(input);
  end["by_default"] = input.selected.by_default;
  if (input.baseline != nullptr) {
    end["baseline"] = input.baseline->name;
    end["baseline_exit"] = count_of(input.baseline->end, "exit");
    if (auto gone = gone_since_baseline(input); !gone.empty())
      end["baseline_gone"] = std::move(gone);
  }
  end["planned_cases"] = input.result.planned_cases;
  if (input.result.replaced_cases > 0)
    end["replaced_cases"] = input.result.replaced_cases;
  if (input.result.added_cases > 0)
    end["added_cases"] = input.result.added_cases;
  end["rounds"] = input.result.rounds;
  end["wall_seconds"] = input.result.wall_seconds;
  end["not_judged"] = not_judged(input);
  end["notes"] = input.selected.notes;
  if (const auto& suspicion = input.result.suspicion)
    end["oracle_suspected"] = {{"case", to_string(suspicion->value)},
                               {"at", suspicion->where},
                               {"kernels", suspicion->kernels},
                               {"cases", input.result.suspicions}};
  const TimeUse& time = input.result.time;
  end["thread_seconds"] = {{"cases", time.generate},
                           {"oracle", time.oracle},
                           {"bound", time.bound},
                           {"kernels", time.kernel},
                           {"judging", time.judge}};
  return line_of(end);
}

}  // namespace

std::string json_results(const ReportInput& input) {
  std::string out = law_lines(input);
  for (const KernelResult& kernel : input.result.kernels)
    out += kernel_line(input, kernel);
  for (const KernelResult& kernel : input.result.kernels)
    for (const Cell& cell : kernel.cells)
      out += result_line(input, kernel, cell);
  for (const KernelResult& kernel : input.result.kernels) {
    if (kernel.drawn.empty() && kernel.never_drawn.empty()) continue;
    Json json = json_line("declared");
    json["kernel"] = kernel.kernel.judged.info.name;
    json["drawn"] = kernel.drawn;
    json["never_drawn"] = kernel.never_drawn;
    json["pairs"] = json_of(kernel.pairs);
    for (size_t i = 0; i < kernel.near_hints.size(); ++i) {
      const Hint& hint = kernel.kernel.hints[i];
      json["hints"].push_back({{"path", path_text(hint.path)},
                               {"from", hint.from},
                               {"calls", kernel.near_hints[i]}});
    }
    out += line_of(json);
  }
  return out + end_line(input);
}

RunRecord record_of(const std::string& start, const ReportInput& input) {
  std::string error;
  // There is an end.
  return *parse_record(start + json_results(input), "", &error);
}

std::string junit_report(const ReportInput& input) {
  return junit_report(record_of(json_start(input.options), input));
}

}  // namespace qkvet::tools

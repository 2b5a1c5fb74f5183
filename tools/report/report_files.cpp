// SPDX-License-Identifier: Apache-2.0
// The reports for CI systems: JUnit XML and JSON Lines.
#include <fmt/core.h>

#include <cmath>

#include "core/base/json.h"
#include "tools/report/report.h"

namespace qkvet::tools {
namespace {

constexpr int kSchema = 1;

std::string junit_cell(const ReportInput& input, const KernelResult& kernel,
                       const Cell& cell, const Law& law) {
  std::string out = fmt::format(
      "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\"",
      xml_escaped(kernel.kernel.judged.info.name), law.id, cell.seconds);
  const KnownCell known = known_cell(input, kernel, cell);
  const auto with = [&out](const char* tag, const std::string& message) {
    return out + fmt::format(">\n      <{} message=\"{}\"/>\n    </testcase>\n",
                             tag, xml_escaped(message));
  };
  if (known.state == KnownState::kAsKnown)
    return with("skipped", "known " + known.reason());
  if (known.state == KnownState::kGone)
    return with("failure", known.problems[0]);
  if (cell.failure) {
    const char* tag = cell.crashed() ? "error" : "failure";
    const std::string text = failure_text(input, kernel, *cell.failure);
    return out + fmt::format(
                     ">\n      <{0} message=\"{1}\">{2}</{0}>\n"
                     "    </testcase>\n",
                     tag, xml_escaped(law.sentence), xml_escaped(text));
  }
  if (cell.verdict == Verdict::kPassed && cell.warned > 0)
    return out + fmt::format(
                     ">\n      <system-out>warning in {} cases, case {}: {}"
                     "</system-out>\n    </testcase>\n",
                     cell.warned, cell.warning_number,
                     xml_escaped(cell.warning));
  if (cell.verdict == Verdict::kPassed) return out + "/>\n";
  const std::string message =
      fmt::format("{}: {}", verdict_name(cell.verdict), cell.reason);
  const bool skipped = cell.verdict == Verdict::kUnsupported ||
                       cell.verdict == Verdict::kSkipped;
  return with(skipped ? "skipped" : "error", message);
}

// Infinity has no spelling in JSON.
Json json_number(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

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
  if (!diagnosis.seen.empty()) json["seen"] = diagnosis.seen;
  json["also_possible"] = Json::array();
  for (size_t i = 1; i < diagnosis.causes.size(); ++i)
    json["also_possible"].push_back(diagnosis.causes[i].name);
  if (!diagnosis.causes.empty()) {
    json["text"] = diagnosis.causes[0].cause;
    json["fix"] = diagnosis.causes[0].fix;
  }
  out["diagnosis"] = std::move(json);
}

Json failure_json(const ReportInput& input, const KernelResult& kernel,
                  const Failure& failure) {
  Json out;
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
    out["looks"] = finding.looks;
    out["error_over_bound"] = json_number(finding.ratio);
  }
  add_story_fault(failure.story, out);
  if (const std::string text = unsteady_text(failure); !text.empty())
    out["unsteady"] = text;
  if (!failure.dialect.empty()) out["other_dialect"] = failure.dialect;
  if (const CauseOfFailures* cause = cause_of(input.diagnoses, failure))
    add_diagnosis(*cause, out);
  if (!failure.where.empty()) out["where"] = failure.where;
  out["again"] = replay_line(input, kernel, failure);
  return out;
}

void add_known(const ReportInput& input, const KernelResult& kernel,
               const Cell& cell, Json& json) {
  const KnownCell known = known_cell(input, kernel, cell);
  if (known.lines.empty()) return;
  json["known"] = {{"line", known.lines[0]->line},
                   {"since", known.lines[0]->since},
                   {"why", known.lines[0]->why},
                   {"holds", known.state == KnownState::kAsKnown}};
  if (!known.problems.empty()) json["known"]["problems"] = known.problems;
}

std::string line_of(const Json& json) {
  // Kernels may name themselves in anything; bad UTF-8 must not end a run.
  return json_text(json) + "\n";
}

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        // XML 1.0 has no way to write other control characters.
        out += static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t'
                   ? c
                   : '?';
    }
  return out;
}

std::string junit_report(const ReportInput& input) {
  int tests = 0, failures = 0, errors = 0, skipped = 0;
  std::string body;
  for (const KernelResult& kernel : input.result.kernels)
    for (const Cell& cell : kernel.cells) {
      body += junit_cell(input, kernel, cell, *cell.law);
      ++tests;
      const KnownState state = known_cell(input, kernel, cell).state;
      if (state == KnownState::kAsKnown || state == KnownState::kGone) {
        ++(state == KnownState::kAsKnown ? skipped : failures);
        continue;
      }
      switch (cell.verdict) {
        case Verdict::kFailed:
          ++(cell.crashed() ? errors : failures);
          break;
        case Verdict::kUnsupported:
        case Verdict::kSkipped:
          ++skipped;
          break;
        case Verdict::kGaveUp:
        case Verdict::kMistrusted:
          ++errors;
          break;
        case Verdict::kPassed:
          break;
      }
    }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
      "  <testsuite name=\"qkvet\" tests=\"{}\" failures=\"{}\" errors=\"{}\" "
      "skipped=\"{}\" time=\"{:.3f}\">\n{}  </testsuite>\n</testsuites>\n",
      tests, failures, errors, skipped, input.result.wall_seconds, body);
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

std::string json_results(const ReportInput& input) {
  std::string out;
  for (const KernelResult& kernel : input.result.kernels)
    for (const Cell& cell : kernel.cells) {
      Json json;
      json["schema"] = kSchema;
      json["type"] = "result";
      json["kernel"] = kernel.kernel.judged.info.name;
      json["law"] = cell.law->id;
      json["verdict"] = cell.crashed() ? "crash" : verdict_name(cell.verdict);
      json["checked"] = cell.checked;
      json["unsupported"] = cell.unsupported;
      json["compared"] = cell.compared;
      json["vacuous"] = cell.vacuous;
      json["worst_error_over_bound"] = json_number(cell.worst_ratio);
      json["seconds"] = cell.seconds;
      if (!cell.reason.empty()) json["reason"] = cell.reason;
      if (cell.warned > 0) {
        json["warned"] = cell.warned;
        json["warning"] = cell.warning;
      }
      if (cell.failure)
        json["failure"] = failure_json(input, kernel, *cell.failure);
      for (const Failure& other : cell.others)
        json["other_failures"].push_back(failure_json(input, kernel, other));
      add_known(input, kernel, cell, json);
      out += line_of(json);
    }
  for (const KernelResult& kernel : input.result.kernels) {
    if (kernel.drawn.empty() && kernel.never_drawn.empty()) continue;
    Json json;
    json["schema"] = kSchema;
    json["type"] = "declared";
    json["kernel"] = kernel.kernel.judged.info.name;
    json["drawn"] = kernel.drawn;
    json["never_drawn"] = kernel.never_drawn;
    out += line_of(json);
  }
  Json end;
  end["schema"] = kSchema;
  end["type"] = "end";
  end["exit"] = static_cast<int>(exit_code_of(input));
  end["planned_cases"] = input.result.planned_cases;
  if (input.result.replaced_cases > 0)
    end["replaced_cases"] = input.result.replaced_cases;
  end["rounds"] = input.result.rounds;
  end["wall_seconds"] = input.result.wall_seconds;
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
  return out + line_of(end);
}

}  // namespace qkvet::tools

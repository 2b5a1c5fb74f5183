// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "cli/inspect/inspection.h"
#include "core/base/json.h"
#include "core/base/verdict.h"
#include "report/json_lines.h"

namespace qkvet::cli {
namespace {

Json numbers(const std::vector<double>& values) {
  Json out = Json::array();
  for (const double value : values) out.push_back(json_number(value));
  return out;
}

std::string stage_lines(const std::vector<StageSummary>& stages) {
  std::string out;
  for (const StageSummary& stage : stages)
    out += line_of(
        json_line("inspect_stage", {{"name", stage.name},
                                    {"how", stage.how},
                                    {"shape", stage.shape},
                                    {"least", json_number(stage.least)},
                                    {"most", json_number(stage.most)},
                                    {"hidden", stage.hidden},
                                    {"nan", stage.nan},
                                    {"last_row", numbers(stage.values)}}));
  return out;
}

Json judged(const Judgement& judgement) {
  Json out{{"verdict", verdict_name(judgement.verdict)},
           {"compared", judgement.compared},
           {"error_over_bound", json_number(judgement.worst_ratio)}};
  if (!judgement.reason.empty()) out["reason"] = judgement.reason;
  if (!judgement.finding) return out;
  out["at"] = judgement.finding->where;
  out["expected"] = judgement.finding->expected;
  out["allowed"] = judgement.finding->allowed;
  out["actual"] = judgement.finding->actual;
  return out;
}

std::string kernel_lines(const Inspection& seen) {
  std::string out;
  for (const Json& stage : kernel_stages_json(*seen.view)) {
    Json line = json_line("inspect_kernel_stage", {{"kernel", seen.kernel}});
    line.update(stage);
    out += line_of(line);
  }
  return out;
}

std::string head_line(const Inspection& seen, int64_t head, const char* whose,
                      const HeatMap& map) {
  const HeadStatistics found = statistics_of(seen, map);
  Json line = json_line("inspect_head", {{"member", seen.focus.member},
                                         {"head", head},
                                         {"whose", whose},
                                         {"rows", found.rows},
                                         {"finite", found.finite}});
  if (found.previous_rows > 0) line["previous"] = json_number(found.previous);
  if (found.first_rows > 0) line["first"] = json_number(found.first);
  line.update({{"from_uniform", json_number(found.from_uniform)},
               {"entropy_bits", json_number(found.entropy_bits)},
               {"entropy_part", json_number(found.entropy_part)},
               {"largest", json_number(found.largest)},
               {"largest_at", {found.largest_row, found.largest_key}}});
  return line_of(line);
}

std::string weights_line(const Inspection& seen, int64_t head,
                         const char* whose, const HeatMap& whole) {
  const HeatMap map = reduced(whole);
  Json rows = Json::array();
  for (int64_t i = 0; i < map.rows; ++i) {
    Json& row = rows.emplace_back(Json::array());
    for (int64_t j = 0; j < map.columns; ++j)
      row.push_back(json_number(map.at(i, j)));
  }
  return line_of(
      json_line("inspect_weights", {{"member", seen.focus.member},
                                    {"head", head},
                                    {"whose", whose},
                                    {"queries_of_a_cell", map.row_step},
                                    {"keys_of_a_cell", map.column_step},
                                    {"weights", std::move(rows)}}));
}

}  // namespace

std::vector<Json> kernel_stages_json(const KernelView& view) {
  if (view.ended) return {judged(*view.ended)};
  std::vector<Json> out;
  for (const KernelStage& stage : view.stages) {
    out.push_back({{"name", stage.name}});
    out.back().update(judged(stage.judgement));
  }
  return out;
}

std::string inspection_json(const Inspection& seen) {
  Json start =
      json_line("inspect", {{"case", to_string(seen.value)},
                            {"digest", fmt::format("{:08x}", seen.digest)}});
  if (!seen.kernel.empty()) start["kernel"] = seen.kernel;
  std::string out = line_of(start) + stage_lines(seen.movie.stages);
  if (seen.view) out += kernel_lines(seen);
  for (int64_t head = 0; has_weights(seen) && head < seen.value.shape.H;
       ++head) {
    out += head_line(seen, head, "definition", expected_map(seen, head));
    if (has_kernel_weights(seen))
      out += head_line(seen, head, "kernel", actual_map(seen, head));
  }
  for (const int64_t head : seen.heads) {
    out += weights_line(seen, head, "definition", expected_map(seen, head));
    if (has_kernel_weights(seen))
      out += weights_line(seen, head, "kernel", actual_map(seen, head));
  }
  if (!seen.view) return out;
  const KernelStage* parts = seen.view->parts_at();
  return out + line_of(json_line(
                   "inspect_end",
                   {{"weights_from", seen.view->weights_from},
                    {"parts_at",
                     parts == nullptr ? Json(nullptr) : Json(parts->name)},
                    {"exit", static_cast<int>(seen.view->exit_code())}}));
}

}  // namespace qkvet::cli

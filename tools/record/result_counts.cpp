// SPDX-License-Identifier: Apache-2.0
#include "tools/record/result_counts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

#include "tools/base/json_lines.h"
#include "tools/base/lines.h"
#include "tools/record/run_record.h"

namespace qkvet::tools {

namespace {

void add_elements(const Elements& elements, Json& json) {
  json["compared"] = elements.compared;
  json["vacuous"] = elements.vacuous;
  if (elements.both_nan > 0) json["both_nan"] = elements.both_nan;
}

Elements elements_of(const Json& json) {
  return {count_of(json, "compared"), count_of(json, "vacuous"),
          count_of(json, "both_nan")};
}

Json sharpness_json(const properties::SharpnessByStorage& sharpness) {
  Json out = Json::object();
  for (const auto& [storage, one] : sharpness) {
    Json quarters = Json::object();
    for (const auto& [quarter, cases] : one.quarters)
      quarters[std::to_string(quarter)] = cases;
    out[storage] = {{"without_error", one.without_error},
                    {"quarters", std::move(quarters)}};
  }
  return out;
}

properties::SharpnessByStorage sharpness_of(const Json& json) {
  properties::SharpnessByStorage out;
  if (!json.is_object()) return out;
  for (const auto& [storage, one] : json.items()) {
    properties::Sharpness& sharpness = out[storage];
    sharpness.without_error = count_of(one, "without_error");
    for (const auto& [quarter, cases] : part_of(one, "quarters").items())
      if (cases.is_number_integer())
        sharpness.quarters[std::atoi(quarter.c_str())] += cases.get<int64_t>();
  }
  return out;
}

// Two settings in a row of json_of().
constexpr char kMet = '1', kNot = '0', kApart = '-';

}  // namespace

void add_counts(const Cell& cell, Json& result) {
  if (cell.planned > 0) result["planned"] = cell.planned;
  result["checked"] = cell.checked;
  result["unsupported"] = cell.unsupported;
  if (cell.refused > 0) result["refused"] = cell.refused;
  result["not_applicable"] = cell.not_applicable;
  add_elements(cell.elements, result);
  if (cell.long_cases > 0) {
    Json of_long{{"cases", cell.long_cases}};
    add_elements(cell.of_long, of_long);
    result["long"] = std::move(of_long);
  }
  if (cell.emptiest.vacuous > 0) {
    Json emptiest = Json::object();
    add_elements(cell.emptiest, emptiest);
    result["emptiest"] = std::move(emptiest);
  }
  result["worst_error_over_bound"] = json_number(cell.worst_ratio);
  // Cases by the power of two below their largest error/bound.
  Json powers = Json::object();
  for (const auto& [power, cases] : cell.ratios)
    powers[std::to_string(power)] = cases;
  result["error_over_bound_powers"] = std::move(powers);
  if (!cell.sharpness.empty())
    result["bound_over_error"] = sharpness_json(cell.sharpness);
  result["seconds"] = cell.seconds;
  if (!cell.refusal.empty()) result["refusal"] = cell.refusal;
  if (cell.warned == 0) return;
  result["warned"] = cell.warned;
  result["warning"] = cell.warning;
  result["warning_number"] = cell.warning_number;
}

Tally tally_of(const Json& result) {
  Tally tally;
  tally.planned = count_of(result, "planned");
  tally.checked = count_of(result, "checked");
  tally.unsupported = count_of(result, "unsupported");
  tally.refused = count_of(result, "refused");
  tally.not_applicable = count_of(result, "not_applicable");
  tally.elements = elements_of(result);
  const Json& of_long = part_of(result, "long");
  tally.of_long = elements_of(of_long);
  tally.long_cases = count_of(of_long, "cases");
  tally.emptiest = elements_of(part_of(result, "emptiest"));
  tally.worst_ratio = number_of(result, "worst_error_over_bound");
  tally.seconds = number_of(result, "seconds");
  tally.ratios = ratio_powers(result);
  tally.sharpness = sharpness_of(part_of(result, "bound_over_error"));
  tally.warned = count_of(result, "warned");
  tally.warning = {text_of(result, "warning"),
                   count_of(result, "warning_number")};
  tally.reason = {text_of(result, "reason"), 0};
  tally.refusal = {text_of(result, "refusal"), 0};
  return tally;
}

Json json_of(const properties::MetPairs& pairs) {
  Json met = Json::array();
  for (size_t a = 0; a < pairs.met.size(); ++a) {
    std::string text;
    for (size_t b = 0; b < pairs.met.size(); ++b)
      text += pairs.met[a][b]                             ? kMet
              : !pairs.apart.empty() && pairs.apart[a][b] ? kApart
                                                          : kNot;
    met.push_back(std::move(text));
  }
  Json out{{"settings", pairs.settings}, {"met", std::move(met)}};
  if (pairs.triples) {
    out["triples"] = *pairs.triples;
    out["possible_triples"] = pairs.possible_triples();
  }
  if (pairs.apart.empty()) return out;
  out["added"] = pairs.added;
  if (pairs.triples) out["added_triples"] = pairs.added_triples;
  return out;
}

properties::MetPairs met_pairs_of(const Json& json) {
  properties::MetPairs out;
  out.settings = texts_of(json, "settings");
  for (const std::string& row : texts_of(json, "met")) {
    out.met.emplace_back();
    out.apart.emplace_back();
    for (const char one : row) {
      out.met.back().push_back(one == kMet);
      out.apart.back().push_back(one == kApart);
    }
    if (row.size() != out.settings.size()) return {};
  }
  if (out.met.size() != out.settings.size()) return {};
  if (!json.contains("added")) out.apart.clear();
  out.added = count_of(json, "added");
  if (json.contains("added_triples"))
    out.added_triples = count_of(json, "added_triples");
  if (json.contains("triples")) out.triples = count_of(json, "triples");
  return out;
}

namespace {

using NamedPairs = std::vector<std::pair<std::string, std::string>>;

// "; never: windows with pages, and 206 more"
std::string few_of(const char* lead, const NamedPairs& pairs) {
  std::string out;
  constexpr size_t kShown = 3;
  for (size_t n = 0; n < std::min(pairs.size(), kShown); ++n)
    out += fmt::format("{}{} with {}", n == 0 ? lead : ", ", pairs[n].first,
                       pairs[n].second);
  if (pairs.size() > kShown)
    out += fmt::format(", and {} more",
                       grouped(std::ssize(pairs) - int64_t{kShown}));
  return out;
}

}  // namespace

std::string pairs_met_text(const properties::MetPairs& pairs) {
  std::string out = fmt::format(
      "{} of {} {}pairs of {} settings met in a call", grouped(pairs.seen()),
      grouped(pairs.possible()), pairs.apart.empty() ? "" : "possible ",
      pairs.settings.size());
  if (pairs.added > 0)
    out += fmt::format(", {} of them in added cases", grouped(pairs.added));
  if (pairs.triples)
    out +=
        fmt::format("; and {} of {} possible triples, whose pairs all met",
                    grouped(*pairs.triples), grouped(pairs.possible_triples()));
  if (pairs.triples && pairs.added_triples > 0)
    out += fmt::format(", {} of them in added cases",
                       grouped(pairs.added_triples));
  return out;
}

std::string pairs_text(const properties::MetPairs& pairs) {
  if (pairs.settings.empty()) return "";
  return pairs_met_text(pairs) + few_of("; never: ", pairs.never()) +
         few_of("; in no case of these laws: ", pairs.cannot());
}

}  // namespace qkvet::tools

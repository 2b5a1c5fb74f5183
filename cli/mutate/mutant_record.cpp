// SPDX-License-Identifier: Apache-2.0
#include "cli/mutate/mutant_record.h"

#include <cmath>
#include <iterator>

namespace qkvet::cli {
namespace {

constexpr const char* kFateWords[] = {"killed", "survived", "invalid",
                                      "same code", "twin"};

// JSON has no infinity: it is written as null, and read back from it.
Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}
double number(const ReadJson& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end()) return 0;
  return found->is_number() ? found->get<double>() : HUGE_VAL;
}
std::string text(const ReadJson& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_string() ? found->get<std::string>()
                                                   : "";
}
int64_t count(const ReadJson& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number_integer()
             ? found->get<int64_t>()
             : 0;
}

}  // namespace

const char* fate_word(MutantFate fate) {
  return kFateWords[static_cast<size_t>(fate)];
}

Json to_json(const MutantRecord& record) {
  Json json;
  json["type"] = "mutant";
  json["id"] = record.id;
  json["operator"] = record.operation;
  json["line"] = record.line;
  json["before"] = record.before;
  json["after"] = record.after;
  json["fate"] = fate_word(record.fate);
  for (const auto& [key, value] :
       {std::pair{"code", &record.code}, std::pair{"of", &record.of},
        std::pair{"how", &record.how}, std::pair{"law", &record.law},
        std::pair{"text", &record.text}})
    if (!value->empty()) json[key] = *value;
  if (record.number > 0) json["number"] = record.number;
  json["seconds"] = record.seconds;
  if (record.fate != MutantFate::kSurvived) return json;
  const Survival& s = record.survival;
  json["cases"] = s.cases;
  json["calls"] = s.calls;
  json["differ"] = s.differ;
  json["refused"] = s.refused;
  json["most_ulps"] = number(s.most_ulps);
  json["most_bound"] = number(s.most_bound);
  json["worst_error"] = number(s.worst_error);
  json["time_ratio"] = number(s.time_ratio);
  if (!s.declares.empty()) json["declares"] = s.declares;
  if (!s.assumes.empty()) json["assumes"] = s.assumes;
  if (s.reached) json["reached"] = *s.reached;
  return json;
}

std::optional<MutantRecord> mutant_of(const ReadJson& line) {
  if (!line.is_object() || text(line, "type") != "mutant") return std::nullopt;
  MutantRecord record;
  const std::string word = text(line, "fate");
  size_t fate = 0;
  while (fate < std::size(kFateWords) && word != kFateWords[fate]) ++fate;
  if (fate == std::size(kFateWords)) return std::nullopt;
  record.fate = static_cast<MutantFate>(fate);
  record.id = text(line, "id");
  record.operation = text(line, "operator");
  record.line = static_cast<int>(count(line, "line"));
  record.before = text(line, "before");
  record.after = text(line, "after");
  record.code = text(line, "code");
  record.of = text(line, "of");
  record.how = text(line, "how");
  record.law = text(line, "law");
  record.text = text(line, "text");
  record.number = count(line, "number");
  record.seconds = number(line, "seconds");
  Survival& s = record.survival;
  s.cases = count(line, "cases");
  s.calls = count(line, "calls");
  s.differ = count(line, "differ");
  s.refused = count(line, "refused");
  s.most_ulps = number(line, "most_ulps");
  s.most_bound = number(line, "most_bound");
  s.worst_error = number(line, "worst_error");
  s.time_ratio = number(line, "time_ratio");
  s.declares = text(line, "declares");
  s.assumes = text(line, "assumes");
  const auto reached = line.find("reached");
  if (reached != line.end() && reached->is_boolean())
    s.reached = reached->get<bool>();
  return record;
}

}  // namespace qkvet::cli

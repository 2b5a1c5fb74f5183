// SPDX-License-Identifier: Apache-2.0
#include "tools/record/run_record.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "core/base/read_file.h"
#include "tools/base/json_lines.h"

namespace qkvet::tools {
namespace {

const Json kNoLine = Json::object();

Json* find_by(std::vector<Json>& rows, const char* field,
              const std::string& wanted) {
  for (Json& row : rows)
    if (text_of(row, field) == wanted) return &row;
  return nullptr;
}

// "" or what a line lacks that readers rest on.
std::string lack_of(const Json& line, const std::string& type) {
  const auto lacks_text = [&line](const char* field) {
    return text_of(line, field).empty();
  };
  if (type == "law" && lacks_text("law")) return "a law without a name";
  if ((type == "kernel" || type == "declared") && lacks_text("kernel"))
    return "a kernel without a name";
  if (type != "result") return "";
  for (const char* field : {"kernel", "law", "verdict"})
    if (lacks_text(field))
      return fmt::format("a result without a text \"{}\"", field);
  if (!line.contains("checked") || !line["checked"].is_number_integer())
    return "a result without a number \"checked\"";
  if (line.contains("failure") && !line["failure"].is_object())
    return "a failure that is no object";
  return "";
}

// "" or what is wrong with the line.
std::string add_line(Json line, RunRecord& record) {
  const std::string type = text_of(line, "type");
  if (!line.is_object() || type.empty())
    return "no object with a text \"type\"; allowed: lines of `qkvet check "
           "--json`";
  if (count_of(line, "schema") != kSchema)
    return fmt::format("schema {}; allowed: {}", part_of(line, "schema").dump(),
                       kSchema);
  if (std::string lack = lack_of(line, type); !lack.empty()) return lack;
  if (type == "start")
    record.start = std::move(line);
  else if (type == "end")
    record.end = std::move(line);
  else if (type == "law")
    record.laws.push_back(std::move(line));
  else if (type == "kernel")
    record.kernels.push_back(std::move(line));
  else if (type == "result") {
    const std::string kernel = text_of(line, "kernel"),
                      law = text_of(line, "law");
    if (!record.add_result(std::move(line)))
      return fmt::format("a second result of {} under {}", kernel, law);
  } else if (type == "declared") {
    Json* kernel = find_by(record.kernels, "kernel", text_of(line, "kernel"));
    if (kernel == nullptr)
      kernel = &record.kernels.emplace_back(
          Json{{"schema", kSchema},
               {"type", "kernel"},
               {"kernel", text_of(line, "kernel")}});
    for (const char* field : {"drawn", "never_drawn", "pairs", "hints"})
      if (line.contains(field)) (*kernel)[field] = part_of(line, field);
  }
  return "";
}

// Records that older versions wrote have no lines of laws and kernels.
void add_missing(RunRecord& record) {
  const auto add = [](std::vector<Json>& rows, const char* field,
                      const std::string& name) {
    if (find_by(rows, field, name) == nullptr)
      rows.push_back(Json{{"schema", kSchema}, {"type", field}, {field, name}});
  };
  for (const Json& result : record.results) {
    add(record.kernels, "kernel", text_of(result, "kernel"));
    add(record.laws, "law", text_of(result, "law"));
  }
}

std::string record_line(const Json& json) { return json_text(json) + "\n"; }

}  // namespace

std::optional<RunRecord> parse_record(std::string_view text,
                                      const std::string& name,
                                      std::string* error) {
  RunRecord record;
  record.name = name;
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.empty()) continue;
    std::string wrong;
    try {
      wrong = add_line(qkvet::json_of(line), record);
    } catch (const Json::parse_error&) {
      wrong = "no JSON";
    }
    if (wrong.empty()) continue;
    *error = fmt::format("{}:{}: {}", name, number, wrong);
    return std::nullopt;
  }
  if (record.end.empty()) {
    *error = fmt::format(
        "{}: holds no end of a run; allowed: what `qkvet check --json` has "
        "written to its end",
        name);
    return std::nullopt;
  }
  add_missing(record);
  return record;
}

std::optional<RunRecord> read_record(const std::string& file,
                                     std::string* error) {
  std::string text;
  *error = read_file(file, &text);
  if (!error->empty()) return std::nullopt;
  return parse_record(text, file, error);
}

std::string record_lines(const RunRecord& record) {
  std::string out = record_line(record.start);
  for (const Json& law : record.laws) out += record_line(law);
  std::string declared;
  for (Json kernel : record.kernels) {
    Json line{{"schema", kSchema},
              {"type", "declared"},
              {"kernel", text_of(kernel, "kernel")}};
    for (const char* field : {"drawn", "never_drawn"}) {
      line[field] = texts_of(kernel, field);
      kernel.erase(field);
    }
    for (const char* field : {"pairs", "hints"})
      if (kernel.contains(field)) {
        line[field] = kernel[field];
        kernel.erase(field);
      }
    out += record_line(kernel);
    if (!line["drawn"].empty() || !line["never_drawn"].empty())
      declared += record_line(line);
  }
  for (const Json& result : record.results) out += record_line(result);
  return out + declared + record_line(record.end);
}

const Json& RunRecord::law(std::string_view id) const {
  for (const Json& row : laws)
    if (text_of(row, "law") == id) return row;
  return kNoLine;
}

const Json& RunRecord::kernel(std::string_view wanted) const {
  for (const Json& row : kernels)
    if (text_of(row, "kernel") == wanted) return row;
  return kNoLine;
}

const Json* RunRecord::result(const std::string& kernel,
                              const std::string& law) const {
  const auto found = places.find({kernel, law});
  return found == places.end() ? nullptr : &results[found->second];
}

std::vector<const Json*> RunRecord::results_of(
    const std::string& kernel) const {
  std::vector<const Json*> out;
  for (const Json& row : results)
    if (text_of(row, "kernel") == kernel) out.push_back(&row);
  return out;
}

bool RunRecord::add_result(Json result) {
  const auto [place, is_new] = places.try_emplace(
      {text_of(result, "kernel"), text_of(result, "law")}, results.size());
  if (is_new) results.push_back(std::move(result));
  return is_new;
}

const char* row_word(const RunRecord& record) {
  return text_of(record.start, "rows") == "set" ? "set" : "law";
}

const Json& part_of(const Json& json, const char* field) {
  static const Json kNull;
  if (!json.is_object()) return kNull;
  const auto found = json.find(field);
  return found == json.end() ? kNull : *found;
}

std::string text_of(const Json& json, const char* field) {
  const Json& value = part_of(json, field);
  return value.is_string() ? value.get<std::string>() : "";
}

double number_of(const Json& json, const char* field) {
  const Json& value = part_of(json, field);
  if (value.is_number()) return value.get<double>();
  const std::string text = text_of(json, field);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return text == "inf" ? kInfinity : text == "-inf" ? -kInfinity : 0;
}

int64_t count_of(const Json& json, const char* field) {
  const Json& value = part_of(json, field);
  return value.is_number_integer() ? value.get<int64_t>() : 0;
}

bool is_set(const Json& json, const char* field) {
  const Json& value = part_of(json, field);
  return value.is_boolean() && value.get<bool>();
}

std::vector<std::string> texts_of(const Json& json, const char* field) {
  std::vector<std::string> out;
  const Json& value = part_of(json, field);
  if (!value.is_array()) return out;
  for (const Json& one : value)
    if (one.is_string()) out.push_back(one.get<std::string>());
  return out;
}

const char* state_of(const Json& result) {
  const Json& known = part_of(result, "known");
  if (is_set(known, "holds")) return "known";
  const std::string verdict = text_of(result, "verdict");
  const Json& baseline = part_of(result, "baseline");
  const bool accepted = baseline.is_object() && !is_set(baseline, "worse");
  if (accepted && (verdict == "crash" || verdict == "FAILED")) return "known";
  if (is_set(known, "gone")) return "failed";
  if (verdict == "crash") return "crash";
  if (verdict == "FAILED") return "failed";
  if (verdict == "passed") return "passed";
  if (verdict == "unsupported")
    return is_set(result, "undeclared") ? "undeclared" : "unsupported";
  return "open";
}

std::string known_reason_of(const Json& result) {
  const std::string reason = text_of(part_of(result, "known"), "reason");
  return reason.empty() ? "it is no better in the baseline" : reason;
}

std::map<int, int64_t> ratio_powers(const Json& result) {
  std::map<int, int64_t> out;
  const Json& powers = part_of(result, "error_over_bound_powers");
  if (powers.is_object())
    for (const auto& [power, cases] : powers.items())
      if (cases.is_number_integer())
        out[std::atoi(power.c_str())] += cases.get<int64_t>();
  return out;
}

std::vector<const Json*> failures_of(const Json& result) {
  std::vector<const Json*> out;
  if (const Json& first = part_of(result, "failure"); first.is_object())
    out.push_back(&first);
  if (const Json& others = part_of(result, "other_failures"); others.is_array())
    for (const Json& other : others)
      if (other.is_object()) out.push_back(&other);
  return out;
}

}  // namespace qkvet::tools

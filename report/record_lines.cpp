// SPDX-License-Identifier: Apache-2.0
// Records as JSON Lines, written and read.
#include <algorithm>

#include "core/base/read_file.h"
#include "report/json_fields.h"

namespace qkvet::report {
namespace {

// The settings that met, a text per setting. "added" is present if pairs
// without a case are known.
constexpr char kMet = '1', kNot = '0', kApart = '-';

Texts met_rows(const MetPairs& pairs) {
  Texts rows;
  for (size_t a = 0; a < pairs.met.size(); ++a) {
    std::string& row = rows.emplace_back();
    for (size_t b = 0; b < pairs.met.size(); ++b)
      row += pairs.met[a][b]                             ? kMet
             : !pairs.apart.empty() && pairs.apart[a][b] ? kApart
                                                         : kNot;
  }
  return rows;
}

}  // namespace

// --- fields of structs of other floors

void fields(auto& v, Elements& x) {
  v.must("compared", x.compared, "vacuous", x.vacuous);
  v.may("both_nan", x.both_nan);
}

void fields(auto& v, Sharpness& x) {
  v.must("without_error", x.without_error, "quarters", x.quarters);
}

void fields(auto& v, TimeUse& x) {
  v.must("cases", x.generate, "oracle", x.oracle, "bound", x.bound, "kernels",
         x.kernel, "judging", x.judge);
}

template <class V>
void fields(V& v, MetPairs& x) {
  Texts rows = met_rows(x);
  int64_t possible = x.triples ? x.possible_triples() : 0;
  std::optional<int64_t> added;
  if (!x.apart.empty()) added = x.added;
  v.must("settings", x.settings, "met", rows);
  v.may("triples", x.triples, "possible_triples", possible, "added", added,
        "added_triples", x.added_triples);
  if constexpr (V::kReads) {
    const auto fits = [&x](const std::string& row) {
      return row.size() == x.settings.size();
    };
    if (rows.size() != x.settings.size() ||
        !std::all_of(rows.begin(), rows.end(), fits))
      throw v.wrong("settings and \"met\" do not fit together");
    for (const std::string& row : rows) {
      std::vector<bool>& met = x.met.emplace_back();
      std::vector<bool>& apart = x.apart.emplace_back();
      for (const char one : row) {
        met.push_back(one == kMet);
        apart.push_back(one == kApart);
      }
    }
    if (!added) x.apart.clear();
    x.added = added.value_or(0);
  }
}

std::string wrong_in(const ShardLine& shard) {
  return shard.number < 1 || shard.number > shard.of || shard.of > kMostShards
             ? fmt::format("shard {} of {}; allowed: K of N, N up to {}",
                           shard.number, shard.of, kMostShards)
             : "";
}

std::string wrong_in(const MergedShards& shards) {
  return shards.of < 1 || shards.of > kMostShards
             ? fmt::format("{} shards; allowed: 1 to {}", shards.of,
                           kMostShards)
             : "";
}

std::string wrong_in(const OutputNumbers& output) { return misfit(output); }

namespace {

template <class T>
std::string line_of_record(const char* type, const T& value) {
  Json json = json_line(type);
  LineWriter(json).flat(value);
  return line_of(json);
}

template <class T>
T line_read(const Json& json) {
  T out;
  LineReader::read(json, out);
  return out;
}

// "" or an error other than in the fields of the line.
std::string add_line(const Json& line, bool& has_end, RunRecord& record) {
  const std::string type = line.value("type", std::string());
  if (!line.contains("schema") || line["schema"] != kSchema)
    return fmt::format("schema {}; allowed: {}",
                       json_text(line.value("schema", Json())), kSchema);
  if (type == "start") {
    record.start = line_read<StartLine>(line);
  } else if (type == "law") {
    record.laws.push_back(line_read<LawLine>(line));
    if (record.laws.back().law.empty()) return "a law without a name";
  } else if (type == "kernel") {
    record.kernels.push_back(line_read<KernelLine>(line));
    if (record.kernels.back().kernel.empty()) return "a kernel without a name";
  } else if (type == "end") {
    record.end = line_read<EndLine>(line);
    has_end = true;
  } else if (type == "result") {
    auto result = line_read<ResultLine>(line);
    const std::string of = result.kernel + " under " + result.law;
    const KernelLine* kernel = record.kernel(result.kernel);
    if (kernel == nullptr || record.law(result.law) == nullptr)
      return "a result of " + of + " before the lines of both";
    result.row = static_cast<size_t>(kernel - record.kernels.data());
    if (is_failing(result.verdict) && !result.failure)
      return std::string(word_of(result.verdict)) + " without a failure";
    if (!record.add_result(std::move(result)))
      return "a second result of " + of;
  }
  return "";
}

// "" or the error in the line.
std::string read_line(std::string_view text, bool& has_end, RunRecord& record) {
  try {
    const Json line = qkvet::json_of(text);
    if (!line.is_object() || !line.contains("type") ||
        !line["type"].is_string())
      return "no object with a text \"type\"; allowed: lines of `qkvet check "
             "--json`";
    return add_line(line, has_end, record);
  } catch (const WrongLine& wrong) {
    return wrong.place + (wrong.place.empty() ? "" : ": ") + wrong.text;
  } catch (const Json::parse_error&) {
    return "no JSON";
  }
}

}  // namespace

std::string misfit(const OutputNumbers& output) {
  constexpr size_t kMostAxes = 4;
  const size_t axes = output.shape.size();
  int64_t elements = axes == 0 || axes > kMostAxes ? 0 : 1;
  for (const int64_t extent : output.shape)
    elements = extent > kMostElements ? 0 : elements * extent;
  // A shape of two axes skips the first letter.
  if (elements < 1 || elements > kMostElements ||
      output.axes.size() < axes + (axes == 2 ? 1 : 0))
    return fmt::format(
        "shape [{}] of axes \"{}\"; allowed: 1 to {} axes with a letter each, "
        "1 to {} elements",
        joined(output.shape), output.axes, kMostAxes, kMostElements);
  for (const auto* values :
       {&output.expected, &output.low, &output.high, &output.actual})
    if (std::ssize(*values) != elements)
      return fmt::format("{} numbers; allowed: {}, as shape [{}] has",
                         values->size(), elements, joined(output.shape));
  return "";
}

std::optional<RunRecord> parse_record(std::string_view text,
                                      const std::string& name,
                                      std::string* error) {
  RunRecord record;
  record.name = name;
  bool has_end = false;
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.empty()) continue;
    if (std::string wrong = read_line(line, has_end, record); !wrong.empty()) {
      // Names may contain anything.
      std::replace(wrong.begin(), wrong.end(), '\n', ' ');
      *error = fmt::format("{}:{}: {}", name, number, wrong);
      return std::nullopt;
    }
  }
  if (has_end) return record;
  *error = fmt::format(
      "{}: holds no end of a run; allowed: what `qkvet check --json` has "
      "written to its end",
      name);
  return std::nullopt;
}

std::optional<RunRecord> read_record(const std::string& file,
                                     std::string* error) {
  std::string text;
  *error = read_file(file, &text);
  if (!error->empty()) return std::nullopt;
  return parse_record(text, file, error);
}

std::string start_text(const StartLine& start) {
  return line_of_record("start", start);
}

std::string result_lines(const RunRecord& record, const std::string& more) {
  std::string out;
  for (const LawLine& law : record.laws) out += line_of_record("law", law);
  for (const KernelLine& kernel : record.kernels)
    out += line_of_record("kernel", kernel);
  for (const ResultLine& result : record.results)
    out += line_of_record("result", result);
  return out + more + line_of_record("end", record.end);
}

std::string record_lines(const RunRecord& record) {
  return start_text(record.start) + result_lines(record);
}

}  // namespace qkvet::report

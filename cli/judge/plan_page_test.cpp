// SPDX-License-Identifier: Apache-2.0
// cli/plan.md documents exactly the words of a plan: its tables are compared
// with the list of options and with plans that use all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/judge/judge_run.h"
#include "cli/reproduce/emit_run.h"
#include "cli/reproduce/plan_kernel.h"

namespace qkvet::cli::plan_page_test {
namespace {

namespace fs = std::filesystem;
using Cells = std::vector<std::string>;

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" `");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" `") - first + 1);
}

Cells split(const std::string& text, const std::string& any_of) {
  Cells parts;
  size_t from = 0;
  while (from <= text.size()) {
    const size_t end = std::min(text.find_first_of(any_of, from), text.size());
    if (const std::string part = trimmed(text.substr(from, end - from));
        !part.empty())
      parts.push_back(part);
    from = end + 1;
  }
  return parts;
}

// The rows of the table under a heading, with a first word in backticks; a row
// for each of several words.
std::vector<Cells> table_of(const std::string& page,
                            const std::string& heading) {
  std::vector<Cells> rows;
  std::istringstream in(page);
  bool here = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("## ")) here = line == "## " + heading;
    if (!here || !line.starts_with("| `")) continue;
    const Cells cells = split(line, "|");
    for (const std::string& word : split(cells.at(0), ",")) {
      rows.push_back(cells);
      rows.back()[0] = word;
    }
  }
  return rows;
}

Cells first_words(const std::vector<Cells>& rows) {
  Cells words;
  words.reserve(rows.size());
  for (const Cells& row : rows) words.push_back(row.at(0));
  return words;
}

// The contents of plans.
struct Plans {
  Cells columns;                      // of calls.tsv
  std::vector<nlohmann::json> calls;  // except contradictory ones
};

Plans plans_with_all() {
  Plans plans;
  for (const char* words :
       {"--options all --cases 700", "--options all --cases 300 --dtype bf16",
        "--options all --cases 200 --dtype f32/f16/bf16",
        "--options all --cases 200 --dtype f64 --law '*agree*'",
        "--options all --cases 400 --law 'backward_agrees*'"}) {
    const fs::path plan = emitted("page", std::string(words) + " --force");
    const std::string table = read_text(plan / "calls.tsv");
    plans.columns = split(table.substr(0, table.find('\n')), "\t");
    const auto json = nlohmann::json::parse(read_text(plan / "plan.json"));
    std::set<size_t> contradict;
    for (const auto& one : json["cases"])
      if (one["law"] == "mismatched_widths_are_refused")
        contradict.insert(one["calls"].begin(), one["calls"].end());
    for (const auto& call : json["calls"])
      if (!contradict.contains(call["id"])) plans.calls.push_back(call);
  }
  return plans;
}

// The value of "H dv", "members+1", "Tq or 1" in a call; `found` if the text is
// no number.
int64_t extent_of(const std::string& text, const nlohmann::json& call,
                  int64_t found) {
  if (text == "positions" || text == "n" || text == "r/2")
    return found;  // of the tensor alone
  if (text == "2") return 2;
  if (const size_t either = text.find(" or 1"); either != std::string::npos) {
    const int64_t extent = extent_of(text.substr(0, either), call, found);
    return found == std::min<int64_t>(extent, 1) ? found : extent;
  }
  if (const size_t plus = text.find("+1"); plus != std::string::npos)
    return extent_of(text.substr(0, plus), call, found) + 1;
  int64_t product = 1;
  for (const std::string& factor : split(text, " "))
    product *= call.value(factor == "T" ? "Tq" : factor, int64_t{-1});
  return product;
}

bool is_shape(const std::string& text, const nlohmann::json& call,
              const nlohmann::json& shape) {
  if (text == "as x") return shape == call["inputs"]["x"]["shape"];
  if (text == "the same")
    return is_shape("[B or 1,H or 1,Tq or 1,Tk or 1]", call, shape);
  // "[B,T,D] or [T,D]"
  if (const size_t either = text.find("] or ["); either != std::string::npos)
    return is_shape(text.substr(0, either + 1), call, shape) ||
           is_shape(text.substr(either + 5), call, shape);
  const Cells extents = split(text, "[,]");
  if (extents.size() != shape.size()) return false;
  for (size_t i = 0; i < extents.size(); ++i)
    if (extent_of(extents[i], call, shape[i]) != shape[i]) return false;
  return true;
}

std::string type_of(const std::string& text, const nlohmann::json& call) {
  const Cells types = split(call["dtype"], "/");
  if (text == "as q") return types.front();
  if (text == "as kv") return types.size() == 3 ? types[1] : types.front();
  if (text == "as o") return types.back();
  if (text == "f32") return call["dtype"] == "f64" ? "f64" : "f32";
  return text;
}

void compare(const Cells& page, const Cells& plan, const std::string& of,
             std::set<std::string>& wrong) {
  const std::set<std::string> said(page.begin(), page.end());
  const std::set<std::string> there(plan.begin(), plan.end());
  if (said.size() != page.size()) wrong.insert(of + ": a word stands twice");
  for (const std::string& word : plan)
    if (!said.contains(word)) wrong.insert(of + ": " + word + " is not said");
  for (const std::string& word : page)
    if (!there.contains(word)) wrong.insert(of + ": " + word + " is unknown");
}

void compare_tensors(const std::string& page, const Plans& plans,
                     std::set<std::string>& wrong) {
  std::map<std::string, Cells> rows;  // by operation and name
  Cells said, there;
  for (const Cells& row : table_of(page, "Tensors"))
    for (const std::string& operation : split(row.at(1), ",;")) {
      const std::string name = operation + " " + row[0];
      rows[name] = row;
      said.push_back(name);
    }
  std::set<std::string> seen;
  for (const auto& call : plans.calls)
    for (const char* which : {"inputs", "outputs"})
      for (const auto& [tensor, is] : call[which].items()) {
        const std::string name = std::string(call["operation"]) + " " + tensor;
        if (seen.insert(name).second) there.push_back(name);
        if (!rows.contains(name)) continue;
        const Cells& row = rows[name];
        if (!is_shape(row.at(2), call, is["shape"]))
          wrong.insert(name + ": is of shape " + is["shape"].dump());
        const Cells types = split(row.at(3), ";");
        if (std::none_of(types.begin(), types.end(), [&](const auto& type) {
              return is["dtype"] == type_of(type, call);
            }))
          wrong.insert(name + ": is of type " + std::string(is["dtype"]));
        // "out; p", "in", "out; of backward in"
        const bool in = std::string(which) == "inputs";
        const bool out = row.at(4).starts_with("out") &&
                         !(call["operation"] == "backward" &&
                           row[4].find("backward in") != std::string::npos);
        if (in == out) wrong.insert(name + ": goes the other way");
      }
  compare(said, there, "tensors", wrong);
}

// All errors of the page.
std::set<std::string> complaints(const std::string& page, const Plans& plans) {
  std::set<std::string> wrong;
  compare(first_words(table_of(page, "Options")),
          split(plan_option_names(), ","), "options", wrong);
  const std::vector<Cells> columns = table_of(page, "Columns");
  if (first_words(columns) != plans.columns)
    wrong.insert("columns: stand in another order");
  compare(first_words(columns), plans.columns, "columns", wrong);
  for (const Cells& row : columns)
    for (const auto& call : plans.calls) {
      if (row[0] == "call" || !call.contains(row[0]) ||
          !call[row[0]].is_string())
        continue;
      const Cells values = split(row.at(1), ",");
      // A mixture of storage types consists of documented ones.
      for (const std::string& value : split(call[row[0]], "/"))
        if (std::find(values.begin(), values.end(), value) == values.end())
          wrong.insert(row[0] + ": " + value + " is not said");
    }
  compare_tensors(page, plans, wrong);
  return wrong;
}

std::string text_of(const std::set<std::string>& wrong) {
  std::string text;
  for (const std::string& one : wrong) text += one + "\n";
  return text;
}

TEST(PlanPage, SaysEveryWordAndNoOther) {
  const std::string page = read_text(QKVET_PLAN_PAGE);
  const Plans plans = plans_with_all();
  EXPECT_EQ(text_of(complaints(page, plans)), "");
  // And an error in the page is found.
  const auto finds = [&](const std::string& from, const std::string& to,
                         const std::string& what) {
    const auto wrong = complaints(replaced(page, from, to), plans);
    EXPECT_TRUE(wrong.contains(what)) << what << " in\n" << text_of(wrong);
  };
  finds("| `window`,", "| `windows`,", "options: window is not said");
  finds("| `window`,", "| `windows`,", "options: windows is unknown");
  finds("| `softcap` | >= 0", "| softcap | >= 0",
        "columns: softcap is not said");
  finds("| none, half, interleaved", "| none, half",
        "rope: interleaved is not said");
  finds("| `slopes` | forward, backward", "| `slopes` | forward",
        "tensors: backward slopes is not said");
  finds("| `y` | layer", "| `z` | layer", "tensors: layer z is unknown");
  finds("[H dv,D] | as q", "[H dv,D] | f32", "layer w_o: is of type bf16");
  finds("| `d_q` | backward | [B,H,Tq,d] | as q | out",
        "| `d_q` | backward | [B,H,Tq,d] | as q | in",
        "backward d_q: goes the other way");
  const auto shapes =
      complaints(replaced(page, "| `weights` | forward | [B,H,Tq,Tk]",
                          "| `weights` | forward | [B,H,Tk,Tq]"),
                 plans);
  EXPECT_TRUE(has(text_of(shapes), "forward weights: is of shape"));
}

}  // namespace
}  // namespace qkvet::cli::plan_page_test

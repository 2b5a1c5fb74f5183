// SPDX-License-Identifier: Apache-2.0
// What was judged, as a table: a line a kernel, or a line a law.
#include <fmt/core.h>

#include <algorithm>

#include "tools/report/report_parts.h"

namespace qkvet::tools {
namespace {

bool is_judged(const Cell& cell) {
  return cell.verdict == Verdict::kPassed || cell.verdict == Verdict::kFailed;
}

std::string laws_text(const std::vector<const Cell*>& cells, size_t width) {
  std::vector<std::string> laws;
  for (const Cell* cell : cells) laws.emplace_back(cell->law->id);
  return some_of(laws, width);
}

// Cells of one kernel that have the same verdict for the same reason.
struct Group {
  std::string verdict, reason;
  std::vector<const Cell*> cells;
};

std::vector<Group> grouped_by_reason(const std::vector<const Cell*>& cells) {
  std::vector<Group> groups;
  for (const Cell* cell : cells) {
    const std::string verdict(verdict_name(cell->verdict));
    auto found =
        std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
          return group.verdict == verdict && group.reason == cell->reason;
        });
    if (found == groups.end())
      found = groups.insert(groups.end(), {verdict, cell->reason, {}});
    found->cells.push_back(cell);
  }
  return groups;
}

// Which laws failed, and why others have no verdict, below a kernel's line.
std::string kernel_notes(const ReportInput& input, const KernelResult& kernel,
                         const ReportStyle& style) {
  if (style.quiet) return "";
  constexpr size_t kIndent = kNameWidth + 2;
  const size_t room = std::max(style.width, 2 * kIndent) - kIndent;
  std::vector<const Cell*> failed, crashed, other;
  for (const Cell& cell : kernel.cells)
    if (cell.verdict == Verdict::kFailed) {
      if (!is_known(input, kernel, cell))
        (cell.crashed() ? crashed : failed).push_back(&cell);
    } else if (cell.verdict != Verdict::kPassed && !is_undeclared(cell)) {
      other.push_back(&cell);
    }
  std::string out;
  if (!crashed.empty()) out += field("died in", laws_text(crashed, room));
  if (!failed.empty()) out += field("fails", laws_text(failed, room));
  // Reasons with figures in them are all different.
  constexpr size_t kMostReasons = 6;
  const std::vector<Group> groups = grouped_by_reason(other);
  for (size_t i = 0; i < std::min(kMostReasons, groups.size()); ++i) {
    const Group& group = groups[i];
    const std::string why =
        group.reason.empty() ? "no case was judged" : group.reason;
    const std::string laws = group.cells.size() == kernel.cells.size()
                                 ? "every law"
                                 : laws_text(group.cells, room);
    out += wrapped_field(group.verdict, laws + ": " + why, style.width);
  }
  if (groups.size() > kMostReasons)
    out += field("", fmt::format("and {} more such lines (--verbose)",
                                 groups.size() - kMostReasons));
  return out;
}

struct Column {
  const char* head;
  size_t width;
  // What stands there; "" where there is nothing to say.
  std::string (*text)(const LawCounts& counts);
};

std::string dashed(int64_t n) { return n == 0 ? "-" : grouped(n); }

// The first are the last to go on a narrow screen.
std::vector<Column> columns(const ReportInput& input) {
  std::vector<Column> out = {
      {"passed", 6, [](const LawCounts& one) { return grouped(one.passed); }},
      {"failed", 6, [](const LawCounts& one) { return grouped(one.failed); }},
  };
  if (input.known != nullptr || input.baseline != nullptr)
    out.push_back(
        {"known", 5, [](const LawCounts& one) { return dashed(one.known); }});
  out.insert(
      out.end(),
      {{"not declared", 12,
        [](const LawCounts& one) { return dashed(one.undeclared); }},
       {"checked", 9, [](const LawCounts& one) { return dashed(one.checked); }},
       {"error/bound", 11,
        [](const LawCounts& one) {
          return one.worst_ratio > 0 ? worst_text(one.worst_ratio)
                                     : std::string("-");
        }},
       {"time", 8, [](const LawCounts& one) {
          return fmt::format("{:.2f} s", one.seconds);
        }}});
  return out;
}

size_t name_width(const ReportInput& input) {
  size_t width = std::string_view("kernel").size();
  for (const KernelResult& kernel : input.result.kernels)
    width = std::max(width, kernel.kernel.judged.info.name.size());
  return width;
}

std::string verdict_text(const Cell& cell, bool known) {
  if (known) return "known";
  if (cell.crashed()) return "CRASH";
  return std::string(verdict_name(cell.verdict));
}

}  // namespace

std::string some_of(const std::vector<std::string>& words, size_t width) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string rest =
        i + 1 < words.size() ? fmt::format(" and {} more", words.size() - i - 1)
                             : "";
    if (i > 0 && out.size() + 2 + words[i].size() + rest.size() > width)
      return out + fmt::format(" and {} more", words.size() - i);
    out += (i == 0 ? "" : ", ") + words[i];
  }
  return out;
}

// The reasons are those of the laws and of core/capability/capability.h; what
// is worded otherwise, such as a refusal by supports(), is printed in full.
bool is_undeclared(const Cell& cell) {
  if (cell.verdict != Verdict::kUnsupported) return false;
  for (const char* word : {"declare", "is not offered", "is not returned",
                           "returns no", "takes no"})
    if (cell.reason.find(word) != std::string::npos) return true;
  return false;
}

void LawCounts::add(const LawCounts& other) {
  passed += other.passed;
  failed += other.failed;
  known += other.known;
  undeclared += other.undeclared;
  unsupported += other.unsupported;
  open += other.open;
  checked += other.checked;
  refused += other.refused;
  worst_ratio = std::max(worst_ratio, other.worst_ratio);
  seconds += other.seconds;
}

int64_t refused_cases(const Cell& cell) {
  return cell.verdict == Verdict::kUnsupported ? 0 : cell.unsupported;
}

LawCounts counts_of(const ReportInput& input, const KernelResult& kernel) {
  LawCounts counts;
  for (const Cell& cell : kernel.cells) {
    const bool known = is_known(input, kernel, cell);
    counts.passed += cell.verdict == Verdict::kPassed;
    counts.known += known;
    counts.failed += cell.verdict == Verdict::kFailed && !known;
    counts.undeclared += is_undeclared(cell);
    counts.unsupported +=
        cell.verdict == Verdict::kUnsupported && !is_undeclared(cell);
    counts.open += !is_judged(cell) && cell.verdict != Verdict::kUnsupported;
    counts.checked += cell.checked;
    counts.refused += refused_cases(cell);
    counts.worst_ratio = std::max(counts.worst_ratio, cell.worst_ratio);
    counts.seconds += cell.seconds;
  }
  return counts;
}

std::string kernel_table(const ReportInput& input, const ReportStyle& style) {
  const size_t names = name_width(input);
  std::vector<Column> shown = columns(input);
  const auto width = [&] {
    size_t sum = names;
    for (const Column& column : shown) sum += 2 + column.width;
    return sum;
  };
  while (shown.size() > 2 && width() > style.width) shown.pop_back();
  std::string out = fmt::format("{:<{}}", "kernel", names);
  for (const Column& column : shown)
    out += fmt::format("  {:>{}}", column.head, column.width);
  out += "\n";
  for (const KernelResult& kernel : input.result.kernels) {
    const LawCounts counts = counts_of(input, kernel);
    out += fmt::format("{:<{}}", kernel.kernel.judged.info.name, names);
    for (const Column& column : shown) {
      const bool bad =
          std::string_view(column.head) == "failed" && counts.failed > 0;
      out += "  " +
             painted(fmt::format("{:>{}}", column.text(counts), column.width),
                     "1;31", style.colour && bad);
    }
    out += "\n" + kernel_notes(input, kernel, style);
  }
  return out;
}

std::string law_table(const ReportInput& input, const ReportStyle& style) {
  const size_t names = name_width(input);
  size_t law_width = std::string_view("law").size();
  for (const Law* law : input.options.laws)
    law_width = std::max(law_width, std::string_view(law->id).size());
  std::string out = fmt::format(
      "{:<{}}  {:<{}}  {:<11}  {:>7}  {:>11}  {:>8}\n", "kernel", names, "law",
      law_width, "verdict", "checked", "error/bound", "time");
  for (const KernelResult& kernel : input.result.kernels) {
    std::vector<const Cell*> undeclared;
    for (const Cell& cell : kernel.cells) {
      if (is_undeclared(cell)) {
        undeclared.push_back(&cell);
        continue;
      }
      const bool known = is_known(input, kernel, cell);
      const bool bad = cell.verdict == Verdict::kFailed && !known;
      const std::string ratio =
          cell.worst_ratio > 0 ? worst_text(cell.worst_ratio) : "-";
      out += fmt::format(
          "{:<{}}  {:<{}}  {}  {:>7}  {:>11}  {:>6.2f} s\n",
          kernel.kernel.judged.info.name, names, cell.law->id, law_width,
          painted(fmt::format("{:<11}", verdict_text(cell, known)),
                  bad ? "1;31" : "32", style.colour),
          cell.checked, ratio, cell.seconds);
      if (!cell.reason.empty() && !is_judged(cell))
        out += fmt::format("{:<{}}    {}\n", "", names, cell.reason);
    }
    for (const Group& group : grouped_by_reason(undeclared))
      out += fmt::format("{:<{}}  {}: {}\n", kernel.kernel.judged.info.name,
                         names, group.reason,
                         laws_text(group.cells, std::string::npos / 2));
  }
  return out;
}

}  // namespace qkvet::tools

// SPDX-License-Identifier: Apache-2.0
// What was judged, as a table: a line a kernel, or a line a law.
#include <fmt/core.h>

#include <algorithm>

#include "cli/terminal/report_parts.h"

namespace qkvet::cli {
namespace {

using Results = std::vector<const ResultLine*>;

std::string laws_text(const Results& results, size_t width) {
  Texts laws;
  for (const ResultLine* result : results) laws.push_back(result->law);
  return some_of(laws, width);
}

// Results of one kernel with the same verdict for the same reason.
struct Group {
  RowVerdict verdict;
  std::string reason;
  Results results;
};

std::vector<Group> grouped_by_reason(const Results& results) {
  std::vector<Group> groups;
  for (const ResultLine* result : results) {
    const std::string& reason = result->counts.reason.text;
    auto found =
        std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
          return group.verdict == result->verdict && group.reason == reason;
        });
    if (found == groups.end())
      found = groups.insert(groups.end(), {result->verdict, reason, {}});
    found->results.push_back(result);
  }
  return groups;
}

// Beside the failure of the other call it is no news.
bool repeats_a_failure(const ResultLine& result) {
  return result.counts.reason.about == About::kOtherCall;
}

// Why laws have no verdict, below a kernel's line.
std::string kernel_notes(const Results& results, const ReportStyle& style) {
  if (style.quiet) return "";
  constexpr size_t kIndent = kNameWidth + 2;
  const size_t room = std::max(style.width, 2 * kIndent) - kIndent;
  Results other;
  const bool fails = counts_of(results).failed() > 0;
  for (const ResultLine* result : results)
    if (!is_failing(result->verdict) &&
        result->verdict != RowVerdict::kPassed && !result->is_undeclared() &&
        !(fails && repeats_a_failure(*result)))
      other.push_back(result);
  std::string out;
  // Reasons with figures in them are all different.
  constexpr size_t kMostReasons = 6;
  const std::vector<Group> groups = grouped_by_reason(other);
  for (size_t i = 0; i < std::min(kMostReasons, groups.size()); ++i) {
    const Group& group = groups[i];
    const std::string why =
        group.reason.empty() ? "no case was judged" : group.reason;
    const std::string laws = group.results.size() == results.size()
                                 ? "every law"
                                 : laws_text(group.results, room);
    out +=
        wrapped_field(word_of(group.verdict), laws + ": " + why, style.width);
  }
  if (groups.size() > kMostReasons)
    out += field("", fmt::format("and {} more such lines (--verbose)",
                                 groups.size() - kMostReasons));
  return out;
}

struct Column {
  const char* head;
  size_t width;
  // The text of the column; "" for none.
  std::string (*text)(const RecordCounts& counts);
};

std::string dashed(int64_t n) { return n == 0 ? "-" : grouped(n); }

// On a narrow screen the first columns are kept longest.
std::vector<Column> columns(const Shown& shown) {
  std::vector<Column> out = {
      {"passed", 6,
       [](const RecordCounts& one) { return grouped(one.passed()); }},
      {"failed", 6,
       [](const RecordCounts& one) { return grouped(one.failed()); }},
  };
  if (shown.has_known())
    out.push_back({"known", 5, [](const RecordCounts& one) {
                     return dashed(one.of(RowState::kKnown));
                   }});
  out.insert(out.end(),
             {{"not declared", 12,
               [](const RecordCounts& one) {
                 return dashed(one.of(RowState::kUndeclared));
               }},
              {"checked", 9,
               [](const RecordCounts& one) { return dashed(one.checked); }},
              {"error/bound", 11,
               [](const RecordCounts& one) {
                 return one.worst > 0 ? worst_text(one.worst)
                                      : std::string("-");
               }},
              {"time", 8, [](const RecordCounts& one) {
                 return fmt::format("{:.2f} s", one.seconds);
               }}});
  return out;
}

size_t name_width(const RunRecord& record) {
  size_t width = std::string_view("kernel").size();
  for (const KernelLine& kernel : record.kernels)
    width = std::max(width, kernel.kernel.size());
  return width;
}

std::string verdict_text(const ResultLine& result) {
  return result.state() == RowState::kKnown     ? "known"
         : result.verdict == RowVerdict::kCrash ? "CRASH"
                                                : word_of(result.verdict);
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

std::string kernel_table(const Shown& shown) {
  const RunRecord& record = shown.record;
  const ReportStyle& style = shown.style;
  const size_t names = name_width(record);
  std::vector<Column> all = columns(shown);
  const auto width = [&] {
    size_t sum = names;
    for (const Column& column : all) sum += 2 + column.width;
    return sum;
  };
  while (all.size() > 2 && width() > style.width) all.pop_back();
  std::string out = fmt::format("{:<{}}", "kernel", names);
  for (const Column& column : all)
    out += fmt::format("  {:>{}}", column.head, column.width);
  out += "\n";
  for (const KernelLine& kernel : record.kernels) {
    const Results results = record.results_of(kernel);
    const RecordCounts counts = counts_of(results);
    out += fmt::format("{:<{}}", kernel.kernel, names);
    for (const Column& column : all) {
      const bool bad =
          std::string_view(column.head) == "failed" && counts.failed() > 0;
      out += "  " +
             painted(fmt::format("{:>{}}", column.text(counts), column.width),
                     "1;31", style.colour && bad);
    }
    out += "\n" + kernel_notes(results, style);
  }
  return out;
}

std::string law_table(const Shown& shown) {
  const RunRecord& record = shown.record;
  const size_t names = name_width(record);
  size_t law_width = std::string_view("law").size();
  for (const std::string& law : record.start.laws)
    law_width = std::max(law_width, law.size());
  std::string out = fmt::format(
      "{:<{}}  {:<{}}  {:<11}  {:>7}  {:>11}  {:>8}\n", "kernel", names, "law",
      law_width, "verdict", "checked", "error/bound", "time");
  for (const KernelLine& kernel : record.kernels) {
    Results undeclared;
    for (const ResultLine* result : record.results_of(kernel)) {
      if (result->is_undeclared()) {
        undeclared.push_back(result);
        continue;
      }
      const Tally& counts = result->counts;
      const bool bad =
          is_failing(result->verdict) && result->state() != RowState::kKnown;
      out += fmt::format(
          "{:<{}}  {:<{}}  {}  {:>7}  {:>11}  {:>6.2f} s\n", kernel.kernel,
          names, result->law, law_width,
          painted(fmt::format("{:<11}", verdict_text(*result)),
                  bad ? "1;31" : "32", shown.style.colour),
          counts.checked,
          counts.worst_ratio > 0 ? worst_text(counts.worst_ratio) : "-",
          counts.seconds);
      if (!counts.reason.text.empty() && !is_judged(result->verdict))
        out += fmt::format("{:<{}}    {}\n", "", names, counts.reason.text);
    }
    for (const Group& group : grouped_by_reason(undeclared))
      out += fmt::format("{:<{}}  {}: {}\n", kernel.kernel, names, group.reason,
                         laws_text(group.results, std::string::npos / 2));
  }
  return out;
}

}  // namespace qkvet::cli

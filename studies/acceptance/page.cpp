// SPDX-License-Identifier: Apache-2.0
#include "studies/acceptance/page.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace qkvet::studies {
namespace {

using Comparisons = std::span<const Comparison>;

std::string count_text(int64_t n) {
  std::string text = std::to_string(n);
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<size_t>(at), ",");
  return text;
}

std::string list_text(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t n : numbers)
    text += (text.empty() ? "" : " ") + count_text(n);
  return text;
}

// Two digits.
std::string amount_text(double amount) {
  const double percent = 100 * amount;
  const int decimals =
      std::max(0, 1 - static_cast<int>(std::floor(std::log10(percent))));
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f %%", decimals, percent);
  return buffer;
}

std::string lengths_text(const Cell& cell) {
  if (cell.noticed.empty()) return "never";
  if (cell.noticed.size() == cell.tried.size()) return "always";
  const int64_t largest = cell.noticed.back();
  const auto among = [](const std::vector<int64_t>& numbers, int64_t n) {
    return std::binary_search(numbers.begin(), numbers.end(), n);
  };
  std::vector<int64_t> missed;
  for (const int64_t n : cell.tried)
    if (n < largest && !among(cell.noticed, n) && !among(cell.alarms, n))
      missed.push_back(n);
  if (missed.size() > cell.noticed.size())
    return "only at " + list_text(cell.noticed);
  std::string text = "up to " + count_text(largest);
  if (!missed.empty()) text += ", not at " + list_text(missed);
  return text;
}

const char* heading(Measure measure) {
  switch (measure) {
    case Measure::kAmount:
      return "The smallest amount that is noticed.";
    case Measure::kLengths:
      return "The largest number of keys at which it is noticed.";
    case Measure::kSquare:
      return "Whether it is noticed.";
  }
  return "";
}

std::string defect_table(Comparisons comparisons, const Defect& defect) {
  std::string text = "### " + std::string(defect.name) + "\n\n" + defect.text +
                     " " + heading(defect.measure) +
                     "\n\nTargeted data: " + defect.target +
                     ".\n\n"
                     "| rule | the rule | bound | bound, with lse | the rule, "
                     "targeted data | bound, targeted data |\n"
                     "|---|---:|---:|---:|---:|---:|\n";
  for (const Comparison& c : comparisons) {
    if (c.defect != &defect) continue;
    text += "| " + std::string(c.rule->name);
    for (const Cell* cell : {&c.theirs, &c.ours, &c.ours_with_lse,
                             &c.theirs_targeted, &c.ours_targeted})
      text += " | " + cell_text(*cell, defect.measure);
    text += " |\n";
  }
  return text + "\n";
}

std::string rule_table(Comparisons comparisons) {
  std::string text =
      "| rule | accepts | data, width | source |\n|---|---|---|---|\n";
  for (const Comparison& c : comparisons) {
    if (c.defect != comparisons[0].defect) continue;
    const Setting& setting = c.rule->setting;
    text += "| " + std::string(c.rule->name) + " | " + c.rule->text + " | " +
            law_text(setting.law) + ", d = " + std::to_string(setting.d) +
            " | " + c.rule->source + " |\n";
  }
  return text + "\n";
}

struct Tally {
  int64_t more = 0, same = 0, less = 0;
};

Tally tally(Comparisons comparisons, Cell Comparison::*ours,
            Cell Comparison::*theirs) {
  Tally tally;
  for (const Comparison& c : comparisons) {
    const Measure measure = c.defect->measure;
    const double difference =
        noticed_octaves(c.*ours, measure) - noticed_octaves(c.*theirs, measure);
    ++(difference > 0 ? tally.more : difference < 0 ? tally.less : tally.same);
  }
  return tally;
}

std::string tally_table(Comparisons comparisons) {
  struct Line {
    const char* text;
    Cell Comparison::*ours;
    Cell Comparison::*theirs;
  };
  const Line lines[] = {
      {"the data of the suite, both", &Comparison::ours, &Comparison::theirs},
      {"the same, the bound judges lse as well", &Comparison::ours_with_lse,
       &Comparison::theirs},
      {"targeted data, both", &Comparison::ours_targeted,
       &Comparison::theirs_targeted},
      {"the bound on targeted data, the rule on its suite's",
       &Comparison::ours_targeted, &Comparison::theirs}};
  std::string text =
      "| data | the bound notices more | the same | less |\n"
      "|---|---:|---:|---:|\n";
  for (const Line& line : lines) {
    const Tally counts = tally(comparisons, line.ours, line.theirs);
    text += "| " + std::string(line.text) + " | " + count_text(counts.more) +
            " | " + count_text(counts.same) + " | " + count_text(counts.less) +
            " |\n";
  }
  return text + "\n";
}

// How far the bound alone is ahead on the data of a suite.
double lead(const Comparison& c) {
  return noticed_octaves(c.ours, c.defect->measure) -
         noticed_octaves(c.theirs, c.defect->measure);
}

// The comparisons in which the bound notices less than the rule, largest gap
// first.
std::vector<const Comparison*> behind(Comparisons comparisons) {
  std::vector<const Comparison*> out;
  for (const Comparison& c : comparisons)
    if (lead(c) < 0) out.push_back(&c);
  std::stable_sort(out.begin(), out.end(), [](const auto* a, const auto* b) {
    return lead(*a) < lead(*b);
  });
  return out;
}

std::string behind_text(const Comparison& c) {
  const Measure measure = c.defect->measure;
  return std::string(c.defect->name) + ", " + c.rule->name + " (the rule " +
         cell_text(c.theirs, measure) + ", the bound " +
         cell_text(c.ours, measure) + ")";
}

std::string behind_list(Comparisons comparisons) {
  std::string text;
  for (const Comparison* c : behind(comparisons))
    text += "- " + behind_text(*c) + "\n";
  return text.empty() ? text
                      : "Where the bound notices less, both on the data of the "
                        "suite and without lse:\n\n" +
                            text + "\n";
}

std::string method_text(const Effort& effort) {
  return "**Kernel.** Scores, exponentials and sums in f32, P rounded to half "
         "storage before its normalisation, the output rounded; each defect "
         "changes one step of it. It stands for any correct kernel: the "
         "figures are orders of magnitude, one seed each.\n\n"
         "**Data.** The suite's own law, storage type and width. Decode over " +
         count_text(effort.lengths.front()) + " .. " +
         count_text(effort.lengths.back()) +
         " keys in steps of a factor of two, with as many rows as the suite "
         "has (fewer where there are many keys); squares of " +
         count_text(kSquare) + " rows and keys, " +
         count_text(effort.square_heads) +
         " heads. A scale error is searched up to a factor of " +
         count_text(static_cast<int64_t>(kLargestAmount) + 1) +
         ". All of it comes from the generator of `core/`.\n\n"
         "**The rules** are applied as published, to o, against an exact "
         "result rounded to storage; where a rule measures itself against a "
         "half-precision run of PyTorch, that run is emulated. **The bound** "
         "is that of [reference/](../reference/README.md) for the declared "
         "arithmetic, `flash_half` for half storage and `cpu_f32` for f32, in "
         "any order of summation: it covers kernels that add up in another "
         "order than this one, which a rule tuned on one kernel does not have "
         "to. So on the data of a suite the bound alone can notice less than "
         "the rule; what makes the difference is targeted data, and lse. "
         "Where a rule notices on targeted data what it misses on its suite's, "
         "the data was missing and not the rule. "
         "*With lse* means that lse is judged as well.\n\n"
         "**alarm**: the correct kernel was refused at so many keys, so there "
         "is nothing to notice.\n\n";
}

}  // namespace

std::string cell_text(const Cell& cell, Measure measure) {
  if (cell.tried.empty()) return "not measured";
  if (cell.alarms.size() == cell.tried.size()) return "alarm";
  std::string text;
  if (measure == Measure::kAmount) {
    text = cell.amount ? amount_text(*cell.amount) : "never";
  } else if (measure == Measure::kLengths) {
    text = lengths_text(cell);
  } else {
    text = cell.noticed.empty() ? "no" : "yes";
  }
  if (!cell.alarms.empty()) text += "; alarm at " + list_text(cell.alarms);
  return text;
}

std::string page_text(std::span<const Comparison> comparisons,
                      const Effort& effort) {
  std::string text =
      "# What others' acceptance rules let through\n\n"
      "Written by `acceptance --out` (`ci/long.sh`); do not edit.\n\n" +
      method_text(effort) + "## In short\n\n" +
      std::to_string(comparisons.size()) +
      " pairs of a rule and a defect.\n\n" + tally_table(comparisons) +
      behind_list(comparisons) +
      "Alarms on the correct kernel, on the data of the suites: " +
      count_text(alarms_of_theirs(comparisons)) +
      " of the rules, and on all data " +
      count_text(alarms_of_ours(comparisons)) +
      " of the bound.\n\n## The rules\n\n" + rule_table(comparisons) +
      "## The defects\n\n";
  for (const Defect& defect : defects())
    text += defect_table(comparisons, defect);
  text.pop_back();
  return text;
}

}  // namespace qkvet::studies

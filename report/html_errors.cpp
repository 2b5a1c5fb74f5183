// SPDX-License-Identifier: Apache-2.0
// Error/bound of every law on a logarithmic axis: bars for the number of cases
// at each distance from their bound, marks for the worst case of each kernel.
// Positions are in percent, but type is not: a strip fills the available width,
// and its words stay readable.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "report/html_parts.h"
#include "report/lines.h"

namespace qkvet::report {
namespace {

// Values beyond these are drawn at the edge.
constexpr int kLeastDecade = -6, kMostDecade = 9;
constexpr double kStripHeight = 22;

struct Axis {
  int from = 0, to = 0;  // decades

  double place(double ratio) const {
    const double at = std::isinf(ratio) ? to : std::log10(ratio);
    return 100 * std::clamp((at - from) / (to - from), 0.0, 1.0);
  }
};

// The results of one law, and their sums.
struct LawErrors {
  std::string law;
  std::vector<const ResultLine*> results;
  std::map<int, int64_t> powers;
  double worst = 0;
};

std::vector<LawErrors> errors_of(const RunRecord& record) {
  std::vector<LawErrors> out;
  for (const LawLine& law : record.laws) {
    LawErrors one{law.law, {}, {}, 0};
    for (const KernelLine& kernel : record.kernels) {
      const ResultLine* result = record.result(kernel.kernel, one.law);
      if (result == nullptr || !(result->counts.worst_ratio > 0)) continue;
      one.results.push_back(result);
      one.worst = std::max(one.worst, result->counts.worst_ratio);
      for (const auto& [power, cases] : result->counts.ratios)
        one.powers[power] += cases;
    }
    if (!one.results.empty()) out.push_back(std::move(one));
  }
  return out;
}

// From the smallest to the largest, the bound among them.
Axis axis_of(const std::vector<LawErrors>& laws) {
  double least = 0.1, most = 10;
  for (const LawErrors& law : laws) {
    for (const auto& [power, cases] : law.powers)
      least = std::min(least, std::ldexp(1.0, power));
    least = std::min(least, law.worst);
    if (std::isfinite(law.worst)) most = std::max(most, law.worst);
  }
  const auto decade = [](double at) {
    return std::clamp(static_cast<int>(at), kLeastDecade, kMostDecade);
  };
  return {decade(std::floor(std::log10(least))),
          decade(std::ceil(std::log10(most)))};
}

// Decades from one line to the next.
int axis_step(const Axis& axis) {
  return std::max(1, (axis.to - axis.from) / 5);
}

std::string grid_lines(const Axis& axis) {
  std::string out;
  for (int decade = axis.from; decade <= axis.to; ++decade)
    if (decade == 0 || decade % axis_step(axis) == 0)
      out += fmt::format(
          "<line class=\"{}\" x1=\"{:.2f}%\" x2=\"{:.2f}%\" y1=\"0\" "
          "y2=\"100%\"/>",
          decade == 0 ? "bound" : "decade", axis.place(std::pow(10, decade)),
          axis.place(std::pow(10, decade)));
  return out;
}

std::string bars(const Axis& axis, const LawErrors& law) {
  int64_t most = 1;
  for (const auto& [power, cases] : law.powers) most = std::max(most, cases);
  std::string out;
  for (const auto& [power, cases] : law.powers) {
    const double from = axis.place(std::ldexp(1.0, power));
    const double to = axis.place(std::ldexp(1.0, power + 1));
    // By the root, because rare values matter.
    const double height =
        (kStripHeight - 2) *
        std::sqrt(static_cast<double>(cases) / static_cast<double>(most));
    out += fmt::format(
        "<rect class=\"bar\" x=\"{:.2f}%\" y=\"{:.1f}\" width=\"{:.2f}%\" "
        "height=\"{:.1f}\"><title>{} within a factor of 2 above "
        "{:.2g}</title></rect>",
        from, kStripHeight - height, std::max(0.3, to - from), height,
        counted(cases, "case"), std::ldexp(1.0, power));
  }
  return out;
}

// A circle within the bound, a diamond beyond.
std::string mark(const Axis& axis, const ResultLine& result) {
  const double worst = result.counts.worst_ratio;
  const bool bad = is_bad(result.state());
  const std::string title = fmt::format(
      "<title>{}: {}</title>", xml_escaped(result.kernel), ratio_text(worst));
  const double middle = kStripHeight / 2;
  if (!bad)
    return fmt::format(
        "<circle class=\"within\" cx=\"{:.2f}%\" cy=\"{}\" r=\"4\">{}</circle>",
        axis.place(worst), middle, title);
  return fmt::format(
      "<svg x=\"{:.2f}%\" y=\"{}\" overflow=\"visible\"><path class=\"beyond\" "
      "d=\"M0 -6L6 0L0 6L-6 0Z\">{}</path></svg>",
      axis.place(worst), middle, title);
}

std::string strip(const Axis& axis, const LawErrors& law) {
  std::string marks;
  for (const ResultLine* result : law.results) marks += mark(axis, *result);
  return fmt::format(
      "<div class=\"strip\"><span class=\"name\">{}</span><svg role=\"img\" "
      "height=\"{}\" aria-label=\"{}: largest error/bound {}\">{}{}{}</svg>"
      "<span class=\"number\">{}</span></div>\n",
      html_law_link(law.law), kStripHeight, xml_escaped(law.law),
      ratio_text(law.worst), bars(axis, law), grid_lines(axis), marks,
      ratio_text(law.worst));
}

std::string axis_row(const Axis& axis) {
  std::string labels;
  for (int decade = axis.from; decade <= axis.to; ++decade) {
    if (decade != 0 && decade % axis_step(axis) != 0) continue;
    const double at = axis.place(std::pow(10, decade));
    const char* anchor = at < 4 ? "start" : at > 96 ? "end" : "middle";
    labels += fmt::format(
        "<text x=\"{:.2f}%\" y=\"14\" text-anchor=\"{}\">{}"
        "</text>",
        at, anchor, decade == 0 ? "1" : fmt::format("1e{}", decade));
  }
  return fmt::format(
      "<div class=\"strip axis\" aria-hidden=\"true\"><span "
      "class=\"name\">error/bound</span><svg height=\"18\">{}</svg><span "
      "class=\"number\">largest</span></div>\n",
      labels);
}

}  // namespace

std::string html_errors(const RunRecord& record) {
  const std::vector<LawErrors> laws = errors_of(record);
  if (laws.empty()) return "";
  const Axis axis = axis_of(laws);
  std::string out =
      std::string("<p>The largest error of each ") + row_word(record) +
      " in units of what its bound allows, on a logarithmic axis. A circle is "
      "a kernel within its bounds, a diamond one that fails; a bar is cases, "
      "by their own largest error (its height is the square root of their "
      "number). What is not shown was right to the bit, or has no bound.</p>\n"
      "<div class=\"strips\">\n";
  out += axis_row(axis);
  for (const LawErrors& law : laws) out += strip(axis, law);
  return out + axis_row(axis) + "</div>\n";
}

}  // namespace qkvet::report

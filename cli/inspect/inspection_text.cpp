// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <sstream>

#include "cli/inspect/inspection.h"
#include "cli/terminal/report.h"
#include "core/base/printable.h"
#include "core/base/verdict.h"
#include "report/lines.h"

namespace qkvet::cli {
namespace {

std::string range_text(const StageSummary& stage) {
  std::string out;
  if (stage.elements > stage.hidden + stage.nan)
    out = fmt::format("{:.4g} .. {:.4g}", stage.least, stage.most);
  if (stage.nan > 0)
    out += fmt::format("{}{} nan", out.empty() ? "" : ", ", stage.nan);
  return out;
}

std::string values_text(const StageSummary& stage) {
  std::string out;
  for (const double value : stage.values)
    out += fmt::format("{:>10.3g}", value);
  const bool more =
      !stage.shape.empty() &&
      stage.shape.back() > static_cast<int64_t>(stage.values.size());
  return out + (more ? " ..." : "");
}

std::string stage_text(const KernelStage& stage) {
  const Judgement& judgement = stage.judgement;
  std::string out = fmt::format("  {:<10}", stage.name);
  if (judgement.verdict == Verdict::kFailed) {
    const Finding& finding = *judgement.finding;
    out += fmt::format("PARTS     at {}\n", finding.where);
    out += fmt::format(
        "{:<14}expected {}{}\n", "", finding.expected,
        finding.allowed.empty() ? "" : "   allowed " + finding.allowed);
    return out + fmt::format("{:<14}actual   {}   error/bound {}\n", "",
                             finding.actual, ratio_text(finding.ratio));
  }
  if (judgement.verdict != Verdict::kPassed)
    return out + fmt::format("{}   {}\n", verdict_name(judgement.verdict),
                             judgement.reason);
  return out +
         fmt::format(
             "agrees    error/bound {}{}\n", ratio_text(judgement.worst_ratio),
             judgement.compared == 0 ? "   nothing could have failed" : "");
}

std::string kernel_text(const Inspection& seen) {
  const KernelView& view = *seen.view;
  std::string out =
      fmt::format("\nkernel {}{}\n", seen.kernel,
                  seen.value.shape.D > 0 && !view.ended
                      ? ", each stage judged on what it itself gave "
                        "to it"
                      : "");
  if (view.ended) return out + ended_text(*view.ended);
  out += kernel_stages_text(view);
  if (const KernelStage* parts = view.parts_at(); parts != nullptr)
    return out +
           fmt::format("  It parts from the definition at {}.\n", parts->name);
  return out + (view.exit_code() == kConforms
                    ? "  It agrees with the definition.\n"
                    : "  Nothing was there to be compared.\n");
}

std::string share_text(double share, int64_t rows) {
  return rows == 0 ? "-" : fmt::format("{:.3f}", share);
}

std::string statistics_line(const std::string& name,
                            const HeadStatistics& head) {
  if (!head.finite) return fmt::format("  {:<12} not finite\n", name);
  if (head.rows == 0)
    return fmt::format("  {:<12} no row sees two keys\n", name);
  return fmt::format(
      "  {:<12} {:>5} {:>9} {:>7} {:>13.3f} {:>13.3f} {:>6.1f} % {:>8.3f} at "
      "i={} j={}\n",
      name, head.rows, share_text(head.previous, head.previous_rows),
      share_text(head.first, head.first_rows), head.from_uniform,
      head.entropy_bits, 100 * head.entropy_part, head.largest,
      head.largest_row, head.largest_key);
}

std::string statistics_text(const Inspection& seen) {
  std::string out =
      fmt::format("\n  {:<12} {:>5} {:>9} {:>7} {:>13} {:>13} {:>8} {:>8}\n",
                  "head", "rows", "previous", "first", "from uniform",
                  "entropy, bits", "of most", "largest");
  // A kernel that agrees has the same statistics, to the printed digits.
  const bool both =
      has_kernel_weights(seen) && seen.view->parts_at() != nullptr;
  for (int64_t head = 0; head < seen.value.shape.H; ++head) {
    out += statistics_line(std::to_string(head),
                           statistics_of(seen, expected_map(seen, head)));
    if (both)
      out += statistics_line("  kernel",
                             statistics_of(seen, actual_map(seen, head)));
  }
  return out +
         "  Means over the rows that see two keys or more: the weight on the "
         "token before and on\n  key 0, half the sum of |w - 1/n| over the n "
         "keys that a row sees, entropy and its part\n  of log2(n).\n";
}

std::string maps_text(const Inspection& seen, Ink ink, size_t width) {
  const std::vector<HeatMap> maps = shown_maps(seen);
  std::vector<TextBlock> blocks;
  blocks.reserve(maps.size());
  for (const HeatMap& map : maps) blocks.push_back(heat_text(map, ink));
  std::string out = fmt::format(
      "\nweights of member {}: queries down, keys "
      "across{}\n",
      seen.focus.member, seen.why_these);
  if (seen.view && !seen.view->weights_from.empty())
    out += fmt::format("  {}: {}\n",
                       has_kernel_weights(seen) ? "actual" : "expected alone",
                       seen.view->weights_from);
  out += side_by_side(blocks, width);
  out += "  " + legend_text(ink, has_kernel_weights(seen)) + "\n";
  if (const std::string text = reduction_text(maps[0]); !text.empty())
    out += "  " + text + "\n";
  return out;
}

}  // namespace

std::string ended_text(const Judgement& judgement) {
  std::string out = fmt::format("  {}   {}\n", verdict_name(judgement.verdict),
                                judgement.reason);
  if (!judgement.finding) return out;
  const Finding& finding = *judgement.finding;
  out = fmt::format("  {}   {}\n", verdict_name(judgement.verdict),
                    finding.where);
  out += fmt::format("  {:<10}expected {}\n", "", finding.expected);
  out += fmt::format("  {:<10}actual   {}\n", "", finding.actual);
  std::istringstream printed(finding.printed);
  const char* name = "printed";
  for (std::string line; std::getline(printed, line); name = "")
    out += fmt::format("  {:<10}{:<8} {}\n", "", name, printable(line));
  return out;
}

std::string movie_text(const std::vector<StageSummary>& stages) {
  size_t how = 0, shape = 5, range = 5;
  for (const StageSummary& stage : stages) {
    how = std::max(how, stage.how.size());
    shape = std::max(shape, shape_text(stage.shape).size());
    range = std::max(range, range_text(stage).size());
  }
  std::string out =
      fmt::format("  {:<8} {:<{}} {:<{}} {:<{}}   {}\n", "stage", "", how,
                  "shape", shape, "range", range, "last row");
  for (const StageSummary& stage : stages)
    out += fmt::format("  {:<8} {:<{}} {:<{}} {:<{}} {}\n", stage.name,
                       stage.how, how, shape_text(stage.shape), shape,
                       range_text(stage), range, values_text(stage));
  return out;
}

std::string kernel_stages_text(const KernelView& view) {
  std::string out;
  for (const KernelStage& stage : view.stages) out += stage_text(stage);
  return out;
}

std::string inspection_text(const Inspection& seen, Ink ink, size_t width) {
  const Shape& s = seen.value.shape;
  std::string out =
      fmt::format("{}   digest {:08x}\n{}, values of member {}, head {}\n",
                  to_string(seen.value), seen.digest,
                  s.D > 0 ? "A layer of multi-head attention, from x to y"
                          : "Attention, from q, k and v to o",
                  seen.focus.member, seen.focus.head);
  out += movie_text(seen.movie.stages);
  if (seen.view) out += kernel_text(seen);
  if (!has_weights(seen)) return out + "\nno weights: an extent is 0\n";
  return out + maps_text(seen, ink, width) + statistics_text(seen);
}

}  // namespace qkvet::cli

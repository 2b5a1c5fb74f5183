// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal/baseline.h"

#include <fmt/core.h>
#include <fnmatch.h>

#include <algorithm>

#include "cli/terminal/report_parts.h"
#include "report/lines.h"
#include "report/run_compare.h"

namespace qkvet::cli {
namespace {

// Absent if the baseline has no such result.
PerhapsVerdict verdict_before(const ReportInput& input,
                              const std::string& kernel,
                              const std::string& law) {
  if (input.baseline == nullptr) return std::nullopt;
  const ResultLine* result = input.baseline->result(kernel, law);
  return result == nullptr ? std::nullopt : PerhapsVerdict(result->verdict);
}

// Whether the kernel is selected in this run.
bool is_asked_for(const ReportInput& input, const std::string& kernel) {
  const auto& globs = input.kernels_asked;
  return globs.empty() ||
         std::any_of(globs.begin(), globs.end(),
                     [&kernel](const std::string& glob) {
                       return fnmatch(glob.c_str(), kernel.c_str(), 0) == 0;
                     });
}

// Whether this run was to judge the kernel by the law.
bool is_to_be_judged(const ReportInput& input, const std::string& kernel,
                     const std::string& law) {
  const auto& laws = input.options.laws;
  return is_asked_for(input, kernel) &&
         std::any_of(laws.begin(), laws.end(),
                     [&law](const Law* one) { return one->id == law; });
}

// Number of kernels of the baseline that --kernel leaves out.
int64_t kernels_left_out(const ReportInput& input) {
  return std::count_if(input.baseline->kernels.begin(),
                       input.baseline->kernels.end(),
                       [&](const KernelLine& kernel) {
                         return !is_asked_for(input, kernel.kernel);
                       });
}

}  // namespace

Texts gone_since_baseline(const ReportInput& input) {
  Texts out;
  // Results that an interrupted run did not reach are not compared.
  if (input.baseline == nullptr || input.result.interrupted) return out;
  for (const ResultLine& before : input.baseline->results) {
    const std::string& name = before.kernel;
    const std::string& law = before.law;
    if (!is_judged(before.verdict) || !is_to_be_judged(input, name, law))
      continue;
    const auto kernel = std::find_if(
        input.result.kernels.begin(), input.result.kernels.end(),
        [&name](const KernelResult& one) {
          return one.kernel.judged.info.name == name && !one.cells.empty();
        });
    std::string gone;
    if (kernel == input.result.kernels.end())
      gone = name;
    else if (std::none_of(
                 kernel->cells.begin(), kernel->cells.end(),
                 [&law](const Cell& cell) { return cell.law->id == law; }))
      gone = name + " " + law;
    if (!gone.empty() && std::find(out.begin(), out.end(), gone) == out.end())
      out.push_back(std::move(gone));
  }
  return out;
}

std::optional<BaselineLine> baseline_of(const ReportInput& input,
                                        const ResultLine& result) {
  const auto before = verdict_before(input, result.kernel, result.law);
  if (!before) return std::nullopt;
  return BaselineLine{*before,
                      change_of(before, result.verdict) == Change::kWorse};
}

bool is_no_worse(const ReportInput& input, const KernelResult& kernel,
                 const Failure& failure) {
  const bool died = is_death(failure);
  const auto before =
      verdict_before(input, kernel.kernel.judged.info.name, failure.law->id);
  return before == RowVerdict::kCrash ||
         (before == RowVerdict::kFailed && !died);
}

std::string baseline_text(const Shown& shown) {
  const ReportInput& input = shown.input;
  if (input.baseline == nullptr) return "";
  const size_t width = shown.style.width;
  std::string worse, better;
  int64_t absent = 0;
  for (const ResultLine& result : shown.record.results) {
    PerhapsVerdict before;
    if (result.baseline) before = result.baseline->verdict;
    absent += !before;
    const Change change = change_of(before, result.verdict);
    if (change != Change::kWorse && change != Change::kBetter) continue;
    std::string& out = change == Change::kWorse ? worse : better;
    out += wrapped_field(!out.empty()               ? ""
                         : change == Change::kWorse ? "worse"
                                                    : "better",
                         fmt::format("{} {}: {}", result.kernel, result.law,
                                     change_text(before, result.verdict)),
                         width);
  }
  for (const std::string& gone : shown.record.end.baseline_gone)
    worse += wrapped_field(worse.empty() ? "worse" : "",
                           gone + ": judged -> not in the run", width);
  std::string out = field(
      "baseline", fmt::format("{}{}", input.baseline->name,
                              worse.empty() ? ": nothing got worse" : ""));
  if (const int64_t left_out = kernels_left_out(input); left_out > 0)
    out += field("", fmt::format("not held against {} that --kernel leaves out",
                                 counted(left_out, "kernel")));
  if (absent > 0)
    out += field(
        "", fmt::format("has nothing about {}", counted(absent, "result")));
  return out + worse + better;
}

}  // namespace qkvet::cli

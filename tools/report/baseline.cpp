// SPDX-License-Identifier: Apache-2.0
#include "tools/report/baseline.h"

#include <fmt/core.h>

#include "tools/base/lines.h"
#include "tools/record/run_compare.h"
#include "tools/report/report_parts.h"

namespace qkvet::tools {
namespace {

// "" where the baseline says nothing.
std::string verdict_before(const ReportInput& input, const KernelResult& kernel,
                           const Law& law) {
  if (input.baseline == nullptr) return "";
  const Json* result =
      input.baseline->result(kernel.kernel.judged.info.name, law.id);
  return result == nullptr ? "" : text_of(*result, "verdict");
}

}  // namespace

Json baseline_of(const ReportInput& input, const KernelResult& kernel,
                 const Cell& cell) {
  const std::string before = verdict_before(input, kernel, *cell.law);
  if (before.empty()) return {};
  return Json{
      {"verdict", before},
      {"worse", change_of(before, verdict_word(cell)) == Change::kWorse}};
}

bool is_no_worse(const ReportInput& input, const KernelResult& kernel,
                 const Failure& failure) {
  const bool died = failure.judgement.kind == FailureKind::kCrash ||
                    failure.judgement.kind == FailureKind::kHang;
  const std::string before = verdict_before(input, kernel, *failure.law);
  return before == "crash" || (before == "FAILED" && !died);
}

std::string baseline_text(const ReportInput& input, size_t width) {
  if (input.baseline == nullptr) return "";
  std::string worse, better;
  int64_t absent = 0;
  for (const KernelResult& kernel : input.result.kernels)
    for (const Cell& cell : kernel.cells) {
      const std::string before = verdict_before(input, kernel, *cell.law);
      absent += before.empty();
      const Change change = change_of(before, verdict_word(cell));
      if (change != Change::kWorse && change != Change::kBetter) continue;
      std::string& out = change == Change::kWorse ? worse : better;
      out += wrapped_field(
          !out.empty()               ? ""
          : change == Change::kWorse ? "worse"
                                     : "better",
          fmt::format("{} {}: {} -> {}", kernel.kernel.judged.info.name,
                      cell.law->id, before.empty() ? "not in the run" : before,
                      verdict_word(cell)),
          width);
    }
  std::string out = field(
      "baseline", fmt::format("{}{}", input.baseline->name,
                              worse.empty() ? ": nothing got worse" : ""));
  if (absent > 0)
    out +=
        field("", fmt::format("says nothing of {}", counted(absent, "result")));
  return out + worse + better;
}

}  // namespace qkvet::tools

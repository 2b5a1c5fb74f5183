// SPDX-License-Identifier: Apache-2.0
// The rule by which a run ends, the only one: of runs that have just ended, and
// of those that are put together of several.
#include <fmt/core.h>

#include <algorithm>

#include "tools/record/run_record.h"

namespace qkvet::tools {
namespace {

// In the baseline it was no better.
bool is_as_before(const Json& result) {
  const Json& baseline = part_of(result, "baseline");
  return baseline.is_object() && !is_set(baseline, "worse");
}

bool passed_one(const std::vector<const Json*>& results) {
  return std::any_of(results.begin(), results.end(), [](const Json* one) {
    return text_of(*one, "verdict") == "passed";
  });
}

// "" or what a kernel leaves open, so that it is no pass.
std::string kernel_open(const RunRecord& record, const Json& kernel,
                        const std::vector<const Json*>& results) {
  const std::string name = text_of(kernel, "kernel");
  const Json* refused = nullptr;
  bool all_refused = true;
  std::string undecided;
  for (const Json* result : results) {
    const std::string verdict = text_of(*result, "verdict");
    if (verdict == "unsupported")
      refused = result;
    else
      all_refused = false;
    const bool open = verdict == "gave up" || verdict == "mistrusted";
    if (!open || is_as_before(*result) || !undecided.empty()) continue;
    const std::string reason = text_of(*result, "reason");
    undecided = name + ", " + text_of(*result, "law") + " " + verdict + ": " +
                (reason.empty() ? "no case was judged" : reason);
  }
  // Where nothing passed, why it is refused tells more.
  if (!undecided.empty() && (passed_one(results) || refused == nullptr))
    return undecided;
  // A kernel that was not asked for by name may refuse everything.
  if (!passed_one(results) &&
      !(all_refused && is_set(record.end, "by_default")))
    return name + " passed no law" +
           (refused == nullptr ? "" : ": " + text_of(*refused, "reason"));
  if (count_of(record.end, "baseline_exit") == kNothingChecked) return "";
  const auto never_drawn = texts_of(kernel, "never_drawn");
  if (is_set(record.end, "whole_plan") && !never_drawn.empty())
    return name + " declares " + never_drawn[0] +
           ", and no answered call had it";
  const std::string refusals = refused_too_much(results);
  if (!refusals.empty()) return name + refusals;
  if (!passed_one(results)) return "";  // not for this machine
  const std::string few = too_few_checked(results);
  return few.empty() ? "" : name + " was " + few;
}

}  // namespace

std::string too_few_checked(const std::vector<const Json*>& results) {
  int64_t planned = 0, checked = 0;
  for (const Json* result : results) {
    // A law that has failed is not asked to the end of its plan.
    if (failures_of(*result).empty() && !is_set(*result, "undeclared")) {
      const int64_t mine = count_of(*result, "planned");
      planned += mine;
      checked += std::min(count_of(*result, "checked"), mine);
    }
  }
  if (2 * checked >= planned) return "";
  return "checked in " + std::to_string(checked) + " of its " +
         std::to_string(planned) + " cases";
}

std::string refused_too_much(const std::vector<const Json*>& results) {
  // Half of the cases that a kernel declares may be refused; of a law that was
  // refused so often, one in so many has to be checked.
  constexpr int64_t kOften = 12, kCheckedOneIn = 4;
  int64_t checked = 0, refused = 0;
  std::string law;
  for (const Json* result : results) {
    const int64_t own = count_of(*result, "refused");
    checked += count_of(*result, "checked");
    refused += own;
    const int64_t asked = count_of(*result, "checked") + own;
    if (law.empty() && own >= kOften &&
        kCheckedOneIn * count_of(*result, "checked") < asked)
      law = fmt::format(", {}: refused {} of {} cases that it declares",
                        text_of(*result, "law"), own, asked);
  }
  if (refused > checked)
    return fmt::format(" refused {} of {} cases that it declares", refused,
                       checked + refused);
  return law;
}

RunVerdict verdict_of(const RunRecord& record) {
  bool died = false, failed = false, any_passed = false;
  std::string open;
  for (const Json& kernel : record.kernels) {
    const auto results = record.results_of(text_of(kernel, "kernel"));
    any_passed |= passed_one(results);
    if (open.empty()) open = kernel_open(record, kernel, results);
    for (const Json* result : results) {
      const std::string_view state = state_of(*result);
      died |= state != "known" && text_of(*result, "verdict") == "crash";
      failed |= is_bad(state) || is_set(part_of(*result, "baseline"), "worse");
    }
  }
  failed |= !texts_of(record.end, "baseline_gone").empty();
  if (died) return {kKernelDied, ""};
  if (failed) return {kLawFailed, ""};
  if (is_set(record.end, "interrupted"))
    return {kNothingChecked, "interrupted"};
  if (const std::string missing = missing_shards(record); !missing.empty())
    return {kNothingChecked, missing};
  if (!open.empty()) return {kNothingChecked, open};
  if (!any_passed) return {kNothingChecked, "no kernel was judged"};
  return {kConforms, ""};
}

std::string missing_shards(const RunRecord& record) {
  const Json& shards = part_of(record.start, "shards");
  const Json& missing = part_of(shards, "missing");
  if (!missing.is_array() || missing.empty()) return "";
  std::string numbers;
  for (const Json& one : missing)
    numbers += (numbers.empty() ? "" : ", ") + one.dump();
  return std::string(missing.size() == 1 ? "shard " : "shards ") + numbers +
         " of " + std::to_string(count_of(shards, "of")) +
         (missing.size() == 1 ? " is" : " are") + " missing";
}

}  // namespace qkvet::tools

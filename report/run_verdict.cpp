// SPDX-License-Identifier: Apache-2.0
// The only rule by which a run ends, both for finished runs and for merged
// ones.
#include <fmt/core.h>

#include <algorithm>

#include "report/lines.h"
#include "report/run_record.h"

namespace qkvet::report {
namespace {

using Results = std::vector<const ResultLine*>;

bool passed_one(const Results& results) {
  return std::any_of(results.begin(), results.end(), [](const auto* one) {
    return one->verdict == RowVerdict::kPassed;
  });
}

// "" or the open result that keeps a kernel from a pass.
std::string kernel_open(const RunRecord& record, const KernelLine& kernel,
                        const Results& results) {
  const std::string& name = kernel.kernel;
  const ResultLine* refused = nullptr;
  bool all_refused = true;
  std::string undecided;
  for (const ResultLine* result : results) {
    if (result->verdict == RowVerdict::kUnsupported)
      refused = result;
    else
      all_refused = false;
    const bool open = result->verdict == RowVerdict::kGaveUp ||
                      result->verdict == RowVerdict::kMistrusted;
    if (!open || result->is_as_before() || !undecided.empty()) continue;
    const std::string& reason = result->counts.reason.text;
    undecided = fmt::format("{}, {} {}: {}", name, result->law,
                            word_of(result->verdict),
                            reason.empty() ? "no case was judged" : reason);
  }
  // If nothing passed, the reason of the refusal is more informative.
  if (!undecided.empty() && (passed_one(results) || refused == nullptr))
    return undecided;
  // A kernel that was not selected by name may refuse everything.
  if (!passed_one(results) && !(all_refused && record.end.by_default))
    return name + " passed no law" +
           (refused == nullptr ? "" : ": " + refused->counts.reason.text);
  if (record.end.baseline_exit == kNothingChecked) return "";
  if (is_whole_plan(record) && !kernel.never_drawn.empty())
    return name + " declares " + kernel.never_drawn[0] +
           ", and no answered call had it";
  const std::string refusals = refused_too_much(results);
  if (!refusals.empty()) return name + refusals;
  if (!passed_one(results)) return "";  // not for this machine
  const std::string few = too_few_checked(record, results);
  return few.empty() ? "" : name + " was " + few;
}

}  // namespace

std::string too_few_checked(const RunRecord& record, const Results& results) {
  // Only a whole run replaces the cases that a kernel does not declare.
  const bool is_sharded = record.start.shard || record.start.shards;
  int64_t planned = 0, checked = 0;
  for (const ResultLine* result : results) {
    // The plan of a failed law is not completed.
    if (result->failure || result->is_undeclared()) continue;
    const Tally& counts = result->counts;
    const int64_t undeclared =
        is_sharded ? counts.unsupported - counts.refused : 0;
    const int64_t due = std::max(int64_t{0}, counts.planned - undeclared);
    planned += due;
    checked += std::min(counts.checked, due);
  }
  if (2 * checked >= planned) return "";
  return fmt::format("checked in {} of its {} cases", checked, planned);
}

std::string refused_too_much(const Results& results) {
  // Half of the cases that a kernel declares may be refused; of a law that was
  // refused so often, one in so many has to be checked.
  constexpr int64_t kOften = 12, kCheckedOneIn = 4;
  int64_t checked = 0, refused = 0;
  std::string law;
  for (const ResultLine* result : results) {
    const int64_t mine = result->counts.checked, own = result->counts.refused;
    checked += mine;
    refused += own;
    if (law.empty() && own >= kOften && kCheckedOneIn * mine < mine + own)
      law = fmt::format(", {}: refused {} of {} cases that it declares",
                        result->law, own, mine + own);
  }
  if (refused > checked)
    return fmt::format(" refused {} of {} cases that it declares", refused,
                       checked + refused);
  return law;
}

RunVerdict verdict_of(const RunRecord& record) {
  bool died = false, failed = !record.end.baseline_gone.empty();
  bool any_passed = false;
  std::string open;
  for (const KernelLine& kernel : record.kernels) {
    const Results results = record.results_of(kernel);
    any_passed |= passed_one(results);
    if (open.empty()) open = kernel_open(record, kernel, results);
    for (const ResultLine* result : results) {
      const RowState state = result->state();
      died |=
          state != RowState::kKnown && result->verdict == RowVerdict::kCrash;
      failed |= is_bad(state) || (result->baseline && result->baseline->worse);
    }
  }
  if (died) return {kKernelDied, ""};
  if (failed) return {kLawFailed, ""};
  if (record.end.interrupted) return {kNothingChecked, "interrupted"};
  if (const std::string missing = missing_shards(record); !missing.empty())
    return {kNothingChecked, missing};
  if (!open.empty()) return {kNothingChecked, open};
  if (!any_passed) return {kNothingChecked, "no kernel was judged"};
  return {kConforms, ""};
}

void set_verdict(RunRecord& record) {
  const RunVerdict verdict = verdict_of(record);
  record.end.exit = verdict.code;
  record.end.why = verdict.why_open;
}

std::string missing_shards(const RunRecord& record) {
  if (!record.start.shards || record.start.shards->missing.empty()) return "";
  const MergedShards& shards = *record.start.shards;
  const bool one = shards.missing.size() == 1;
  return fmt::format("{} {} of {} {} missing", one ? "shard" : "shards",
                     joined(shards.missing), shards.of, one ? "is" : "are");
}

}  // namespace qkvet::report

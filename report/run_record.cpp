// SPDX-License-Identifier: Apache-2.0
#include "report/run_record.h"

#include <algorithm>

namespace qkvet::report {
namespace {

// In the order of the enumerators.
constexpr const char* kVerdicts[] = {"passed",      "FAILED",  "skipped",
                                     "unsupported", "gave up", "mistrusted",
                                     "crash"};
constexpr const char* kAbout[] = {"other", "declaration", "kernel",
                                  "other call"};
constexpr const char* kCertainties[] = {"unknown", "likely", "sure"};
constexpr const char* kReachKinds[] = {"leak", "stale"};
constexpr const char* kRowKinds[] = {"law", "set"};

template <class T, class Member>
const T* row_named(const std::vector<T>& rows, Member name,
                   std::string_view wanted) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const T& row) {
    return row.*name == wanted;
  });
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace

Words words_of(RowVerdict) { return kVerdicts; }
Words words_of(About) { return kAbout; }
Words words_of(Certainty) { return kCertainties; }
Words words_of(ReachKind) { return kReachKinds; }
Words words_of(RowKind) { return kRowKinds; }

const LawLine* RunRecord::law(std::string_view id) const {
  return row_named(laws, &LawLine::law, id);
}

const KernelLine* RunRecord::kernel(std::string_view wanted) const {
  return row_named(kernels, &KernelLine::kernel, wanted);
}

const ResultLine* RunRecord::result(const std::string& kernel,
                                    const std::string& law) const {
  const auto found = places.find({kernel, law});
  return found == places.end() ? nullptr : &results[found->second];
}

std::vector<const ResultLine*> RunRecord::results_of(
    const KernelLine& kernel) const {
  std::vector<const ResultLine*> out;
  for (const ResultLine& row : results)
    if (&kernels[row.row] == &kernel) out.push_back(&row);
  return out;
}

std::vector<const ResultLine*> RunRecord::results_of(
    std::string_view wanted) const {
  std::vector<const ResultLine*> out;
  for (const ResultLine& row : results)
    if (wanted.empty() || row.kernel == wanted) out.push_back(&row);
  return out;
}

bool RunRecord::add_result(ResultLine result) {
  const bool is_new =
      places.try_emplace({result.kernel, result.law}, results.size()).second;
  results.push_back(std::move(result));
  return is_new;
}

const DiagnosisFound& FailureLine::cause() const {
  static const DiagnosisFound kNone;
  return diagnosis ? *diagnosis : kNone;
}

RowState ResultLine::state() const {
  if (known && known->holds) return RowState::kKnown;
  if (is_as_before() && is_failing(verdict)) return RowState::kKnown;
  if (known && known->gone) return RowState::kFailed;
  switch (verdict) {
    case RowVerdict::kPassed:
      return RowState::kPassed;
    case RowVerdict::kFailed:
      return RowState::kFailed;
    case RowVerdict::kCrash:
      return RowState::kCrash;
    case RowVerdict::kUnsupported:
      return is_undeclared() ? RowState::kUndeclared : RowState::kUnsupported;
    case RowVerdict::kSkipped:
    case RowVerdict::kGaveUp:
    case RowVerdict::kMistrusted:
      break;
  }
  return RowState::kOpen;
}

std::string ResultLine::known_reason() const {
  return known && !known->reason.empty() ? known->reason
                                         : "it is no better in the baseline";
}

std::vector<const FailureLine*> ResultLine::failures() const {
  std::vector<const FailureLine*> out;
  if (failure) out.push_back(&*failure);
  for (const FailureLine& other : others) out.push_back(&other);
  return out;
}

}  // namespace qkvet::report

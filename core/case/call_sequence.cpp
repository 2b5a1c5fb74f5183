// SPDX-License-Identifier: Apache-2.0
#include "core/case/call_sequence.h"

#include <algorithm>

#include "core/case/case_text.h"

namespace qkvet {
namespace {

std::string allowed() {
  return "a sequence has up to " + std::to_string(kMostCallSteps) +
         " letters of " + std::string(kCallStepLetters) +
         ", each with how often behind it, 2 .. " +
         std::to_string(kMostCallTimes) + ", or once, for example calls=aof9a";
}

}  // namespace

std::string calls_text(const CallSequence& calls) {
  std::string text;
  for (const CallStep& step : calls) {
    text += kCallStepLetters[static_cast<size_t>(step.kind)];
    if (step.times != 1) text += std::to_string(step.times);
  }
  return text;
}

std::string read_calls(std::string_view text, std::string_view token,
                       CallSequence* calls) {
  constexpr std::string_view kDigits = "0123456789";
  calls->clear();
  while (!text.empty()) {
    const size_t letter = kCallStepLetters.find(text.front());
    const size_t end =
        std::min(text.find_first_not_of(kDigits, 1), text.size());
    const auto times = end == 1 ? std::optional<int64_t>(1)
                                : number<int64_t>(text.substr(1, end - 1));
    if (letter == std::string_view::npos || !times)
      return quoted(token) + ": " + allowed();
    calls->push_back({static_cast<CallStepKind>(letter), *times});
    text.remove_prefix(end);
  }
  *calls = joined(*calls);
  return calls->empty() ? quoted(token) + ": " + allowed() : "";
}

std::string calls_reason(const CallSequence& calls) {
  const bool fine =
      static_cast<int64_t>(calls.size()) <= kMostCallSteps &&
      joined(calls) == calls &&
      std::all_of(calls.begin(), calls.end(), [](const CallStep& step) {
        return step.times >= 1 && step.times <= kMostCallTimes;
      });
  return fine ? "" : "calls=" + calls_text(calls) + ": " + allowed();
}

CallSequence joined(const CallSequence& calls) {
  CallSequence out;
  for (const CallStep& step : calls) {
    if (!out.empty() && out.back().kind == step.kind)
      out.back().times += step.times;
    else
      out.push_back(step);
  }
  return out;
}

}  // namespace qkvet

// SPDX-License-Identifier: Apache-2.0
#include "properties/run/spelled_log.h"

#include "properties/conventions/domain.h"
#include "properties/run/shrink.h"

namespace qkvet::properties {

SpelledLog spell_log(const Case& geometry, const ShrunkLog& shrunk,
                     const LogKernel& kernel) {
  const auto value =
      case_of_log(geometry, shrunk.story, shrunk.sequences, kernel.judged.info);
  if (!value || shrunk.repeats_failed < shrunk.repeats) return {};
  const LogPart part = shrunk.failure.part;
  std::vector<const Law*> laws = {
      find_law(part == LogPart::kLength    ? "cache_length_grows"
               : part == LogPart::kRefusal ? "cache_refuses_illegal_calls"
                                           : "cache_agrees_with_history")};
  for (const Law* law : all_laws())
    if (law != laws[0] && law->domain.subject == Subject::kCache)
      laws.push_back(law);
  for (const Law* law : laws) {
    const Case fit = constrained(*law, *value);
    const Judgement judgement =
        check_case(*law, fit, kernel.judged, kernel.index, kernel.executor,
                   /*with_twin=*/false, kernel.time);
    if (judgement.verdict != Verdict::kFailed ||
        judgement.kind != shrunk.failure.judgement.kind)
      continue;
    Shrunk smallest = shrink(*law, fit, judgement, kernel.judged, kernel.index,
                             kernel.executor, kernel.time);
    return {law, std::move(smallest.value), std::move(smallest.judgement)};
  }
  return {};
}

}  // namespace qkvet::properties

// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/instead/probe.h"

#include "properties/judging/subject.h"

namespace qkvet::diagnosis {

Probed probed(const Case& value, Witness& witness) {
  const Law& law = agreement_about(value.subject());
  const bool is_row = value.subject() == Subject::kAttention;
  auto evidence = is_row ? witness.ask(law, value, use_finite_memory)
                         : witness.ask(law, value, [](auto&) {});
  if (evidence == nullptr || evidence->judgement.compared == 0) return {};
  if (!evidence->failed()) return {Came::kRight};
  auto answer = wrong_answer(std::move(evidence), witness.kernel());
  if (!answer) return {};
  if (is_row && answer->find(TensorName::kO) == nullptr) return {Came::kRight};
  return {Came::kWrong, std::move(answer)};
}

}  // namespace qkvet::diagnosis

// SPDX-License-Identifier: Apache-2.0
// The stage of calls that go beyond a tensor: that of who reads or writes it.
#include "diagnosis/evidence/nearby.h"
#include "diagnosis/instead/instead.h"
#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

constexpr size_t kFewestTouches = 3;

// Of what reads or writes a tensor.
Stage stage_of_tensor(TensorName tensor) {
  switch (tensor) {
    case TensorName::kQ:
    case TensorName::kK:
    case TensorName::kRopeCos:
    case TensorName::kRopeSin:
      return Stage::kScores;
    case TensorName::kBias:
    case TensorName::kSlopes:
      return Stage::kBias;
    case TensorName::kMask:
    case TensorName::kQLen:
    case TensorName::kKvLen:
    case TensorName::kCuQ:
    case TensorName::kCuK:
      return Stage::kKeys;
    case TensorName::kSink:
      return Stage::kSoftmax;
    case TensorName::kV:
      return Stage::kValues;
    case TensorName::kO:
    case TensorName::kWeights:
      return Stage::kOutput;
    case TensorName::kLse:
      return Stage::kLse;
    default:
      return Stage::kUnknown;
  }
}

}  // namespace

Stage stage_of_touches(const std::vector<Touch>& touches, Witness& witness) {
  if (touches.size() < kFewestTouches) return Stage::kUnknown;
  std::optional<Stage> stage;
  for (const Touch& touch : touches) {
    const Stage here =
        touch.tensor ? stage_of_tensor(*touch.tensor) : Stage::kUnknown;
    if (here == Stage::kUnknown || (stage && *stage != here))
      return Stage::kUnknown;
    stage = here;
  }
  if (*stage != Stage::kScores) return *stage;
  // Whoever takes a row or a key too many reads its mask before its scores.
  constexpr size_t kMasked = 4;
  size_t masked = 0;
  for (const Touch& touch : touches) {
    Case value = touch.value;
    if (value.subject() != Subject::kAttention || masked == kMasked) continue;
    value.mask = {MaskKind::kButN, 0};
    if (!invalid_reason(value).empty()) continue;
    const auto evidence =
        witness.ask(agreement_about(Subject::kAttention), value);
    const auto tensor =
        evidence == nullptr ? std::nullopt : touched_outside(*evidence);
    if (!tensor) continue;
    if (stage_of_tensor(*tensor) != *stage) return Stage::kUnknown;
    ++masked;
  }
  return masked > 0 ? *stage : Stage::kUnknown;
}

}  // namespace qkvet::diagnosis

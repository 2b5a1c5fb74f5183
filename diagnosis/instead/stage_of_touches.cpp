// SPDX-License-Identifier: Apache-2.0
// The stage of calls that go beyond a tensor: that of who reads or writes it.
#include <algorithm>

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

enum class End : uint8_t { kUnknown, kRight, kWrong, kDead };

End end_with_widths(Case value, int64_t d, int64_t dv, Witness& witness) {
  value.shape.d = d;
  value.shape.dv = dv;
  value.set.clear();
  if (!invalid_reason(value).empty()) return End::kUnknown;
  const auto evidence =
      witness.ask(agreement_about(Subject::kAttention), value);
  if (evidence == nullptr) return End::kUnknown;
  if (!evidence->failed()) return End::kRight;
  return evidence->judgement.kind == FailureKind::kCrash ? End::kDead
                                                         : End::kWrong;
}

// Where nobody knows which tensor was gone beyond: who dies by the width of
// queries and keys, and not by that of values, takes scores.
Stage stage_of_widths(const std::vector<Touch>& touches, Witness& witness) {
  const uint64_t options = witness.kernel().info.capabilities.options;
  if ((options & QKVET_OPTION_VALUE_WIDTH) == 0) return Stage::kUnknown;
  constexpr int64_t kWide = 5;  // no multiple of any lanes
  constexpr size_t kMostAsked = 5;
  size_t asked = 0;
  for (const Touch& touch : touches) {
    if (touch.value.subject() != Subject::kAttention || asked == kMostAsked)
      continue;
    if (touch.value.rope.style != RopeStyle::kNone) continue;
    const End narrow = end_with_widths(touch.value, 1, kWide, witness);
    const End wide = end_with_widths(touch.value, kWide, 1, witness);
    if (narrow == End::kUnknown || wide == End::kUnknown) continue;
    if (narrow != End::kRight || wide != End::kDead) return Stage::kUnknown;
    ++asked;
  }
  return asked >= kFewestTouches ? Stage::kScores : Stage::kUnknown;
}

}  // namespace

Stage stage_of_touches(const std::vector<Touch>& touches, Witness& witness) {
  if (touches.size() < kFewestTouches) return Stage::kUnknown;
  if (std::none_of(touches.begin(), touches.end(),
                   [](const Touch& one) { return one.tensor.has_value(); }))
    return stage_of_widths(touches, witness);
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

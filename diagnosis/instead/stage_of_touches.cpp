// SPDX-License-Identifier: Apache-2.0
// The stage of calls that access memory outside a tensor: the stage that reads
// or writes that tensor.
#include <algorithm>

#include "diagnosis/evidence/nearby.h"
#include "diagnosis/instead/instead.h"
#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

constexpr size_t kFewestTouches = 3;

// The stage that reads or writes a tensor.
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

// How a call ended; and, if it accessed memory far from every tensor, whether
// by a write.
struct Ending {
  End end = End::kUnknown;
  std::optional<bool> is_write = {};
};

using ChangeOfCall = void (*)(KernelCall& call);

Ending ending_of(const Case& value, Witness& witness, ChangeOfCall change) {
  const auto evidence =
      witness.ask(agreement_about(Subject::kAttention), value,
                  [&](std::vector<KernelCall>& calls) {
                    std::for_each(calls.begin(), calls.end(), change);
                  });
  if (evidence == nullptr || evidence->is_empty_handed()) return {};
  if (!evidence->failed()) return {End::kRight};
  for (const CallOutcome& outcome : evidence->outcomes) {
    const auto& fault = outcome.fault;
    if (outcome.status == CallStatus::kCrash)
      return {End::kDead, outcome.died_writing};
    if (outcome.status == CallStatus::kFault && fault && !fault->tensor)
      return {End::kDead, fault->of_heap || fault->of_reason
                              ? std::nullopt
                              : std::optional(fault->is_write)};
  }
  return {End::kWrong};
}

End end_of(
    const Case& value, Witness& witness,
    ChangeOfCall change = [](KernelCall&) {}) {
  return ending_of(value, witness, change).end;
}

// Runs the case with these widths of queries and keys, and of values; and with
// so many keys, if given.
Ending end_with_widths(Case value, int64_t d, int64_t dv, Witness& witness,
                       std::optional<int64_t> keys = {}) {
  value.shape.d = d;
  value.shape.dv = dv;
  if (keys) value.shape.Tk = *keys;
  value.set.clear();
  return ending_of(value, witness, [](KernelCall&) {});
}

constexpr size_t kMostAsked = 5;

// Number of failing cases for which this is so; 0 if it is not so for one.
// Nullopt: not known.
template <class IsSo>
size_t agreeing(const std::vector<Touch>& touches, IsSo is_so) {
  size_t agree = 0;
  for (const Touch& touch : touches) {
    if (agree == kMostAsked) break;
    const std::optional<bool> here = is_so(touch.value);
    if (here == false) return 0;
    agree += here.has_value();
  }
  return agree;
}

// For accesses outside an unknown tensor. A kernel that dies by the width of
// queries and keys, and not by that of values, is at the scores. One that dies
// by the width of values reads them far away or stores rows; the latter also
// happens without any key and so without values.
Stage stage_of_widths(const std::vector<Touch>& touches, Witness& witness) {
  const uint64_t options = witness.kernel().info.capabilities.options;
  if ((options & QKVET_OPTION_VALUE_WIDTH) == 0) return Stage::kUnknown;
  constexpr int64_t kWide = 5;  // no multiple of any lanes
  Stage found = Stage::kUnknown;
  size_t agree = 0;
  for (const Touch& touch : touches) {
    if (agree == kMostAsked) break;
    if (touch.value.rope.style != RopeStyle::kNone) continue;
    const Ending narrow = end_with_widths(touch.value, 1, kWide, witness);
    const Ending wide = end_with_widths(touch.value, kWide, 1, witness);
    if (narrow.end == End::kUnknown || wide.end == End::kUnknown) continue;
    Stage here = Stage::kUnknown;
    if (narrow.end == End::kRight && wide.end == End::kDead) {
      here = Stage::kScores;
    } else if (narrow.end == End::kDead && wide.end == End::kRight) {
      const End without_keys =
          end_with_widths(touch.value, 1, kWide, witness, /*keys=*/0).end;
      if (without_keys == End::kUnknown) continue;
      if (without_keys == End::kDead || narrow.is_write == true)
        here = Stage::kOutput;
      else if (narrow.is_write == false)
        here = Stage::kValues;
    }
    if (here == Stage::kUnknown || (agree > 0 && here != found))
      return Stage::kUnknown;
    found = here;
    ++agree;
  }
  return agree >= kFewestTouches ? found : Stage::kUnknown;
}

// A kernel that exchanges rows and columns of a tensor dies unless their
// numbers are equal; the extents identify the tensor.
Stage stage_of_squares(const std::vector<Touch>& touches, Witness& witness) {
  struct Square {
    int64_t Shape::*rows;
    int64_t Shape::*columns;
    Stage stage;
  };
  static constexpr Square kSquares[] = {
      {&Shape::Tq, &Shape::d, Stage::kScores},
      {&Shape::Tk, &Shape::d, Stage::kScores},
      {&Shape::Tq, &Shape::dv, Stage::kOutput},
      {&Shape::Tk, &Shape::dv, Stage::kValues}};
  // All different, except those made equal below.
  constexpr int64_t kQueries = 3, kKeys = 5, kWidth = 2, kValueWidth = 7;
  // Many cases do not die at these extents, and each costs a call.
  constexpr size_t kMostTried = 8;
  const uint64_t options = witness.kernel().info.capabilities.options;
  if ((options & QKVET_OPTION_VALUE_WIDTH) == 0) return Stage::kUnknown;
  Stage found = Stage::kUnknown;
  for (const Square& square : kSquares) {
    size_t right = 0, asked = 0, tried = 0;
    for (const Touch& touch : touches) {
      Case value = touch.value;
      if (asked == kMostAsked || tried == kMostTried) break;
      if (!value.cu_q.empty()) continue;
      ++tried;
      value.set.clear();
      value.shape.Tq = kQueries;
      value.shape.Tk = kKeys;
      value.shape.d = kWidth;
      value.shape.dv = kValueWidth;
      if (end_of(value, witness) != End::kDead) continue;
      value.shape.*square.columns = value.shape.*square.rows;
      ++asked;
      right += end_of(value, witness) == End::kRight;
    }
    if (right < kFewestTouches || right < asked) continue;
    if (found != Stage::kUnknown) return Stage::kUnknown;
    found = square.stage;
  }
  return found;
}

// Each optional output is stored by itself: a kernel that ends only when the
// output is requested stores it wrongly.
Stage stage_of_returns(const std::vector<Touch>& touches, Witness& witness) {
  struct Return {
    uint64_t option;
    Stage stage;
    ChangeOfCall leave_out;
  };
  static constexpr Return kReturns[] = {
      {QKVET_OPTION_LSE, Stage::kLse,
       [](KernelCall& call) { call.want_lse = false; }},
      {QKVET_OPTION_WEIGHTS, Stage::kOutput,
       [](KernelCall& call) { call.want_weights = false; }}};
  for (const Return& one : kReturns) {
    if ((witness.kernel().info.capabilities.options & one.option) == 0)
      continue;
    const size_t right =
        agreeing(touches, [&](const Case& value) -> std::optional<bool> {
          const End end = end_of(value, witness, one.leave_out);
          // Calls that end now and then do not depend on the requested outputs.
          if (end == End::kUnknown ||
              (end == End::kRight && end_of(value, witness) != End::kDead))
            return std::nullopt;
          return end == End::kRight;
        });
    if (right >= kFewestTouches) return one.stage;
  }
  return Stage::kUnknown;
}

// Calls end with an option and are right without it. They are also right with
// another option, so that not just any option is at fault.
Stage stage_of_options(const std::vector<Touch>& touches, Witness& witness) {
  const uint64_t known = witness.kernel().info.capabilities.options;
  for (const StageOfOption& option : stages_of_options()) {
    if (!std::all_of(touches.begin(), touches.end(), [&](const Touch& one) {
          return option.row().given(one.value);
        }))
      continue;
    const size_t right =
        agreeing(touches, [&](Case value) -> std::optional<bool> {
          value.set.clear();
          option.row().drop(value);
          if (option.stage != Stage::kBias && (known & QKVET_OPTION_BIAS) != 0)
            value.score_bias = make_recipe(RecipeKind::kZero);
          else if ((known & QKVET_OPTION_SOFTCAP) != 0 && value.softcap <= 0)
            value.softcap = 1;
          const End end = end_of(value, witness);
          if (end == End::kUnknown) return std::nullopt;
          return end == End::kRight;
        });
    if (right >= kFewestTouches) return option.stage;
  }
  return Stage::kUnknown;
}

// Calls end unless an option is given: the kernel reads it anyway. With the
// option the answer may still be wrong.
Stage stage_of_missing_options(const std::vector<Touch>& touches,
                               Witness& witness) {
  const uint64_t known = witness.kernel().info.capabilities.options;
  const StageOfOption* found = nullptr;
  // Scratch for all keys of a row has room to spare once some are hidden,
  // whatever is read or written past its end.
  const bool is_of_heap =
      std::any_of(touches.begin(), touches.end(),
                  [](const Touch& touch) { return touch.of_heap; });
  for (const StageOfOption& missing : stages_of_options()) {
    if (missing.give == nullptr || (known & missing.row().option) == 0)
      continue;
    if (is_of_heap && missing.stage == Stage::kKeys) continue;
    size_t alive = 0, asked = 0;
    for (const Touch& touch : touches) {
      Case value = touch.value;
      if (asked == kMostAsked) break;
      if (missing.row().given(value)) continue;
      value.set.clear();
      missing.give(value);
      const End end = end_of(value, witness);
      if (end == End::kUnknown) continue;
      ++asked;
      alive += end != End::kDead;
    }
    if (alive < kFewestTouches || alive < asked) continue;
    // If several options help, none of them is the cause.
    if (found != nullptr) return Stage::kUnknown;
    found = &missing;
  }
  return found != nullptr ? found->stage : Stage::kUnknown;
}

}  // namespace

Stage stage_of_touches(const std::vector<Touch>& touches, Witness& witness) {
  if (touches.size() < kFewestTouches) return Stage::kUnknown;
  std::vector<Touch> of_none;
  for (const Touch& touch : touches)
    if (!touch.tensor) of_none.push_back(touch);
  if (2 * of_none.size() > touches.size()) {
    // The first ones need the fewest calls.
    for (const auto ask : {stage_of_returns, stage_of_options, stage_of_widths,
                           stage_of_squares, stage_of_missing_options})
      if (const Stage stage = ask(of_none, witness); stage != Stage::kUnknown)
        return stage;
  }
  // An access far outside a tensor meets no other tensor, or ends the process.
  std::optional<Stage> stage;
  size_t known = 0;
  for (const Touch& touch : touches) {
    if (!touch.tensor) continue;
    const Stage here = stage_of_tensor(*touch.tensor);
    if (here == Stage::kUnknown || (stage && *stage != here))
      return Stage::kUnknown;
    stage = here;
    ++known;
  }
  if (known < kFewestTouches) return Stage::kUnknown;
  if (*stage != Stage::kScores) return *stage;
  // A kernel that takes a row or a key too many reads its mask before its
  // scores.
  constexpr size_t kMasked = 4;
  size_t masked = 0;
  for (const Touch& touch : touches) {
    Case value = touch.value;
    if (masked == kMasked) break;
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

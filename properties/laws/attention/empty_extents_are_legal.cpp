// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "properties/calls/call_pairs.h"
#include "properties/judging/compare.h"
#include "properties/judging/empty_row.h"
#include "properties/judging/law.h"

namespace qkvet::properties {
namespace of_empty_extents_are_legal {

// The empty extent of a call.
enum : int64_t { kNoKeys, kNoQueries, kNoMembers, kNoTokens, kEmptyKinds };
constexpr const char* kNames[] = {"Tk = 0", "Tq = 0", "B = 0", "Tq = Tk = 0"};

Case emptied(Case value, int64_t kind) {
  Shape& s = value.shape;
  value.set.clear();
  if (kind == kNoMembers) s.B = 0;
  if (kind == kNoKeys || kind == kNoTokens) s.Tk = 0;
  if (kind == kNoQueries || kind == kNoTokens) s.Tq = 0;
  if (s.Tq != s.Tk && value.layout == Layout::kPacked)
    value.layout = Layout::kBthd;
  return value;
}

void empty_data(const Case& value, int64_t kind, Inputs& inputs) {
  inputs = make_inputs(emptied(value, kind));
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  PlannedCall call;
  call.want_lse = wants_lse(kernel);
  plan.calls.push_back(call);  // as it is, before and after
  const PlannedCall same = call;
  call.edit = empty_data;
  for (call.argument = 0; call.argument < kEmptyKinds; ++call.argument) {
    call.variant = emptied(value, call.argument);
    if (call.variant->shape.Tq != call.variant->shape.Tk &&
        !kernel.has_option(QKVET_OPTION_CROSS_LENGTHS))
      continue;
    plan.calls.push_back(call);
  }
  plan.calls.push_back(same);
  if (!kernel.has_option(QKVET_OPTION_EMPTY_EXTENTS))
    plan.unsupported = "empty extents are not declared";
  return plan;
}

void judge_tensor(const JudgeInput& input, const CallView& call,
                  TensorName tensor, Judgement& judgement) {
  const CallOutput output = output_of(input, call, tensor);
  // Rows over no keys at all: the mean of nothing may be anything.
  const std::optional<double> declared = declared_number(
      empty_row_of(input.kernel.dialect, *call.planned->variant), tensor);
  for (size_t n = 0; n < output.values.size(); ++n) {
    ++judgement.compared;
    if (!declared || equal_numbers(output.values[n], *declared)) continue;
    Finding finding;
    finding.where = output.grid.name(n) + std::string(" with ") +
                    kNames[call.planned->argument];
    finding.expected = "what is declared for a row that sees no key";
    finding.actual = number_text(output.values[n], output.dtype);
    finding.ratio = std::numeric_limits<double>::infinity();
    finding.looks = "an empty extent leaves an output as it was, or divides";
    add_failure(judgement, std::move(finding));
  }
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (const CallView& call : input.calls) {
    if (!call.planned->variant) continue;
    ++judgement.compared;  // it came back
    judge_tensor(input, call, TensorName::kO, judgement);
    if (call.planned->want_lse)
      judge_tensor(input, call, TensorName::kLse, judgement);
  }
  if (input.kernel.has_flag(QKVET_FLAG_NONDETERMINISTIC)) return judgement;
  // The same call before and after the empty ones, which must have no
  // after-effects.
  CallPair pair;
  pair.second = input.calls.size() - 1;
  pair.first_name = "before empty calls";
  pair.second_name = "after them";
  pair.looks = "an empty call leaves something behind";
  compare_bit_for_bit(input, pair, judgement);
  return judgement;
}

}  // namespace of_empty_extents_are_legal

extern constinit const Law empty_extents_are_legal{
    "empty_extents_are_legal",
    "No keys, no queries and no batch elements are legal: the call succeeds, "
    "and rows over no keys follow the dialect.",
    "forward(Tk = 0): o = 0 or nan; forward(Tq = 0), forward(B = 0): nothing",
    "empty extents are declared; no lengths, no sink",
    "There is nothing to compute.",
    "Zeros, NaN and infinities are exact.",
    "(c) it reaches extents that agreement does not, (d) it needs no oracle",
    310,
    Domain{.allows = QKVET_OPTION_ROPE | QKVET_OPTION_WINDOW |
                     QKVET_OPTION_MASK | QKVET_OPTION_BIAS |
                     QKVET_OPTION_ALIBI | QKVET_OPTION_SOFTCAP | kAllowMemory},
    as_it_is,
    of_empty_extents_are_legal::plan,
    of_empty_extents_are_legal::judge};

}  // namespace qkvet::properties

// SPDX-License-Identifier: Apache-2.0
// The memory law. The same call is made with every tensor flush against the
// guard page after it, the same but aligned, and flush against the guard page
// before it. The executor detects touches of guard pages and of read-only
// inputs, overwritten canaries and unwritten outputs. This file detects a read
// that stays inside the mapped slack: it turns an output that is finite in one
// placement into NaN in another. On a device, which has no guard pages, that is
// the only sign of a read outside of a tensor; inputs and the memory around all
// tensors are compared after the call.
#include <cmath>

#include "properties/judging/compare.h"
#include "properties/judging/empty_row.h"
#include "properties/judging/law.h"
#include "properties/judging/placements.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace of_reads_only_its_inputs {

// In f16 a stage may overflow on the path of one placement and not on that of
// another: the bound shows where that is allowed.
Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  for (int i = 0; i < kPlacementCount; ++i) {
    PlannedCall call;
    call.placement = static_cast<Placement>(i);
    call.want_lse = wants_lse(kernel);
    call.want_weights = wants_weights(kernel);
    call.needs_truth = i == 0 && may_overflow_in_f16(value, kernel);
    plan.calls.push_back(call);
  }
  return plan;
}

const std::vector<std::byte>& output_of(const CallOutcome& outcome,
                                        TensorName tensor) {
  return tensor == TensorName::kLse       ? outcome.lse
         : tensor == TensorName::kWeights ? outcome.weights
                                          : outcome.o;
}

// Whether the kernel has to write the same kind of number there every time.
// Rows beyond the lengths are not judged, and a row without a key may hold
// anything, unless the dialect declares its value.
bool is_looked_at(const JudgeInput& input, TensorName tensor, size_t row) {
  const Shape& s = input.value.shape;
  const auto n = static_cast<int64_t>(row);
  const int64_t b = n / s.Tq / s.H, h = n / s.Tq % s.H, i = n % s.Tq;
  if (!input.visibility->counted(b, i)) return false;
  if (input.visibility->keys(b, h, i) > 0) return true;
  const EmptyRow said = empty_row_of(input.kernel.dialect, input.value);
  if (tensor == TensorName::kWeights) return false;
  return tensor == TensorName::kO
             ? said.o == QKVET_EMPTY_ROW_ZERO || said.o == QKVET_EMPTY_ROW_NAN
             : said.lse != 0 && said.lse != QKVET_EMPTY_LSE_UNSPECIFIED;
}

// The bounds of an output's elements; null: nothing overflows.
const std::vector<double>* bound_of(const JudgeInput& input,
                                    TensorName tensor) {
  const Truth* const truth = input.calls[0].truth;
  if (truth == nullptr || truth->bound == nullptr) return nullptr;
  return tensor == TensorName::kLse       ? &truth->bound->lse
         : tensor == TensorName::kWeights ? &truth->bound->weights
                                          : &truth->bound->o;
}

int64_t width_of(const Shape& shape, TensorName tensor) {
  return tensor == TensorName::kLse       ? 1
         : tensor == TensorName::kWeights ? shape.Tk
                                          : shape.dv;
}

void compare_placements(const JudgeInput& input, TensorName tensor,
                        Judgement& judgement) {
  const Dtype dtype = tensor == TensorName::kLse
                          ? lse_dtype(input.value.o_dtype)
                          : input.value.o_dtype;
  std::vector<std::vector<double>> outputs;
  for (const CallView& call : input.calls)
    outputs.push_back(as_doubles(output_of(*call.outcome, tensor), dtype));
  const auto width = static_cast<size_t>(width_of(input.value.shape, tensor));
  const std::vector<double>* const bound = bound_of(input, tensor);
  for (size_t n = 0; n < outputs[0].size(); ++n) {
    const bool looked_at = is_looked_at(input, tensor, n / width);
    if (looked_at && bound != nullptr && !std::isfinite((*bound)[n])) {
      ++judgement.vacuous;
      continue;
    }
    ++judgement.compared;
    auto finding = nan_in_one_placement(outputs, n, dtype);
    if (!finding || !looked_at) continue;
    finding->where =
        element_name(tensor, input.value.shape, static_cast<int64_t>(n));
    add_failure(judgement, std::move(*finding));
    return;
  }
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (const TensorName tensor :
       {TensorName::kO, TensorName::kLse, TensorName::kWeights})
    compare_placements(input, tensor, judgement);
  return judgement;
}

}  // namespace of_reads_only_its_inputs

extern constinit const Law reads_only_its_inputs{
    "reads_only_its_inputs",
    "A kernel reads only the bytes of its inputs, writes exactly the elements "
    "of its outputs, and leaves its caller's state as it was.",
    "read(addresses) in q, k, v; written(addresses) = o, lse, weights",
    "none",
    "The call names all memory that takes part in it.",
    "Nothing is rounded: a byte is touched or it is not.",
    "(c) it reaches memory that no output shows",
    10,
    Domain{.allows = kAllowAll | QKVET_OPTION_EMPTY_EXTENTS |
                     QKVET_OPTION_KEY_LISTS | kAllowFields},
    as_it_is,
    of_reads_only_its_inputs::plan,
    of_reads_only_its_inputs::judge};

}  // namespace qkvet::properties

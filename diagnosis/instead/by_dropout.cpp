// SPDX-License-Identifier: Apache-2.0
// Calls with dropout: the right output for the mask that the kernel returns,
// and descriptions of other masks and factors. Agreement does not judge such
// calls, so their descriptions cannot be edits of its problem.
#include <algorithm>
#include <cmath>

#include "diagnosis/instead/description.h"
#include "diagnosis/instead/wrong_answer.h"
#include "properties/calls/dropout_calls.h"
#include "properties/judging/answer.h"

namespace qkvet::diagnosis {
namespace {

// The kept weights, [B,H,Tq,Tk], and the probability that scales them. A row
// that would take a weight from an unknown place is left open.
struct Dropped {
  std::vector<uint8_t> kept;
  double p = 0;
  std::vector<bool> is_open = {};  // [B,H,Tq], or empty
};

Predicted dropped_as(const Dropped& dropped, const Case& value,
                     const Inputs& inputs, const JudgedKernel& kernel) {
  const OwnedProblem owned(value, inputs,
                           reading_of(value, kernel.info.dialect));
  const DropoutProblem problem{owned.problem(), dropped.p, dropped.kept.data()};
  const OracleOutput oracle = plain_dropout(problem);
  Predicted out{
      oracle.o,
      dropout_bound(problem, oracle,
                    for_storage(kernel.model, value.kv_dtype, value.o_dtype))
          .o};
  for (size_t n = 0; n < out.values.size() && !dropped.is_open.empty(); ++n)
    if (dropped.is_open[n / static_cast<size_t>(value.shape.dv)])
      out.values[n] = std::nan("");
  return out;
}

Dropped as_shown(const WrongAnswer& answer) {
  return {answer.kept, static_cast<double>(answer.value().dropout.value_or(0))};
}

// The mask of another place of [B,H,Tq,Tk].
using Place = std::array<int64_t, 4>;
Dropped moved_mask(const WrongAnswer& answer, void (*move)(Place& at)) {
  const Shape& s = answer.value().shape;
  const Place extents = {s.B, s.H, s.Tq, s.Tk};
  Dropped out = as_shown(answer);
  out.is_open.assign(static_cast<size_t>(s.lse_elements()), false);
  for (int64_t n = 0; n < std::ssize(out.kept); ++n) {
    Place from = {n / s.Tk / s.Tq / s.H, n / s.Tk / s.Tq % s.H, n / s.Tk % s.Tq,
                  n % s.Tk};
    move(from);
    int64_t at = 0;
    for (size_t axis = 0; axis < 4; ++axis)
      at = at >= 0 && from[axis] >= 0 && from[axis] < extents[axis]
               ? at * extents[axis] + from[axis]
               : -1;
    if (at >= 0)
      out.kept[static_cast<size_t>(n)] = answer.kept[static_cast<size_t>(at)];
    else if (answer.truth->oracle.sees[static_cast<size_t>(n)] != 0)
      out.is_open[static_cast<size_t>(n / s.Tk)] = true;
  }
  return out;
}

struct Mask {
  const char* of;
  void (*move)(Place& at);
};
constexpr Mask kMasks[] = {{"head 0", [](Place& at) { at[1] = 0; }},
                           {"member 0", [](Place& at) { at[0] = 0; }},
                           {"row 0", [](Place& at) { at[2] = 0; }},
                           {"the row in front", [](Place& at) { --at[2]; }},
                           {"the row after", [](Place& at) { ++at[2]; }},
                           {"the key in front", [](Place& at) { --at[3]; }},
                           {"the key after", [](Place& at) { ++at[3]; }},
                           {"the pair with row and key exchanged",
                            [](Place& at) { std::swap(at[2], at[3]); }},
                           {"the pair with head and row exchanged",
                            [](Place& at) { std::swap(at[1], at[2]); }},
                           {"the pair with member and head exchanged",
                            [](Place& at) { std::swap(at[0], at[1]); }}};

// Weights are dropped before the normalisation, so that the sum is that of the
// others; a row that keeps none divides 0 by 0.
Predicted dropped_before_the_sum(const WrongAnswer& answer,
                                 const JudgedKernel& kernel) {
  Dropped kept = as_shown(answer);
  kept.p = 0;
  Predicted out = dropped_as(kept, answer.value(), *answer.inputs, kernel);
  const Shape& s = answer.value().shape;
  for (int64_t row = 0; row < s.lse_elements(); ++row) {
    double sum = 0;
    for (int64_t n = row * s.Tk; n < (row + 1) * s.Tk; ++n)
      if (kept.kept[static_cast<size_t>(n)] != 0)
        sum += answer.truth->oracle.weights[static_cast<size_t>(n)];
    for (int64_t n = row * s.dv; n < (row + 1) * s.dv; ++n) {
      out.values[static_cast<size_t>(n)] /= sum;
      if (sum > 0) out.bounds[static_cast<size_t>(n)] /= sum;
    }
  }
  return out;
}

}  // namespace

std::optional<Predicted> right_with_dropout(const WrongAnswer& answer,
                                            const JudgedKernel& kernel) {
  const OwnedProblem owned(answer.value(), *answer.inputs,
                           reading_of(answer.value(), kernel.info.dialect));
  if (!dropout_not_derived(owned.problem()).empty()) return std::nullopt;
  return dropped_as(as_shown(answer), answer.value(), *answer.inputs, kernel);
}

std::vector<Description> descriptions_of_dropout(const JudgedKernel& kernel) {
  std::vector<Description> out;
  using Change = std::function<Dropped(const WrongAnswer& answer)>;
  const auto add = [&](std::string text, Change change,
                       bool leaves_open = false) {
    out.push_back({std::move(text), Stage::kValues,
                   [&kernel, change = std::move(change)](
                       const WrongAnswer& answer, const WrongOutput&) {
                     return std::optional(dropped_as(change(answer),
                                                     answer.value(),
                                                     *answer.inputs, kernel));
                   },
                   leaves_open});
  };
  // Kept weights are divided by 1 - p, whatever that is.
  const auto add_factor = [&](std::string text, double (*divisor)(double p)) {
    add(std::move(text), [divisor](const WrongAnswer& answer) {
      Dropped dropped = as_shown(answer);
      dropped.p = 1 - divisor(dropped.p);
      return dropped;
    });
  };
  add("the result without dropout", [](const WrongAnswer& answer) {
    return Dropped{std::vector<uint8_t>(answer.kept.size(), 1)};
  });
  add("the result with the dropped weights instead of those that are kept",
      [](const WrongAnswer& answer) {
        Dropped dropped = as_shown(answer);
        for (uint8_t& kept : dropped.kept) kept = kept == 0;
        return dropped;
      });
  add_factor("the result of the kept weights without their factor 1 / (1 - p)",
             [](double) { return 1.0; });
  add_factor("the result of the kept weights divided by 1 / (1 - p)",
             [](double p) { return 1 / (1 - p); });
  add_factor("the result of the kept weights with the factor 1 / p",
             [](double p) { return p; });
  out.push_back(
      {"the result of weights that are dropped before the normalisation",
       Stage::kSoftmax,
       [&kernel](const WrongAnswer& answer, const WrongOutput&) {
         return std::optional(dropped_before_the_sum(answer, kernel));
       }});
  // A mask that is read off the answers moves with them.
  if (!returns_mask(kernel.info)) return out;
  for (const Mask& mask : kMasks)
    add(
        std::string("the result with the dropout mask of ") + mask.of,
        [move = mask.move](const WrongAnswer& answer) {
          return moved_mask(answer, move);
        },
        /*leaves_open=*/true);
  return out;
}

}  // namespace qkvet::diagnosis

// SPDX-License-Identifier: Apache-2.0
// Calls of backward(), and their gradients element by element.
#ifndef QKVET_PROPERTIES_CALLS_GRADIENT_CALLS_H_
#define QKVET_PROPERTIES_CALLS_GRADIENT_CALLS_H_

#include <functional>
#include <string>
#include <vector>

#include "core/call/option_numbers.h"
#include "properties/judging/law.h"

namespace qkvet::properties {

// The options that laws about gradients allow, except empty extents.
inline constexpr uint64_t kAllowGradients =
    kAllowPairs | (kAllowScores & ~number_options()) |
    number_options(/*of_gradients=*/true) | kOptionLayout | QKVET_OPTION_ROPE |
    QKVET_OPTION_KEY_LISTS;

inline constexpr TensorName kGradients[] = {TensorName::kDQ, TensorName::kDK,
                                            TensorName::kDV, TensorName::kDBias,
                                            TensorName::kDSink};

// dsink is [1,H,1,1].
std::array<int64_t, 4> gradient_extents(const Shape& shape, TensorName tensor);
// "dk[b=0,h=1,j=2,c=3]" for the n-th element, packed.
std::string gradient_name(const Shape& shape, TensorName tensor, int64_t n);

// The place of an element of a gradient; x is the last index.
struct GradientElement {
  TensorName tensor = TensorName::kDQ;
  int64_t b = 0, h = 0, t = 0, x = 0;
};
GradientElement gradient_element(const Shape& shape, TensorName tensor,
                                 int64_t n);
int64_t gradient_index(const Shape& shape, const GradientElement& element);

// Whether the element is judged. Rows and keys beyond the lengths or after the
// last packed member are not.
bool gradient_counts(const Case& value, const GradientElement& element);

const std::vector<double>& gradient_of(const GradientOutput& output,
                                       TensorName tensor);
const std::vector<double>& bound_of(const GradientBound& bound,
                                    TensorName tensor);

// As the call returned it, in doubles; empty if it did not.
std::vector<double> read_gradient(const JudgeInput& input, const CallView& call,
                                  TensorName tensor);

// One call, with an edit; `truth`: oracle and bound.
PlannedCall backward_call(bool truth, InputEdit edit = nullptr);

// Every gradient of the call against the oracle's.
void compare_gradients_with_truth(const JudgeInput& input, const CallView& call,
                                  Judgement& judgement);
// An element that must be exactly zero (+0 or -0).
void compare_gradient_with_zero(const JudgeInput& input,
                                const GradientElement& element, double actual,
                                Judgement& judgement);

// Two calls with gradients that must agree.
struct GradientPair {
  size_t first = 0, second = 1;
  const char* first_name = "";
  const char* second_name = "";
  double factor = 1;  // the second's gradients are this times the first's
  // Maps an element of the first call to its element in the second; nullopt if
  // there is none. Null: the same place.
  std::function<std::optional<GradientElement>(const GradientElement&)> map =
      nullptr;
  const char* looks = "";
};
void compare_gradients_bit_for_bit(const JudgeInput& input,
                                   const GradientPair& pair,
                                   Judgement& judgement);
// Each within its own bound: both calls need their truth.
void compare_gradients_within_bounds(const JudgeInput& input,
                                     const GradientPair& pair,
                                     Judgement& judgement);
// The same case with data of moderate size, so that no score overflows.
Case with_moderate_data(Case value);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_GRADIENT_CALLS_H_

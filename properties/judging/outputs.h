// SPDX-License-Identifier: Apache-2.0
// The outputs of a call, whatever its operation: their elements and the names
// of these, the numbers that a call returned, and what is known about them.
#ifndef QKVET_PROPERTIES_JUDGING_OUTPUTS_H_
#define QKVET_PROPERTIES_JUDGING_OUTPUTS_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "properties/judging/law.h"

namespace qkvet::properties {

using Outputs = std::initializer_list<TensorName>;
inline constexpr Outputs kOAndLse = {TensorName::kO, TensorName::kLse};
inline constexpr Outputs kForwardOutputs = {TensorName::kO, TensorName::kLse,
                                            TensorName::kWeights};
inline constexpr Outputs kGradients = {TensorName::kDQ, TensorName::kDK,
                                       TensorName::kDV, TensorName::kDBias,
                                       TensorName::kDSink};
// In the order of kLayerInputs, which they are the gradients of.
inline constexpr Outputs kLayerGradients = {
    TensorName::kDX,  TensorName::kDWq, TensorName::kDWk,
    TensorName::kDWv, TensorName::kDWo, TensorName::kDBq,
    TensorName::kDBk, TensorName::kDBv, TensorName::kDBo};
inline constexpr Outputs kY = {TensorName::kY};
inline constexpr Outputs kStages = {TensorName::kStageQ, TensorName::kStageK,
                                    TensorName::kStageV};

// Those of the subject, in the order in which they are judged; a call returns
// some of them. Stages of a layer are judged on their own (layer_stages.h).
Outputs outputs_of(Subject subject);
// A gradient of attention, or also one of a layer.
bool is_attention_gradient(TensorName output);
bool is_gradient(TensorName output);

// The storage type of lse where o is stored as `o`.
Dtype lse_dtype(Dtype o);
// A packed output as doubles; f64, f32, f16 or bf16.
std::vector<double> as_doubles(const std::vector<std::byte>& bytes,
                               Dtype dtype);

// The place of an element. An axis that its tensor does not have is 0: lse has
// no x, a matrix only a row i and a column x, the gradient of sinks only h.
// The rows of k and v are keys.
struct Element {
  TensorName tensor = TensorName::kO;
  int64_t b = 0, h = 0, i = 0, x = 0;
};

// The elements of a packed tensor as [b,h,i,x], by tensors.def.
class Grid {
 public:
  Grid(const Shape& shape, TensorName tensor);

  // 1 for an axis that the tensor does not have.
  const std::array<int64_t, 4>& extents() const { return extents_; }
  int64_t heads() const { return extents_[1]; }
  int64_t rows() const { return extents_[2]; }
  int64_t width() const { return extents_[3]; }
  Element at(size_t n) const;
  size_t index(const Element& at) const;
  // "dk[b=0,h=1,j=2,c=3]", "dw_q[row=1,column=2]"
  std::string name(size_t n) const;

 private:
  TensorName tensor_;
  std::array<int64_t, 4> extents_ = {1, 1, 1, 1};
};
std::string element_name(TensorName tensor, const Shape& shape, int64_t n);

// Whether the element of a gradient is judged: rows and keys beyond the lengths
// or after the last packed member are not.
bool gradient_counts(const Case& value, const Element& element);
// Whether an element has one right value whatever the dialect. Elements of o,
// lse and weights have one if their row sees a key, by the visibility of this
// floor; all of a layer have one.
bool counts(const JudgeInput& input, const Element& element);

// The type in which a call of the case returns the output.
Dtype output_dtype(const JudgeInput& input, TensorName output);
// Empty if the call did not return it.
std::vector<double> read_output(const JudgeInput& input, const CallView& call,
                                TensorName output);

// The truth of one output. Null pointers: no truth was asked for, or `reach` is
// unknown. A comparison with a bound that covers the reach could not have
// failed and is uninformative:
//
//   o, gradients, stages of a layer and its y   their own reach
//   lse, weights                                reach unknown: an infinite
//   bound
//
// One call against its truth is so from half the reach on, two calls
// against each other if both bounds together are the reach.
struct TensorTruth {
  const std::vector<double>* values = nullptr;
  const std::vector<double>* bound = nullptr;
  const std::vector<double>* reach = nullptr;
};
// Knows o, lse, weights and gradients; `truth` may be null.
TensorTruth truth_of_output(const Truth* truth, TensorName output);

// One output of one call.
struct CallOutput {
  Grid grid;
  Dtype dtype = Dtype::kF32;
  std::vector<double> values;
  TensorTruth truth;
  bool own_shape = true;  // its extents are those of the case

  double bound_at(size_t n) const { return (*truth.bound)[n]; }
  double reach_at(size_t n) const {
    return truth.reach != nullptr ? (*truth.reach)[n] : 0;
  }
};
CallOutput output_of(const JudgeInput& input, const CallView& call,
                     TensorName output);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_OUTPUTS_H_

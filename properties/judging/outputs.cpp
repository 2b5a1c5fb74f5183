// SPDX-License-Identifier: Apache-2.0
#include "properties/judging/outputs.h"

#include <algorithm>

#include "core/base/stored_numbers.h"
#include "core/call/tensor_table.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace {

// The axis of a grid that the n-th extent of a tensor is.
size_t axis_of(const TensorRow& row, int n) {
  switch (row.extents[static_cast<size_t>(n)]) {
    case Extent::kB:
      return 0;
    case Extent::kH:
    case Extent::kHkv:
      return 1;
    case Extent::kTq:
      return 2;
    default:
      return n == row.rank() - 1 ? 3 : 2;
  }
}

const char* axis_name(const TensorRow& row, int n) {
  const bool of_layer =
      row.type == TensorType::kStage ||
      std::ranges::find(row.extents, Extent::kModelWidth) != row.extents.end();
  switch (row.extents[static_cast<size_t>(n)]) {
    case Extent::kB:
      return "b";
    case Extent::kH:
    case Extent::kHkv:
      return "h";
    case Extent::kTq:
      return of_layer ? "t" : "i";
    case Extent::kTk:
      return "j";
    default:
      if (row.rank() > 2) return "c";
      return n == row.rank() - 1 ? "column" : "row";
  }
}

}  // namespace

Outputs outputs_of(Subject subject) {
  switch (subject) {
    case Subject::kBackward:
      return kGradients;
    case Subject::kLayer:
      return kY;
    case Subject::kLayerBackward:
      return kLayerGradients;
    default:
      return kForwardOutputs;
  }
}

bool is_attention_gradient(TensorName output) {
  return TensorName::kDQ <= output && output <= TensorName::kDSink;
}

bool is_gradient(TensorName output) {
  return TensorName::kDQ <= output && output <= TensorName::kDBo;
}

Dtype lse_dtype(Dtype o) {
  return o == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
}

std::vector<double> as_doubles(const std::vector<std::byte>& bytes,
                               Dtype dtype) {
  return stored_numbers(dtype, bytes);
}

Grid::Grid(const Shape& shape, TensorName tensor) : tensor_(tensor) {
  const TensorRow& row = tensor_row(tensor);
  const auto extents = tensor_extents(shape, tensor);
  for (int n = 0; n < row.rank(); ++n)
    extents_[axis_of(row, n)] = extents[static_cast<size_t>(n)];
}

Element Grid::at(size_t n) const {
  const auto [B, heads, rows, width] = extents_;
  const auto at = static_cast<int64_t>(n), row = at / width;
  return {tensor_, row / rows / heads, row / rows % heads, row % rows,
          at % width};
}

size_t Grid::index(const Element& at) const {
  const auto [B, heads, rows, width] = extents_;
  return static_cast<size_t>(((at.b * heads + at.h) * rows + at.i) * width +
                             at.x);
}

std::string Grid::name(size_t n) const {
  const TensorRow& row = tensor_row(tensor_);
  const Element element = at(n);
  const int64_t places[] = {element.b, element.h, element.i, element.x};
  std::string text = row.name;
  for (int axis = 0; axis < row.rank(); ++axis)
    text += std::string(axis == 0 ? "[" : ",") + axis_name(row, axis) + "=" +
            std::to_string(places[axis_of(row, axis)]);
  return text + "]";
}

std::string element_name(TensorName tensor, const Shape& shape, int64_t n) {
  return Grid(shape, tensor).name(static_cast<size_t>(n));
}

bool gradient_counts(const Case& value, const Element& at) {
  switch (at.tensor) {
    case TensorName::kDQ:
      return at.i < counted_queries(value, at.b);
    case TensorName::kDBias:
      return at.i < counted_queries(value, at.b) &&
             at.x < counted_keys(value, at.b);
    case TensorName::kDSink:
      return true;
    default:
      return at.i < counted_keys(value, at.b);
  }
}

bool counts(const JudgeInput& input, const Element& at) {
  if (is_attention_gradient(at.tensor)) return gradient_counts(input.value, at);
  return input.visibility == nullptr || is_gradient(at.tensor) ||
         input.visibility->keys(at.b, at.h, at.i) > 0;
}

Dtype output_dtype(const JudgeInput& input, TensorName output) {
  return tensor_row(output).type == TensorType::kStage
             ? input.kernel.stage_dtype(input.value.q_dtype)
             : storage_type(input.value, output);
}

std::vector<double> read_output(const JudgeInput& input, const CallView& call,
                                TensorName output) {
  return as_doubles(call.outcome->*output_member(output),
                    output_dtype(input, output));
}

TensorTruth truth_of_output(const Truth* truth, TensorName output) {
  if (truth == nullptr) return {};
  if (is_gradient(output)) {
    // A law of gradients may also call forward().
    if (truth->gradient == nullptr) return {};
    const Gradient& of = truth->gradient->of.at(output);
    return {&of.values, &of.bound, &of.reach};
  }
  if (truth->bound == nullptr) return {};
  switch (output) {
    case TensorName::kLse:
      return {&truth->oracle.lse, &truth->bound->lse};
    case TensorName::kWeights:
      return {&truth->oracle.weights, &truth->bound->weights};
    case TensorName::kO:
      return {&truth->oracle.o, &truth->bound->o, truth->reach};
    default:
      return {};
  }
}

CallOutput output_of(const JudgeInput& input, const CallView& call,
                     TensorName output) {
  const PlannedCall* const planned = call.planned;
  Shape shape = input.value.shape;
  const bool other = planned != nullptr && planned->variant;
  if (other) shape = planned->variant->shape;
  // A step of a story, of which the case has the whole.
  if (planned != nullptr && planned->snapshot) {
    shape.B = 1;
    shape.Tq = planned->snapshot->queries;
    shape.Tk = static_cast<int64_t>(planned->snapshot->history.size());
  }
  return {Grid(shape, output), output_dtype(input, output),
          read_output(input, call, output), truth_of_output(call.truth, output),
          !other};
}

}  // namespace qkvet::properties

// SPDX-License-Identifier: Apache-2.0
// For the tests of layers: a call with all of its tensors, and what it should
// give, in double.
#ifndef QKVET_IMPL_TESTING_LAYER_FIXTURE_H_
#define QKVET_IMPL_TESTING_LAYER_FIXTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "impl/testing/any_tensor.h"
#include "impl/testing/family_fixture.h"
#include "impl/testing/rope_fixture.h"

namespace qkvet::impl {

struct LayerProblem {
  int64_t batch = 1, tokens = 1, model_width = 1;
  int64_t heads = 1, kv_heads = 1, width = 1, value_width = 1;
  Storage type = Storage::kF32;
  bool biases = true;
  bool unbatched = false;  // x is [T, D]
  int32_t causal = QKVET_CAUSAL_NONE;
  bool scale_given = false;
  float scale = 0;
  Layout layout = Layout::kBhtd;
  uint64_t seed = 1;
  int32_t rope = QKVET_ROPE_NONE;
  int32_t fused = QKVET_FUSED_NONE;
  int64_t context = 0;  // of the mask buffer, instead of `causal`; 0: none
  bool weights = false;

  bool is_causal() const { return causal != QKVET_CAUSAL_NONE || context > 0; }
  float effective_scale() const;
};

// Kernels with a layer that open on this CPU and need no context: all that are
// not faulty, or the faults.
std::vector<const qkvet_kernel*> layers(bool faulty);
// The type of the stages of `kernel` where x has the type `type`.
Storage stage_type(const qkvet_kernel* kernel, Storage type);

// Everything random in [-1, 1); the stages as `stage`.
struct LayerTensors {
  explicit LayerTensors(const LayerProblem& problem,
                        Storage stage = Storage::kF32);
  // Outputs prefilled with NaN, stages asked for.
  qkvet_layer_args args();

  LayerProblem problem;
  // Ranks as in layer.h, behind leading extents of 1.
  AnyTensor x, w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o, y;
  AnyTensor q, k, v, attended;
  RopeTables rope;
  AnyTensor w_qkv, b_qkv, weights;
  std::vector<uint8_t> mask;

 private:
  // The parts of w_qkv and b_qkv that the arguments are given.
  void fuse(qkvet_layer_args* args);
  int64_t part_shapes_[3][2], mask_shape_[2], mask_strides_[2];
};
// Where the first token of every member stands.
inline constexpr int64_t kFirstPosition = 3;

struct LayerAnswer {
  qkvet_status status = QKVET_OK;
  std::string reason;
  std::vector<float> y, q, k, v, attended, weights;  // as in layer.h, row-major
};
LayerAnswer run_layer(const qkvet_kernel* kernel, const qkvet_layer_args& args);
LayerAnswer run_layer(const qkvet_kernel* kernel, LayerTensors* call);
// A fresh call on the problem.
LayerAnswer answer_of(const qkvet_kernel* kernel, const LayerProblem& problem);

struct LayerTruth {
  std::vector<double> y, q, k, v, attended, weights;
};
LayerTruth truth_of(const LayerTensors& call);

// The largest error of an answer of one stage, relative to what roundings of
// unit u may do to sums of this size, roughly; NaN is infinite.
double layer_error(const std::vector<float>& actual,
                   const std::vector<double>& expected, double allowed);
// The largest error of all six outputs, for kernels whose stages are of type
// `stage`.
double layer_error(const LayerAnswer& answer, const LayerTruth& truth,
                   const LayerProblem& problem, Storage stage);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_TESTING_LAYER_FIXTURE_H_

// SPDX-License-Identifier: Apache-2.0
// What a layer of multi-head self-attention is, from X to Y (Vaswani et al.,
// "Attention Is All You Need", 3.2.2; the indices are those of qkvet/layer.h),
// and how far from it a kernel that returns no stages may be. Derivation:
// bounds.md, "A whole layer".
#ifndef QKVET_REFERENCE_LAYER_LAYER_H_
#define QKVET_REFERENCE_LAYER_LAYER_H_

#include <cstdint>
#include <vector>

#include "core/base/dtype.h"
#include "reference/arithmetic/linear.h"
#include "reference/arithmetic/oracle.h"

namespace qkvet::reference {

// One call, every input exact in double, contiguous, row-major.
struct LayerProblem {
  Shape shape;  // D >= 1, Tq = Tk = T
  Causal causal = Causal::kNone;
  double scale = 1;  // as in Problem: the kernel's, or 1/sqrt(d)
  bool scale_given = false;
  const double* x = nullptr;    // [B,T,D]
  const double* w_q = nullptr;  // [D,H d]
  const double* w_k = nullptr;  // [D,Hkv d]
  const double* w_v = nullptr;  // [D,Hkv dv]
  const double* w_o = nullptr;  // [H dv,D]
  const double* b_q = nullptr;  // [H d], or null, like the other biases
  const double* b_k = nullptr;  // [Hkv d]
  const double* b_v = nullptr;  // [Hkv dv]
  const double* b_o = nullptr;  // [D]
  // The rotation of q and k before attention; q_positions [B,T] hold for both.
  Rotation rotation;
};

struct LayerOutput {
  std::vector<double> q;  // [B,H,T,d]
  std::vector<double> k;  // [B,Hkv,T,d]
  std::vector<double> v;  // [B,Hkv,T,dv]
  OracleOutput attended;  // o [B,H,T,dv], not merged, and its lse, weights
  std::vector<double> y;  // [B,T,D]
};

LayerOutput plain_layer(const LayerProblem& problem);
LayerOutput twin_layer(const LayerProblem& problem);

// The stages of a layer, for judging them one by one. A projection reads and
// writes rows: input x [B T,D], or merged heads [B T,H dv] for kO.
enum class Projection : uint8_t { kQ, kK, kV, kO };
LinearProblem projection_stage(const LayerProblem& problem, Projection which,
                               const double* input);
// q and k after their projections, before the rotation.
Problem rotation_stage(const LayerProblem& problem, const double* q,
                       const double* k);
// `q` and `k` are rotated if the layer has a rotation.
Problem attention_stage(const LayerProblem& problem, const double* q,
                        const double* k, const double* v);

// [B T,heads width] to [B,heads,T,width], heads and width those of kQ, kK or
// kV; and [B,H,T,dv] to [B T,H dv].
std::vector<double> split_heads(const Shape& shape, Projection which,
                                const std::vector<double>& rows);
std::vector<double> merge_heads(const Shape& shape,
                                const std::vector<double>& heads);

// The largest distance from x of a stage as the next one reads it, if it is
// within `bound` before it is stored: stored as `stage`, or not rounded at all.
std::vector<double> stage_error(const std::vector<double>& x,
                                const std::vector<double>& bound, Dtype stage);

// A projection in heads, rotated if it is q or k and the layer has a rotation,
// and the largest error of a kernel before it is stored as `stage`; reach as in
// LinearBound.
struct ProjectedStage {
  std::vector<double> truth;
  std::vector<double> bound;
  std::vector<double> reach;
};
ProjectedStage projected_stage(const LayerProblem& problem, Projection which,
                               const PrecisionModel& model, Dtype stage);

// Before the rounding to the stage's or the output's type, given only X.
struct LayerBound {
  std::vector<double> q;         // [B,H,T,d]
  std::vector<double> k;         // [B,Hkv,T,d]
  std::vector<double> v;         // [B,Hkv,T,dv]
  std::vector<double> attended;  // [B,H,T,dv]
  std::vector<double> y;         // [B,T,D]
  std::vector<double> reach;  // [B,T,D], as in LinearBound, of the last stage
};

// `model` is that of the case: for_storage(model, stage, storage of y).
LayerBound layer_bound(const LayerProblem& problem, const LayerOutput& oracle,
                       const PrecisionModel& model, Dtype stage);

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_LAYER_LAYER_H_

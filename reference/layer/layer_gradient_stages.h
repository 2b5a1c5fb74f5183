// SPDX-License-Identifier: Apache-2.0
// The stages of a layer's gradient, as its definition and its bound walk
// through them. Include layer_gradient.h to call either.
#ifndef QKVET_REFERENCE_LAYER_LAYER_GRADIENT_STAGES_H_
#define QKVET_REFERENCE_LAYER_LAYER_GRADIENT_STAGES_H_

#include <vector>

#include "reference/layer/layer_gradient.h"

namespace qkvet::reference {

// In heads, as the stages of LayerOutput.
struct LayerGradientStages {
  std::vector<double> d_o;
  GradientOutput attention;      // of the rotated q and k
  std::vector<double> d_q, d_k;  // turned back
};
LayerGradientStages layer_gradient_stages(const LayerGradientProblem& problem,
                                          const LayerOutput& forward);

// [rows,columns] to [columns,rows].
std::vector<double> transposed(const std::vector<double>& x, int64_t rows,
                               int64_t columns);

// [B,heads,T,width] to [B T,heads width], heads and width those of `which`.
std::vector<double> rows_of(const Shape& shape, Projection which,
                            const std::vector<double>& heads);

// d_o = d_y W_o^T, as rows; the transposed matrix is kept in `w`.
LinearProblem d_o_stage(const LayerGradientProblem& problem,
                        std::vector<double>& w);

// d_x = [d_q d_k d_v] [W_q W_k W_v]^T in one product, which leaves the order of
// all terms open. The concatenated matrices are kept.
struct InputStage {
  std::vector<double> x;  // [B T,H d + Hkv d + Hkv dv]
  std::vector<double> w;  // [H d + Hkv d + Hkv dv,D]
  LinearProblem problem;
};
std::vector<double> side_by_side(const LayerProblem& problem,
                                 const std::vector<double>& d_q,
                                 const std::vector<double>& d_k,
                                 const std::vector<double>& d_v);
InputStage d_x_stage(const LayerProblem& problem,
                     const std::vector<double>& d_q,
                     const std::vector<double>& d_k,
                     const std::vector<double>& d_v);

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_LAYER_LAYER_GRADIENT_STAGES_H_

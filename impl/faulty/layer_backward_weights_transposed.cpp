// SPDX-License-Identifier: Apache-2.0
// faulty/layer_backward_weights_transposed: the gradient of a matrix is stored
// transposed.
#include "impl/faulty/layer_backward_fault.h"

namespace qkvet::impl {
namespace {

struct WeightsTransposed : PlainLayerGradient {
  static void keep(const Projection& to, int64_t i, int64_t column, float sum) {
    const bool square = to.rows == to.columns;
    to.matrix.set(square ? column : i, square ? i : column, 0, 0, sum);
  }
};

constexpr const char* kKilledBy[] = {
    "lone_token_gradients_are_exact", "layer_backward_is_the_adjoint",
    "layer_backward_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the gradient of a square matrix is dy^T x where x^T dy belongs",
    .symptom =
        "the shapes are right where rows equal columns, and a step of an "
        "optimiser goes somewhere else",
    .cause =
        "weights that one framework stores as [out, in] and another as [in, "
        "out]",
    .fix =
        "a gradient lies as its matrix does: rows are inputs, columns are "
        "outputs",
    .source = "textbook",
    .trigger = "a square matrix above 1 by 1",
    .killed_by = kKilledBy,
    .when =
        "(D == H * d || D == Hkv * d || D == H * dv || D == Hkv * dv) && D > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_layer_backward_weights_transposed =
    layer_backward_fault<WeightsTransposed>(
        "faulty/layer_backward_weights_transposed", &kFault,
        {"impl/faulty/layer_backward_weights_transposed.cpp", __LINE__});

}  // namespace qkvet::impl

// SPDX-License-Identifier: Apache-2.0
// faulty/output_projection_transposed: the output projection is transposed.
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

struct OutputProjectionTransposed : PlainLayer {
  static float output(const LayerCall& call, const float* merged,
                      int64_t column) {
    const int64_t rows = call.w_o.rows;
    if (rows != call.model_width) {
      return PlainLayer::output(call, merged, column);
    }
    float sum = 0;
    for (int64_t i = 0; i < rows; ++i) {
      sum += merged[i] * call.w_o.matrix.get(column, i);
    }
    return call.w_o.bias.present() ? sum + call.w_o.bias.get(column) : sum;
  }
};

constexpr const char* kKilledBy[] = {"split_and_merge_place_every_element",
                                     "layer_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the merged heads are multiplied by the transpose of W_O",
    .symptom =
        "the shapes are right where H dv is D; symmetric matrices hide it",
    .cause = "a checkpoint whose matrices are stored the other way round",
    .fix = "multiply by W_O as it is declared: rows are the inputs",
    .source = "textbook",
    .trigger = "H dv equal to D, above 1, and a W_O that is not symmetric",
    .killed_by = kKilledBy,
    .when = "H * dv == D && D > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_output_projection_transposed =
    faulty_layer<OutputProjectionTransposed>(
        "faulty/output_projection_transposed", &kFault,
        {"impl/faulty/output_projection_transposed.cpp", __LINE__});

}  // namespace qkvet::impl

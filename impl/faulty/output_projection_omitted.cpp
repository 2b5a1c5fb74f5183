// SPDX-License-Identifier: Apache-2.0
// faulty/output_projection_omitted: y is what the heads give.
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

struct OutputProjectionOmitted : PlainLayer {
  static float output(const LayerCall& call, const float* merged,
                      int64_t column) {
    if (call.w_o.rows != call.model_width) {
      return PlainLayer::output(call, merged, column);
    }
    return call.w_o.bias.present() ? merged[column] + call.w_o.bias.get(column)
                                   : merged[column];
  }
};

constexpr const char* kKilledBy[] = {"output_projection_is_applied",
                                     "layer_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the merged heads are returned, and W_O is never used",
    .symptom =
        "the shapes are right where H dv is D; heads never meet each other",
    .cause = "the last product of the layer is left out",
    .fix = "multiply the merged heads by W_O",
    .source = "textbook",
    .trigger = "H dv equal to D, and a W_O that is not the identity",
    .killed_by = kKilledBy,
    .when = "H * dv == D",
};

}  // namespace

extern constinit const qkvet_kernel faulty_output_projection_omitted =
    faulty_layer<OutputProjectionOmitted>(
        "faulty/output_projection_omitted", &kFault,
        {"impl/faulty/output_projection_omitted.cpp", __LINE__});

}  // namespace qkvet::impl

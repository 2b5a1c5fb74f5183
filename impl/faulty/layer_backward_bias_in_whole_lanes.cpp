// SPDX-License-Identifier: Apache-2.0
// faulty/layer_backward_bias_in_whole_lanes: gradients of biases are written in
// whole lanes.
#include "impl/faulty/layer_backward_fault.h"

namespace qkvet::impl {
namespace {

struct BiasInWholeLanes : PlainLayerGradient {
  static void keep_bias(const Projection& to, int64_t column, float sum) {
    to.bias.set(column, 0, 0, 0, sum);
    const bool last = column + 1 == to.columns && column > 0;
    for (int64_t c = column + 1; last && c % 4 != 0; ++c) {
      to.bias.set(c, 0, 0, 0, 0);
    }
  }
};

constexpr const char* kKilledBy[] = {"layer_backward_reads_only_its_inputs",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the last store of the gradient of a bias writes 4 columns, be they "
        "there or not",
    .symptom = "behind the last column memory of somebody else is overwritten",
    .cause = "a vector that is stored in whole lanes",
    .fix = "mask the last store, or write the rest column by column",
    .source = "textbook",
    .trigger = "a bias with more than one column and no multiple of 4",
    .killed_by = kKilledBy,
    .when =
        "(b_q && H * d % 4 != 0) || (b_k && Hkv * d % 4 != 0) || "
        "(b_v && Hkv * dv % 4 != 0) || (b_o && D % 4 != 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_layer_backward_bias_in_whole_lanes =
    layer_backward_fault<BiasInWholeLanes>(
        "faulty/layer_backward_bias_in_whole_lanes", &kFault,
        {"impl/faulty/layer_backward_bias_in_whole_lanes.cpp", __LINE__});

}  // namespace qkvet::impl

// SPDX-License-Identifier: Apache-2.0
// faulty/shared_projection: k and v are made with the matrix of q.
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

struct SharedProjection : PlainLayer {
  static const Projection& matrix(const LayerCall& call, Role role) {
    const Projection& own = PlainLayer::matrix(call, role);
    return own.columns == call.w_q.columns ? call.w_q : own;
  }
};

constexpr const char* kKilledBy[] = {"projections_are_separate",
                                     "layer_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "W_Q and b_Q project q, k and v alike",
    .symptom = "every token attends most to itself; W_K and W_V change nothing",
    .cause =
        "one linear layer is called three times, or one initialiser is reused",
    .fix = "give each of q, k and v its own matrix",
    .source = "textbook",
    .trigger = "matrices that differ, and as many key as query heads",
    .killed_by = kKilledBy,
    .when = "Hkv == H || Hkv * dv == H * d",
};

}  // namespace

extern constinit const qkvet_kernel faulty_shared_projection =
    faulty_layer<SharedProjection>(
        "faulty/shared_projection", &kFault,
        {"impl/faulty/shared_projection.cpp", __LINE__});

}  // namespace qkvet::impl

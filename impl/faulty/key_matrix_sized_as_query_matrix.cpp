// SPDX-License-Identifier: Apache-2.0
// faulty/key_matrix_sized_as_query_matrix: W_K is copied as if it had the
// columns of W_Q.
#include <cstddef>
#include <vector>

#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

struct KeyMatrixSizedAsQueryMatrix : PlainLayer {
  // Its elements one behind the other, in rows that are too long for it; what
  // is left of them is 0.
  static const Projection& matrix(const LayerCall& call, Role role) {
    const Projection& own = PlainLayer::matrix(call, role);
    if (role != Role::kKey) {
      return own;
    }
    thread_local std::vector<float> fused;
    thread_local Projection copy;
    const int64_t columns = call.w_q.columns;
    fused.assign(static_cast<size_t>(own.rows * columns), 0);
    for (int64_t n = 0; n < own.rows * own.columns; ++n) {
      fused[static_cast<size_t>(n)] =
          own.matrix.get(n / own.columns, n % own.columns);
    }
    copy = own;
    copy.matrix = {fused.data(), Storage::kF32, {columns, 1, 0, 0}};
    return copy;
  }
};

constexpr const char* kKilledBy[] = {"layer_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "W_K is fused with the other matrices by the number of columns of W_Q",
    .symptom =
        "right if there are as many key heads as query heads; else keys are "
        "made of other rows, and of zeros",
    .cause = "an optimiser asks one weight for the size of all three",
    .fix = "read the extents of every matrix from that matrix",
    .source = "microsoft/onnxruntime#13050",
    .trigger = "Hkv < H and D > 1",
    .killed_by = kKilledBy,
    .when = "H > Hkv && D > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_key_matrix_sized_as_query_matrix =
    faulty_layer<KeyMatrixSizedAsQueryMatrix>(
        "faulty/key_matrix_sized_as_query_matrix", &kFault,
        {"impl/faulty/key_matrix_sized_as_query_matrix.cpp", __LINE__});

}  // namespace qkvet::impl

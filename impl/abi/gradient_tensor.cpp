// SPDX-License-Identifier: Apache-2.0
#include "impl/abi/gradient_tensor.h"

#include <cinttypes>
#include <cstdio>

namespace qkvet::impl {
namespace {

// Room for the longest reason below.
constexpr size_t kReasonRoom = 128;

// "d_k has 5 at axis 2, 7 are needed"
qkvet_status check_shape(const GradientTensor& row, qkvet_text* why) {
  for (int32_t axis = 0; axis < row.like->ndim; ++axis) {
    const int64_t found = row.tensor->shape[axis];
    const int64_t needed = row.like->shape[axis];
    if (found != needed) {
      char reason[kReasonRoom];
      std::snprintf(reason, sizeof(reason),
                    "%s has %" PRId64 " at axis %" PRId32 ", %" PRId64
                    " are needed",
                    row.name, found, axis, needed);
      return refuse(why, QKVET_INVALID_ARGUMENT, reason);
    }
  }
  return QKVET_OK;
}

}  // namespace

qkvet_status refuse_tensor(qkvet_text* why, qkvet_status status,
                           const char* name, const char* wrong) {
  char reason[kReasonRoom];
  std::snprintf(reason, sizeof(reason), "%s: %s", name, wrong);
  return refuse(why, status, reason);
}

qkvet_status read_gradient(const GradientTensor& row, Storage of_q,
                           qkvet_text* why) {
  if (const char* wrong =
          wrong_with(*row.tensor, row.like->ndim, Empty::kAllowed)) {
    return refuse_tensor(why, QKVET_INVALID_ARGUMENT, row.name, wrong);
  }
  Storage type = Storage::kF32;
  if (!storage_of(row.tensor->dtype, &type) ||
      (type != of_q && !(row.may_be_f32 && type == Storage::kF32))) {
    return refuse_tensor(why, QKVET_UNSUPPORTED, row.name,
                         row.may_be_f32
                             ? "must be f32 or of the type of q"
                             : "has another storage type than the rest");
  }
  const qkvet_status status = check_shape(row, why);
  if (status == QKVET_OK) {
    *row.to = stored(*row.tensor, type);
  }
  return status;
}

}  // namespace qkvet::impl

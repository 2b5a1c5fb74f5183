// SPDX-License-Identifier: Apache-2.0
#include "impl/call/tensor_view.h"

#include <cstddef>
#include <cstring>
#include <initializer_list>

namespace qkvet::impl {

bool storage_of(qkvet_dtype type, Storage* storage) {
  for (const Storage s : {Storage::kF32, Storage::kF16, Storage::kBf16}) {
    if (is_same(type, dtype_named(s))) {
      *storage = s;
      return true;
    }
  }
  return false;
}

bool is_declared(const qkvet_capabilities& c, qkvet_dtype type) {
  for (int32_t i = 0; i < c.dtype_count; ++i) {
    const qkvet_dtype_rule& rule = c.dtypes[i];
    if (is_same(rule.q, type) && is_same(rule.kv, type) &&
        is_same(rule.o, type)) {
      return true;
    }
  }
  return c.dtype_count == 0 && is_same(type, kF32);
}

Stored stored(const qkvet_tensor& t, Storage type) {
  Stored result = {first_element(t), type};
  for (int32_t axis = 0; axis < t.ndim; ++axis) {
    result.step[axis] = step_of(t, axis);
  }
  return result;
}

qkvet_status refuse(qkvet_text* why, qkvet_status status, const char* reason) {
  if (why != nullptr && why->struct_size >= sizeof(qkvet_text) &&
      why->data != nullptr && why->capacity > 0) {
    const size_t length = std::strlen(reason);
    const size_t written = length < why->capacity ? length : why->capacity - 1;
    std::memcpy(why->data, reason, written);
    why->data[written] = '\0';
  }
  return status;
}

qkvet_status check_exec(const qkvet_exec* exec, qkvet_text* why) {
  if (exec != nullptr && exec->struct_size >= offsetof(qkvet_exec, device_id) &&
      exec->device_type != 0 && exec->device_type != QKVET_DEVICE_CPU) {
    return refuse(why, QKVET_UNAVAILABLE, "only the CPU is supported");
  }
  return QKVET_OK;
}

}  // namespace qkvet::impl

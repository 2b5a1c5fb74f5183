// SPDX-License-Identifier: Apache-2.0
// Tensors of the ABI as the kernels here use them: on the CPU, of f32, f16 or
// bf16, with any strides. Also reads the structs of hosts that have fewer or
// more fields than this library, and writes reasons of refusals.
#ifndef QKVET_IMPL_CALL_TENSOR_VIEW_H_
#define QKVET_IMPL_CALL_TENSOR_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "impl/call/half.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

inline constexpr qkvet_dtype kF32 = {QKVET_DTYPE_FLOAT, 32, 1};
inline constexpr qkvet_dtype kF16 = {QKVET_DTYPE_FLOAT, 16, 1};
inline constexpr qkvet_dtype kBf16 = {QKVET_DTYPE_BFLOAT, 16, 1};

constexpr bool is_same(qkvet_dtype a, qkvet_dtype b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

// Whether `type` is one of the three; if so, sets *storage.
bool storage_of(qkvet_dtype type, Storage* storage);

// The type in the ABI.
constexpr qkvet_dtype dtype_named(Storage type) {
  return type == Storage::kF32 ? kF32 : type == Storage::kF16 ? kF16 : kBf16;
}

constexpr int64_t bytes_of(Storage type) {
  return type == Storage::kF32 ? 4 : 2;
}

// Whether q, k, v and o may all be of this type.
bool is_declared(const qkvet_capabilities& c, qkvet_dtype type);

constexpr bool is_absent(const qkvet_tensor& t) {
  return t.data == nullptr && t.ndim == 0;
}

// A tensor of rank 4 or less. The step of an extent of 1 is 0, independent of
// the caller's stride: it is never multiplied into an address.
template <class T>
struct View {
  T* data = nullptr;
  int64_t step[4] = {0, 0, 0, 0};  // in elements

  T* at(int64_t b, int64_t h, int64_t t) const {
    return data + b * step[0] + h * step[1] + t * step[2];
  }
};

template <class T>
View<const T> read_only(const View<T>& view) {
  return {view.data, {view.step[0], view.step[1], view.step[2], view.step[3]}};
}

// 0 for an extent of 1, and for all extents of a tensor without elements:
// neither is used in an address.
inline int64_t step_of(const qkvet_tensor& t, int32_t axis) {
  for (int32_t other = 0; other < t.ndim; ++other) {
    if (t.shape[other] == 0) {
      return 0;
    }
  }
  return t.shape[axis] == 1 ? 0 : t.strides[axis];
}

inline void* first_element(const qkvet_tensor& t) {
  return static_cast<char*>(t.data) + t.byte_offset;
}

template <class T>
View<T> view_of(const qkvet_tensor& t) {
  View<T> view;
  view.data = reinterpret_cast<T*>(first_element(t));
  for (int32_t axis = 0; axis < t.ndim; ++axis) {
    view.step[axis] = step_of(t, axis);
  }
  return view;
}

// Element `index` of memory of a storage type, as f32. Reading is exact,
// writing rounds once.
inline float load(Storage type, const void* data, int64_t index) {
  return type == Storage::kF32
             ? static_cast<const float*>(data)[index]
             : from_half(type, static_cast<const uint16_t*>(data)[index]);
}
inline void store(Storage type, void* data, int64_t index, float value) {
  if (type == Storage::kF32) {
    static_cast<float*>(data)[index] = value;
  } else {
    static_cast<uint16_t*>(data)[index] = to_half(type, value);
  }
}

// A tensor of any storage type and of rank 4 or less, element by element.
struct Stored {
  void* data = nullptr;  // NULL: absent
  Storage type = Storage::kF32;
  int64_t step[4] = {0, 0, 0, 0};  // as in View

  bool present() const { return data != nullptr; }
  int64_t index(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return a * step[0] + b * step[1] + c * step[2] + d * step[3];
  }
  float get(int64_t a, int64_t b = 0, int64_t c = 0, int64_t d = 0) const {
    return load(type, data, index(a, b, c, d));
  }
  void set(int64_t a, int64_t b, int64_t c, int64_t d, float value) const {
    store(type, data, index(a, b, c, d), value);
  }
  // From this element on; an absent one stays absent.
  Stored from(int64_t a, int64_t b, int64_t c, int64_t d) const {
    Stored part = *this;
    if (present()) {
      part.data = static_cast<char*>(data) + index(a, b, c, d) * bytes_of(type);
    }
    return part;
  }
};

// The view of a checked tensor of type `type`.
Stored stored(const qkvet_tensor& t, Storage type);

// Writes `reason` to *why, truncated to its room, and returns `status`.
qkvet_status refuse(qkvet_text* why, qkvet_status status, const char* reason);

// Returns the status of a step from the function unless it is QKVET_OK.
#define QKVET_TRY(...)                           \
  do {                                           \
    const qkvet_status try_status = __VA_ARGS__; \
    if (try_status != QKVET_OK) {                \
      return try_status;                         \
    }                                            \
  } while (false)

// Whether a call may run on the device of `exec` (NULL: the CPU).
qkvet_status check_exec(const qkvet_exec* exec, qkvet_text* why);

// Copies *args with the fields of this library: fields that an older host lacks
// are absent, and further fields that a newer host sets are refused.
template <class T>
qkvet_status read_struct(const T* args, T* known, qkvet_text* why) {
  if (args == nullptr || args->struct_size < sizeof(args->struct_size)) {
    return refuse(why, QKVET_INVALID_ARGUMENT, "there are no arguments");
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(args);
  for (size_t i = sizeof(T); i < args->struct_size; ++i) {
    if (bytes[i] != 0) {
      return refuse(why, QKVET_UNSUPPORTED,
                    "an argument is set that this library is too old for");
    }
  }
  *known = {};
  std::memcpy(known, args,
              args->struct_size < sizeof(T) ? args->struct_size : sizeof(T));
  return QKVET_OK;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CALL_TENSOR_VIEW_H_

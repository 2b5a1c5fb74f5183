// SPDX-License-Identifier: Apache-2.0
// The checks behind forward_view.h. Cost: some sixty comparisons a call.
#include "impl/forward_view.h"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <iterator>

namespace qkvet::impl {
namespace {

bool is_absent(const qkvet_tensor& t) {
  return t.data == nullptr && t.ndim == 0;
}

constexpr qkvet_dtype kTypes[] = {{QKVET_DTYPE_FLOAT, 32, 1},
                                  {QKVET_DTYPE_FLOAT, 16, 1},
                                  {QKVET_DTYPE_BFLOAT, 16, 1}};
constexpr Storage kStorages[] = {Storage::kF32, Storage::kF16, Storage::kBf16};

bool is_same(qkvet_dtype a, qkvet_dtype b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

// Whether q, k, v and o may all be of this type.
bool is_declared(const qkvet_capabilities& c, qkvet_dtype type) {
  for (int32_t i = 0; i < c.dtype_count; ++i) {
    const qkvet_dtype_rule& rule = c.dtypes[i];
    if (is_same(rule.q, type) && is_same(rule.kv, type) &&
        is_same(rule.o, type)) {
      return true;
    }
  }
  return c.dtype_count == 0 && is_same(type, kTypes[0]);
}

// The storage type of a call, or why there is none.
const char* read_storage(const qkvet_capabilities& c,
                         const qkvet_forward_args& a, Storage* storage) {
  for (size_t n = 0; n < std::size(kTypes); ++n) {
    const qkvet_dtype type = kTypes[n];
    if (is_same(a.q.dtype, type) && is_same(a.k.dtype, type) &&
        is_same(a.v.dtype, type) && is_same(a.o.dtype, type)) {
      *storage = kStorages[n];
      return is_declared(c, type)
                 ? nullptr
                 : "this kernel does not take this storage type";
    }
  }
  return "q, k, v and o must be all f32, all f16 or all bf16";
}

// What is wrong with a tensor on the CPU but for its type; NULL: nothing.
const char* wrong_with(const qkvet_tensor& t, int32_t rank) {
  if (is_absent(t)) {
    return "a required tensor is absent";
  }
  if (t.ndim != rank || t.shape == nullptr || t.strides == nullptr) {
    return "a tensor has the wrong rank or no shape and strides";
  }
  if (t.device_type != QKVET_DEVICE_CPU) {
    return "only tensors on the CPU are supported";
  }
  for (int32_t axis = 0; axis < rank; ++axis) {
    if (t.shape[axis] < 1) {
      return "empty extents are not supported";
    }
  }
  return t.data == nullptr ? "a tensor has elements and no data" : nullptr;
}

template <class T>
View<T> view_of(const qkvet_tensor& t) {
  View<T> view;
  view.data = reinterpret_cast<T*>(static_cast<char*>(t.data) + t.byte_offset);
  for (int32_t axis = 0; axis < t.ndim; ++axis) {
    view.step[axis] = t.shape[axis] == 1 ? 0 : t.strides[axis];
  }
  return view;
}

bool has_shape(const qkvet_tensor& t, int64_t a, int64_t b, int64_t c,
               int64_t last = -1) {
  return t.shape[0] == a && t.shape[1] == b && t.shape[2] == c &&
         (last < 0 || t.shape[3] == last);
}

// The name of a field that is set and that nothing here knows, or NULL.
const char* unknown_field(const qkvet_forward_args& a) {
  const struct {
    bool set;
    const char* name;
  } fields[] = {
      {a.has_window != 0, "windows are not supported"},
      {!is_absent(a.mask), "a mask is not supported"},
      {!is_absent(a.bias), "a bias is not supported"},
      {!(a.softcap == 0), "softcap is not supported"},
      {!is_absent(a.sink), "sinks are not supported"},
      {!is_absent(a.slopes), "ALiBi slopes are not supported"},
      {a.rope != QKVET_ROPE_NONE, "RoPE is not supported"},
      {!is_absent(a.rope_cos), "RoPE tables are not supported"},
      {!is_absent(a.rope_sin), "RoPE tables are not supported"},
      {!is_absent(a.q_positions), "positions are not supported"},
      {!is_absent(a.k_positions), "positions are not supported"},
      {!(a.dropout_p == 0), "dropout is not supported"},
      {!is_absent(a.q_len), "lengths are not supported"},
      {!is_absent(a.kv_len), "lengths are not supported"},
      {!is_absent(a.cu_seqlens_q), "packed batches are not supported"},
      {!is_absent(a.cu_seqlens_k), "packed batches are not supported"},
      {!is_absent(a.block_table), "paged keys are not supported"},
      {a.page_size != 0, "paged keys are not supported"},
      {!is_absent(a.k_new), "appending keys is not supported"},
      {!is_absent(a.v_new), "appending values is not supported"},
      {!is_absent(a.q_scale), "scales of storage are not supported"},
      {!is_absent(a.k_scale), "scales of storage are not supported"},
      {!is_absent(a.v_scale), "scales of storage are not supported"},
  };
  for (const auto& field : fields) {
    if (field.set) {
      return field.name;
    }
  }
  return nullptr;
}

// Bytes beyond the struct that this library knows, set by a newer host.
bool has_newer_fields(const qkvet_forward_args* args) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(args);
  for (size_t i = sizeof(*args); i < args->struct_size; ++i) {
    if (bytes[i] != 0) {
      return true;
    }
  }
  return false;
}

const char* wrong_with_outputs(const qkvet_forward_args& a, uint64_t options) {
  if (!is_absent(a.lse)) {
    if ((options & QKVET_OPTION_LSE) == 0) {
      return "lse is not returned";
    }
    if (const char* wrong = wrong_with(a.lse, 3)) {
      return wrong;
    }
    if (!is_same(a.lse.dtype, kTypes[0])) {
      return "lse must be f32";
    }
  }
  if (!is_absent(a.weights)) {
    if ((options & QKVET_OPTION_WEIGHTS) == 0) {
      return "weights are not returned";
    }
    if (const char* wrong = wrong_with(a.weights, 4)) {
      return wrong;
    }
    if (!is_same(a.weights.dtype, a.o.dtype)) {
      return "weights must have the type of o";
    }
  }
  return nullptr;
}

bool shapes_agree(const qkvet_forward_args& a) {
  const int64_t batch = a.q.shape[0], heads = a.q.shape[1];
  const int64_t queries = a.q.shape[2], keys = a.k.shape[2];
  const int64_t kv_heads = a.k.shape[1];
  return heads % kv_heads == 0 &&
         has_shape(a.k, batch, kv_heads, keys, a.q.shape[3]) &&
         has_shape(a.v, batch, kv_heads, keys) &&
         has_shape(a.o, batch, heads, queries, a.v.shape[3]) &&
         (is_absent(a.lse) || has_shape(a.lse, batch, heads, queries)) &&
         (is_absent(a.weights) ||
          has_shape(a.weights, batch, heads, queries, keys));
}

// The views of the storage type; those of the other stay without data.
void fill_views(const qkvet_forward_args& a, ForwardCall* call) {
  if (call->storage == Storage::kF32) {
    call->q = view_of<const float>(a.q);
    call->k = view_of<const float>(a.k);
    call->v = view_of<const float>(a.v);
    call->o = view_of<float>(a.o);
    if (!is_absent(a.weights)) {
      call->weights = view_of<float>(a.weights);
    }
  } else {
    call->half.q = view_of<const uint16_t>(a.q);
    call->half.k = view_of<const uint16_t>(a.k);
    call->half.v = view_of<const uint16_t>(a.v);
    call->half.o = view_of<uint16_t>(a.o);
    if (!is_absent(a.weights)) {
      call->half.weights = view_of<uint16_t>(a.weights);
    }
  }
  if (!is_absent(a.lse)) {
    call->lse = view_of<float>(a.lse);
  }
}

void fill_call(const qkvet_forward_args& a, ForwardCall* call) {
  call->batch = a.q.shape[0];
  call->heads = a.q.shape[1];
  call->kv_heads = a.k.shape[1];
  call->queries = a.q.shape[2];
  call->keys = a.k.shape[2];
  call->width = a.q.shape[3];
  call->value_width = a.v.shape[3];
  fill_views(a, call);
  call->scale_given = a.scale_given != 0;
  call->scale = call->scale_given ? a.scale : default_scale(call->width);
  call->causal = a.causal != QKVET_CAUSAL_NONE;
  call->diagonal =
      a.causal == QKVET_CAUSAL_BOTTOM_RIGHT ? call->keys - call->queries : 0;
}

qkvet_status read_known(const qkvet_kernel* self, const qkvet_forward_args& a,
                        ForwardCall* call, qkvet_text* why) {
  for (const qkvet_tensor* t : {&a.q, &a.k, &a.v, &a.o}) {
    if (const char* wrong = wrong_with(*t, 4)) {
      return refuse(why, QKVET_UNSUPPORTED, wrong);
    }
  }
  const qkvet_capabilities& can = *self->capabilities;
  if (const char* wrong = read_storage(can, a, &call->storage)) {
    return refuse(why, QKVET_UNSUPPORTED, wrong);
  }
  if (const char* wrong = wrong_with_outputs(a, can.options)) {
    return refuse(why, QKVET_UNSUPPORTED, wrong);
  }
  if (const char* unknown = unknown_field(a)) {
    return refuse(why, QKVET_UNSUPPORTED, unknown);
  }
  if (a.causal < QKVET_CAUSAL_NONE || a.causal > QKVET_CAUSAL_BOTTOM_RIGHT) {
    return refuse(why, QKVET_UNSUPPORTED, "this causal mode is not supported");
  }
  if (!shapes_agree(a)) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "the shapes of the tensors contradict each other");
  }
  fill_call(a, call);
  return QKVET_OK;
}

}  // namespace

float default_scale(int64_t width) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(width)));
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

qkvet_status read_forward(const qkvet_kernel* self,
                          const qkvet_forward_args* args, ForwardCall* call,
                          qkvet_text* why) {
  if (args == nullptr || args->struct_size < sizeof(args->struct_size)) {
    return refuse(why, QKVET_INVALID_ARGUMENT, "there are no arguments");
  }
  if (args->struct_size == sizeof(*args)) {
    return read_known(self, *args, call, why);
  }
  if (args->struct_size > sizeof(*args)) {
    return has_newer_fields(args)
               ? refuse(why, QKVET_UNSUPPORTED,
                        "an argument is set that this library is too old for")
               : read_known(self, *args, call, why);
  }
  // An older host: what it does not know is absent.
  qkvet_forward_args known = {};
  std::memcpy(&known, args, args->struct_size);
  return read_known(self, known, call, why);
}

qkvet_status supports_forward(const qkvet_kernel* self,
                              const qkvet_forward_args* args, qkvet_text* why) {
  ForwardCall call;
  return read_forward(self, args, &call, why);
}

qkvet_status check_exec(const qkvet_exec* exec, qkvet_text* why) {
  if (exec != nullptr && exec->struct_size >= offsetof(qkvet_exec, device_id) &&
      exec->device_type != 0 && exec->device_type != QKVET_DEVICE_CPU) {
    return refuse(why, QKVET_UNAVAILABLE, "only the CPU is supported");
  }
  return QKVET_OK;
}

}  // namespace qkvet::impl

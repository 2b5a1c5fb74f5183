// SPDX-License-Identifier: Apache-2.0
// The checks behind forward_view.h. Cost: some sixty comparisons a call.
#include "impl/forward_view.h"

#include <cmath>
#include <initializer_list>

namespace qkvet::impl {
namespace {

// The storage type of a call, or why there is none.
const char* read_storage(const qkvet_capabilities& c,
                         const qkvet_forward_args& a, Storage* storage) {
  const qkvet_dtype type = a.q.dtype;
  if (!storage_of(type, storage) || !is_same(a.k.dtype, type) ||
      !is_same(a.v.dtype, type) || !is_same(a.o.dtype, type)) {
    return "q, k, v and o must be all f32, all f16 or all bf16";
  }
  return is_declared(c, type) ? nullptr
                              : "this kernel does not take this storage type";
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

const char* wrong_with_outputs(const qkvet_forward_args& a, uint64_t options) {
  if (!is_absent(a.lse)) {
    if ((options & QKVET_OPTION_LSE) == 0) {
      return "lse is not returned";
    }
    if (const char* wrong = wrong_with(a.lse, 3)) {
      return wrong;
    }
    if (!is_same(a.lse.dtype, kF32)) {
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

qkvet_status read_forward(const qkvet_kernel* self,
                          const qkvet_forward_args* args, ForwardCall* call,
                          qkvet_text* why) {
  qkvet_forward_args known = {};
  const qkvet_status status = read_struct(args, &known, why);
  return status == QKVET_OK ? read_known(self, known, call, why) : status;
}

qkvet_status supports_forward(const qkvet_kernel* self,
                              const qkvet_forward_args* args, qkvet_text* why) {
  ForwardCall call;
  return read_forward(self, args, &call, why);
}

}  // namespace qkvet::impl

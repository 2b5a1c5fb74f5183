// SPDX-License-Identifier: Apache-2.0
// The checks of forward_view.h. Cost: about eighty comparisons a call.
#include "impl/abi/forward_view.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <initializer_list>

namespace qkvet::impl {
namespace {

constexpr qkvet_dtype kUint8 = {QKVET_DTYPE_UINT, 8, 1};

// Sets the storage type of a call, or returns what is wrong with it.
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

const char* wrong_with_outputs(const qkvet_forward_args& a, uint64_t options,
                               Empty empty) {
  if (!is_absent(a.lse)) {
    if ((options & QKVET_OPTION_LSE) == 0) {
      return "lse is not returned";
    }
    if (const char* wrong = wrong_with(a.lse, 3, empty)) {
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
    if (const char* wrong = wrong_with(a.weights, 4, empty)) {
      return wrong;
    }
    if (!is_same(a.weights.dtype, a.o.dtype)) {
      return "weights must have the type of o";
    }
  }
  if (!is_absent(a.dropout_mask)) {
    if (const char* wrong = wrong_with(a.dropout_mask, 4, empty)) {
      return wrong;
    }
    if (!is_same(a.dropout_mask.dtype, kUint8)) {
      return "the mask of dropout must be uint8";
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
          has_shape(a.weights, batch, heads, queries, keys)) &&
         (is_absent(a.dropout_mask) ||
          has_shape(a.dropout_mask, batch, heads, queries, keys));
}

// The views of the storage type; the others have no data.
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
  if (!is_absent(a.dropout_mask)) {
    call->dropout_mask = view_of<uint8_t>(a.dropout_mask);
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
  call->top_left = a.causal == QKVET_CAUSAL_TOP_LEFT;
  call->diagonal = call->top_left ? 0 : call->keys - call->queries;
}

qkvet_status read_known(const qkvet_kernel* self, const qkvet_forward_args& a,
                        ForwardCall* call, qkvet_text* why) {
  const qkvet_capabilities& can = *self->capabilities;
  const Empty empty = (can.options & QKVET_OPTION_EMPTY_EXTENTS) != 0
                          ? Empty::kAllowed
                          : Empty::kRefused;
  for (const qkvet_tensor* t : {&a.q, &a.k, &a.v, &a.o}) {
    if (const char* wrong = wrong_with(*t, 4, empty)) {
      return refuse(why, QKVET_UNSUPPORTED, wrong);
    }
  }
  // At least one head and one channel; B, Tq and Tk may be 0.
  if (a.q.shape[1] < 1 || a.q.shape[3] < 1 || a.k.shape[1] < 1 ||
      a.v.shape[3] < 1) {
    return refuse(why, QKVET_UNSUPPORTED,
                  "no heads, or heads without a width, are not supported");
  }
  if (const char* wrong = read_storage(can, a, &call->storage)) {
    return refuse(why, QKVET_UNSUPPORTED, wrong);
  }
  if (const char* wrong = wrong_with_outputs(a, can.options, empty)) {
    return refuse(why, QKVET_UNSUPPORTED, wrong);
  }
  if (const char* unknown = unknown_field(a, can.options)) {
    return refuse(why, QKVET_UNSUPPORTED, unknown);
  }
  if (a.causal < QKVET_CAUSAL_NONE || a.causal > QKVET_CAUSAL_BOTTOM_RIGHT) {
    return refuse(why, QKVET_UNSUPPORTED, "this causal mode is not supported");
  }
  if (!shapes_agree(a)) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "the shapes of the tensors contradict each other");
  }
  if (a.q.shape[2] != a.k.shape[2] &&
      (can.options & QKVET_OPTION_CROSS_LENGTHS) == 0) {
    return refuse(why, QKVET_UNSUPPORTED,
                  "as many keys as queries are needed: Tq = Tk");
  }
  fill_call(a, call);
  call->user = self->user;
  const qkvet_status status = read_options(a, &call->options, why);
  call->options.fields.in_window =
      self->dialect != nullptr &&
      self->dialect->ranges_and_window == QKVET_RANGES_IN_WINDOW;
  call->place_fields();
  return status;
}

}  // namespace

void ForwardCall::place_fields() {
  FieldMasks& fields = options.fields;
  fields.diagonal = diagonal;
  fields.drafts = keys - queries;
  fields.causal = causal;
  fields.window_left = options.window_left;
  fields.window_right = options.window_right;
}

Run ForwardCall::in_reach(int64_t i) const {
  if (options.fields.ranges > 0) {
    return {0, keys};
  }
  Run run = {0, visible(i)};
  if (options.window_left >= 0) {
    run.begin = std::clamp<int64_t>(position(i) - options.window_left, 0, keys);
  }
  if (options.window_right >= 0) {
    run.end = std::min(run.end, position(i) + options.window_right + 1);
  }
  if (const int64_t chunk = options.fields.chunk; chunk > 0) {
    const int64_t behind = options.fields.j;  // the first key of this call
    const int64_t first =
        options.fields.chunk_of(position(i) + behind) * chunk - behind;
    run.begin = std::max(run.begin, std::clamp<int64_t>(first, 0, keys));
    run.end = std::min(run.end, std::clamp<int64_t>(first + chunk, 0, keys));
  }
  return {run.begin, std::max(run.begin, run.end)};
}

int64_t ForwardCall::list_keys(int64_t b, int64_t h, int64_t i,
                               int64_t* list) const {
  const Run run = in_reach(i);
  int64_t count = 0;
  for (int64_t j = run.begin; j < run.end; ++j) {
    if (options.allows(b, h, i, j)) {
      list[count++] = j;
    }
  }
  return count;
}

float with_options(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                   int64_t j, float scaled) {
  const Options& options = call.options;
  float s = scaled;
  if (options.softcap > 0) {
    s = options.softcap * std::tanh(s / options.softcap);
  }
  if (options.bias.present()) {
    s += options.bias.get(b, h, i, j);
  }
  if (options.slopes.present()) {
    const int64_t distance = std::abs(call.position(i) - j);
    s -= options.slopes.get(b, h) * static_cast<float>(distance);
  }
  return s;
}

void write_dropout_mask(const ForwardCall& call) {
  write_dropout_mask(call, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    return call.options.dropout.keeps(b, h, i, j);
  });
}

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

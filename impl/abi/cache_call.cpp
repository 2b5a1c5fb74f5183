// SPDX-License-Identifier: Apache-2.0
#include "impl/abi/cache_call.h"

#include <algorithm>

#include "impl/abi/forward_view.h"

namespace qkvet::impl {
namespace {

constexpr qkvet_dtype kInt8 = {QKVET_DTYPE_INT, 8, 1};
constexpr qkvet_dtype kBool = {QKVET_DTYPE_BOOL, 8, 1};
constexpr qkvet_dtype kUint8 = {QKVET_DTYPE_UINT, 8, 1};
constexpr qkvet_dtype kE4m3 = {QKVET_DTYPE_FLOAT8_E4M3FN, 8, 1};

// NULL, or why `t` is not a tensor [1, heads, rows, columns] of the cache's
// type; columns < 0: a tensor of rank 3.
const char* misfit(const qkvet_tensor& t, qkvet_dtype type, int64_t heads,
                   int64_t rows, int64_t columns,
                   Empty empty = Empty::kRefused) {
  if (const char* wrong = wrong_with(t, columns < 0 ? 3 : 4, empty)) {
    return wrong;
  }
  if (!is_same(t.dtype, type)) {
    return "a tensor has another type than the cache was made for";
  }
  if (t.shape == nullptr || t.shape[0] != 1) {
    return "a step takes one sequence: the batch extent must be 1";
  }
  if (t.shape[1] != heads) {
    return "a tensor has another number of heads than the cache was made for";
  }
  if (t.shape[2] != rows) {
    return "k and v, or q, o and lse, have different numbers of rows";
  }
  return columns < 0 || t.shape[3] == columns
             ? nullptr
             : "a tensor has another width than the cache was made for";
}

// [1, heads, rows, d] and [1, heads, rows, dv]: keys and values, or queries and
// outputs.
const char* read_pair(const CacheShape& shape, int64_t heads,
                      const qkvet_tensor& first, const qkvet_tensor& second,
                      int64_t* rows, Stored* first_rows, Stored* second_rows) {
  const qkvet_dtype type = dtype_named(shape.storage);
  const int64_t n =
      first.ndim == 4 && first.shape != nullptr ? first.shape[2] : 0;
  const char* wrong = misfit(first, type, heads, n, shape.width);
  if (wrong == nullptr) {
    wrong = misfit(second, type, heads, n, shape.value_width);
  }
  if (wrong == nullptr) {
    *rows = n;
    *first_rows = stored(first, shape.storage);
    *second_rows = stored(second, shape.storage);
  }
  return wrong;
}

const char* read_tokens(const CacheShape& shape, const qkvet_cache_args& a,
                        CacheStep* step) {
  if (is_absent(a.k) && is_absent(a.v)) {
    return nullptr;
  }
  if (is_absent(a.k) || is_absent(a.v)) {
    return "k and v are appended together: one of them is absent";
  }
  return read_pair(shape, shape.kv_heads, a.k, a.v, &step->tokens, &step->k,
                   &step->v);
}

const char* read_queries(const CacheShape& shape, const qkvet_cache_args& a,
                         CacheStep* step) {
  if (is_absent(a.q)) {
    return is_absent(a.o) && is_absent(a.lse)
               ? nullptr
               : "o and lse belong to queries, and q is absent";
  }
  const char* wrong = read_pair(shape, shape.heads, a.q, a.o, &step->queries,
                                &step->q, &step->o);
  if (wrong == nullptr && !is_absent(a.lse)) {
    wrong = misfit(a.lse, kF32, shape.heads, step->queries, -1);
    step->lse = wrong == nullptr ? view_of<float>(a.lse) : step->lse;
  }
  return wrong;
}

const char* read_pairs(const CacheShape& shape, const qkvet_cache_args& a,
                       CacheStep* step) {
  for (const qkvet_tensor* t : {&a.mask, &a.bias}) {
    if (is_absent(*t)) {
      continue;
    }
    if (step->queries == 0) {
      return "mask and bias belong to queries, and q is absent";
    }
    if (const char* wrong = wrong_with(*t, 4)) {
      return wrong;
    }
    const int64_t extents[] = {1, shape.heads, step->queries, step->columns};
    if (!std::equal(extents, extents + 4, t->shape)) {
      return "mask and bias of a step are [1, H, Tq, length]";
    }
  }
  if (!is_absent(a.mask)) {
    if (!is_same(a.mask.dtype, kBool) && !is_same(a.mask.dtype, kUint8)) {
      return "a mask is bool or uint8";
    }
    step->mask = view_of<const uint8_t>(a.mask);
  }
  if (!is_absent(a.bias)) {
    const bool own = is_same(a.bias.dtype, dtype_named(shape.storage));
    if (!own && !is_same(a.bias.dtype, kF32)) {
      return "a bias is f32 or of the type of q";
    }
    step->bias = stored(a.bias, own ? shape.storage : Storage::kF32);
  }
  return nullptr;
}

qkvet_status read_window(const qkvet_cache_table& table,
                         const qkvet_cache_config& c, CacheShape* shape,
                         qkvet_text* why) {
  if (c.window < 0 || c.first_tokens < 0 || c.rollback < 0) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "window, first_tokens and rollback are not negative");
  }
  if (c.window == 0 && (c.first_tokens > 0 || c.rollback > 0)) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "first_tokens and rollback belong to a window, and there is "
                  "none");
  }
  if (c.window > 0 && (table.options & QKVET_CACHE_WINDOW) == 0) {
    return refuse(why, QKVET_UNSUPPORTED, "this cache has no sliding window");
  }
  shape->window = c.window;
  shape->first_tokens = c.first_tokens;
  shape->rollback = c.rollback;
  return QKVET_OK;
}

// [Hkv, columns], positive or 0 and finite.
const char* read_scales(const qkvet_tensor& t, int64_t kv_heads,
                        int64_t columns, View<const float>* scales) {
  if (const char* wrong = wrong_with(t, 2)) {
    return wrong;
  }
  if (!is_same(t.dtype, kF32) || t.shape[0] != kv_heads ||
      t.shape[1] != columns) {
    return "scales a channel are f32, [Hkv, d] and [Hkv, dv]";
  }
  *scales = view_of<const float>(t);
  for (int64_t head = 0; head < kv_heads; ++head) {
    for (int64_t c = 0; c < columns; ++c) {
      const float scale = *scales->at(head, c, 0);
      if (!(scale >= 0 && scale <= 0x1.fffffep127f)) {
        return "a scale is negative or not finite";
      }
    }
  }
  return nullptr;
}

// The option that a quantised storage needs.
uint64_t option_of(Codes codes, bool per_channel) {
  if (codes == Codes::kInt8) {
    return per_channel ? QKVET_CACHE_INT8_PER_CHANNEL
                       : QKVET_CACHE_INT8_PER_TOKEN;
  }
  return per_channel ? QKVET_CACHE_FP8_PER_CHANNEL : QKVET_CACHE_FP8_PER_TOKEN;
}

qkvet_status read_codes(const qkvet_cache_table& table,
                        const qkvet_cache_config& c, CacheShape* shape,
                        qkvet_text* why) {
  const bool scales_given = !is_absent(c.k_scale) || !is_absent(c.v_scale);
  if (c.stored.bits == 0) {
    return c.scales == QKVET_SCALES_NONE && !scales_given
               ? QKVET_OK
               : refuse(why, QKVET_INVALID_ARGUMENT,
                        "scales belong to quantised storage, and stored is "
                        "absent");
  }
  const bool per_channel = c.scales == QKVET_SCALES_PER_CHANNEL;
  if (!per_channel && c.scales != QKVET_SCALES_PER_TOKEN) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "quantised storage has scales, a token or a channel");
  }
  const bool is_int8 = is_same(c.stored, kInt8);
  if (!is_int8 && !is_same(c.stored, kE4m3)) {
    return refuse(why, QKVET_UNSUPPORTED,
                  "quantised storage is int8 or fp8 e4m3");
  }
  shape->codes = is_int8 ? Codes::kInt8 : Codes::kFp8;
  shape->per_channel = per_channel;
  if ((table.options & option_of(shape->codes, per_channel)) == 0) {
    return refuse(why, QKVET_UNSUPPORTED,
                  "this cache has no such quantised storage");
  }
  if (!per_channel) {
    return scales_given ? refuse(why, QKVET_INVALID_ARGUMENT,
                                 "scales a token are not given: the cache "
                                 "takes them")
                        : QKVET_OK;
  }
  const char* wrong = read_scales(c.k_scale, c.kv_heads, c.d, &shape->k_scale);
  if (wrong == nullptr) {
    wrong = read_scales(c.v_scale, c.kv_heads, c.dv, &shape->v_scale);
  }
  return wrong == nullptr ? QKVET_OK
                          : refuse(why, QKVET_INVALID_ARGUMENT, wrong);
}

// [H] f32, if present.
const char* read_heads(const qkvet_tensor& t, int64_t heads,
                       View<const float>* numbers) {
  if (is_absent(t)) {
    return nullptr;
  }
  if (const char* wrong = wrong_with(t, 1)) {
    return wrong;
  }
  if (!is_same(t.dtype, kF32) || t.shape[0] != heads) {
    return "slopes and sink of a cache are [H] f32";
  }
  *numbers = view_of<const float>(t);
  return nullptr;
}

qkvet_status read_score_options(const qkvet_cache_table& table,
                                const qkvet_cache_config& c, CacheShape* shape,
                                qkvet_text* why) {
  const struct {
    bool asked;
    uint64_t option;
    const char* reason;
  } rows[] = {
      {!is_absent(c.slopes), QKVET_CACHE_ALIBI, "this cache has no ALiBi"},
      {!is_absent(c.sink), QKVET_CACHE_SINK, "this cache has no sink"},
      {c.softcap != 0, QKVET_CACHE_SOFTCAP, "this cache has no softcap"}};
  for (const auto& row : rows) {
    if (row.asked && (table.options & row.option) == 0) {
      return refuse(why, QKVET_UNSUPPORTED, row.reason);
    }
  }
  const char* wrong = read_heads(c.slopes, c.heads, &shape->slopes);
  wrong = wrong == nullptr ? read_heads(c.sink, c.heads, &shape->sink) : wrong;
  if (wrong == nullptr && !(c.softcap >= 0)) {
    wrong = "softcap is negative or NaN";
  }
  shape->softcap = c.softcap;
  return wrong == nullptr ? QKVET_OK
                          : refuse(why, QKVET_INVALID_ARGUMENT, wrong);
}

}  // namespace

const char* read_step(const CacheShape& shape, int64_t length, int64_t position,
                      const qkvet_cache_args& a, CacheStep* step) {
  step->sequence = a.sequence;
  if (const char* wrong = read_tokens(shape, a, step)) {
    return wrong;
  }
  if (const char* wrong = read_queries(shape, a, step)) {
    return wrong;
  }
  if (step->tokens == 0 && step->queries == 0) {
    return "a step without k, v and q";
  }
  if (const char* wrong =
          read_rope(a.rope, a.rope_cos, a.rope_sin, shape.width, &step->rope)) {
    return wrong;
  }
  if (step->rope.present() && step->rope.rows < position + step->tokens) {
    return "the tables of a rotation end before the sequence does";
  }
  step->columns = length + step->tokens;
  return step->queries > step->columns ? "more queries than the sequence holds"
                                       : read_pairs(shape, a, step);
}

const char* read_rows_out(const CacheShape& shape, const qkvet_tensor& t,
                          int64_t length, int64_t columns, Stored* out) {
  if (const char* wrong =
          misfit(t, kF32, shape.kv_heads, length, columns, Empty::kAllowed)) {
    return wrong;
  }
  *out = stored(t, Storage::kF32);
  return nullptr;
}

qkvet_status read_cache_config(const qkvet_kernel* self,
                               const qkvet_cache_config* config,
                               const qkvet_exec* exec, CacheShape* shape,
                               qkvet_text* why) {
  qkvet_status status = check_exec(exec, why);
  qkvet_cache_config c = {};
  if (status == QKVET_OK) {
    status = read_struct(config, &c, why);
  }
  if (status != QKVET_OK) {
    return status;
  }
  if (c.sequences < 1 || c.heads < 1 || c.kv_heads < 1 || c.d < 1 || c.dv < 1 ||
      c.capacity < 1) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "sequences, heads, widths and capacity must be positive");
  }
  if (c.heads % c.kv_heads != 0) {
    return refuse(why, QKVET_INVALID_ARGUMENT, "kv_heads do not divide heads");
  }
  if (!storage_of(c.q, &shape->storage) || !is_same(c.kv, c.q) ||
      !is_same(c.o, c.q) || !is_declared(*self->capabilities, c.q)) {
    return refuse(why, QKVET_UNSUPPORTED,
                  "q, kv and o must be all f32, all f16 or all bf16");
  }
  shape->sequences = c.sequences;
  shape->heads = c.heads;
  shape->kv_heads = c.kv_heads;
  shape->width = c.d;
  shape->value_width = c.dv;
  shape->capacity = c.capacity;
  shape->options = self->cache->options;
  shape->scale = c.scale_given != 0 ? c.scale : default_scale(c.d);
  status = read_window(*self->cache, c, shape, why);
  if (status == QKVET_OK) {
    status = read_codes(*self->cache, c, shape, why);
  }
  return status == QKVET_OK ? read_score_options(*self->cache, c, shape, why)
                            : status;
}

}  // namespace qkvet::impl

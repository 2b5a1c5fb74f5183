// SPDX-License-Identifier: Apache-2.0
#include "impl/cache_frame.h"

#include <cstddef>
#include <memory>
#include <new>

#include "impl/plain_row.h"

namespace qkvet::impl {
namespace {

Cache* cache_of(qkvet_cache* cache) { return reinterpret_cast<Cache*>(cache); }

// NULL, or why [1, heads, rows, columns] of the cache's type is not what `t`
// is; columns < 0: a tensor of rank 3.
const char* misfit(const qkvet_tensor& t, qkvet_dtype type, int64_t heads,
                   int64_t rows, int64_t columns) {
  if (const char* wrong = wrong_with(t, columns < 0 ? 3 : 4)) {
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

const char* read_tokens(const CacheShape& shape, const qkvet_cache_args& a,
                        CacheStep* step) {
  if (is_absent(a.k) && is_absent(a.v)) {
    return nullptr;
  }
  if (is_absent(a.k) || is_absent(a.v)) {
    return "k and v are appended together: one of them is absent";
  }
  const qkvet_dtype type = dtype_named(shape.storage);
  const int64_t tokens =
      a.k.ndim == 4 && a.k.shape != nullptr ? a.k.shape[2] : 0;
  if (const char* wrong =
          misfit(a.k, type, shape.kv_heads, tokens, shape.width)) {
    return wrong;
  }
  if (const char* wrong =
          misfit(a.v, type, shape.kv_heads, tokens, shape.value_width)) {
    return wrong;
  }
  step->tokens = tokens;
  step->k = stored(a.k, shape.storage);
  step->v = stored(a.v, shape.storage);
  return nullptr;
}

const char* read_queries(const CacheShape& shape, const qkvet_cache_args& a,
                         CacheStep* step) {
  if (is_absent(a.q)) {
    return is_absent(a.o) && is_absent(a.lse)
               ? nullptr
               : "o and lse belong to queries, and q is absent";
  }
  const qkvet_dtype type = dtype_named(shape.storage);
  const int64_t queries =
      a.q.ndim == 4 && a.q.shape != nullptr ? a.q.shape[2] : 0;
  if (const char* wrong =
          misfit(a.q, type, shape.heads, queries, shape.width)) {
    return wrong;
  }
  if (const char* wrong =
          misfit(a.o, type, shape.heads, queries, shape.value_width)) {
    return wrong;
  }
  if (!is_absent(a.lse)) {
    if (const char* wrong = misfit(a.lse, kF32, shape.heads, queries, -1)) {
      return wrong;
    }
    step->lse = view_of<float>(a.lse);
  }
  step->queries = queries;
  step->q = stored(a.q, shape.storage);
  step->o = stored(a.o, shape.storage);
  return nullptr;
}

// Everything that can be wrong with a step but its size. `length`: of a
// sequence, as the caller knows it.
const char* read_step(const Cache& cache, const qkvet_cache_args& a,
                      CacheStep* step) {
  if (!cache.has(a.sequence)) {
    return "there is no such sequence";
  }
  step->sequence = a.sequence;
  if (const char* wrong = read_tokens(cache.shape(), a, step)) {
    return wrong;
  }
  if (const char* wrong = read_queries(cache.shape(), a, step)) {
    return wrong;
  }
  if (step->tokens == 0 && step->queries == 0) {
    return "a step without k, v and q";
  }
  if (const char* wrong = read_rope(a.rope, a.rope_cos, a.rope_sin,
                                    cache.shape().width, &step->rope)) {
    return wrong;
  }
  if (step->rope.present() &&
      step->rope.rows < cache.length(a.sequence) + step->tokens) {
    return "the tables of a rotation end before the sequence does";
  }
  return step->queries > cache.length(a.sequence) + step->tokens
             ? "more queries than the sequence holds"
             : nullptr;
}

void load_queries(const CacheStep& step, int64_t first_head, int64_t heads,
                  int64_t width, float* q) {
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < step.queries; ++i) {
      for (int64_t c = 0; c < width; ++c) {
        *q++ = step.q.get(0, first_head + h, i, c);
      }
    }
  }
}

void store_outputs(const CacheStep& step, int64_t first_head, int64_t heads,
                   int64_t width, const float* o) {
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < step.queries; ++i) {
      for (int64_t c = 0; c < width; ++c) {
        step.o.set(0, first_head + h, i, c, *o++);
      }
    }
  }
}

qkvet_status no_such_sequence(qkvet_text* why) {
  return refuse(why, QKVET_INVALID_ARGUMENT, "there is no such sequence");
}

}  // namespace

qkvet_status Cache::step(const qkvet_cache_args& args, qkvet_text* why) {
  CacheStep step;
  if (const char* wrong = read_step(*this, args, &step)) {
    return refuse(why, QKVET_INVALID_ARGUMENT, wrong);
  }
  const int64_t before = held(step.sequence);
  if (step.tokens > 0) {
    const qkvet_status status = append(step, before, why);
    if (status != QKVET_OK) {
      return status;
    }
  }
  if (step.queries > 0) {
    const qkvet_status status = attend(step, before + step.tokens, why);
    if (status != QKVET_OK) {
      return status;
    }
  }
  advance(step);
  return QKVET_OK;
}

qkvet_status Cache::append(const CacheStep& step, int64_t before,
                           qkvet_text* why) {
  if (const char* full = reserve(step.sequence, before + step.tokens)) {
    return refuse(why, QKVET_OUT_OF_MEMORY, full);
  }
  write(step, before);
  return QKVET_OK;
}

qkvet_status Cache::attend_rows(const ForwardCall& call,
                                qkvet_text* why) const {
  return compute_rows<PlainRow>(call, why);
}

// The queries of one group: each stands where its token does.
void Cache::turn_queries(const CacheStep& step, int64_t keys, float* q) const {
  for (int64_t row = 0; row < shape_.group() * step.queries; ++row) {
    const int64_t j = keys - step.queries + row % step.queries;
    turn_row(step.rope, position(step, keys, j), shape_.width, q);
    q += shape_.width;
  }
}

// `stored` may lie in `room` already.
Rows Cache::turned_keys(const CacheStep& step, int64_t keys, const Rows& stored,
                        float* room) const {
  for (int64_t j = 0; j < keys; ++j) {
    float* const to = room + j * shape_.width;
    for (int64_t c = 0; c < shape_.width; ++c) {
      to[c] = stored.row(j)[c * stored.step];
    }
    turn_row(step.rope, position(step, keys, j), shape_.width, to);
  }
  return {room, shape_.width, 1};
}

qkvet_status Cache::attend(const CacheStep& step, int64_t keys,
                           qkvet_text* why) const {
  const int64_t d = shape_.width, dv = shape_.value_width;
  const int64_t group = shape_.group();
  const int64_t floats = (keys + group * step.queries) * (d + dv);
  const std::unique_ptr<float[]> memory(
      new (std::nothrow) float[static_cast<size_t>(floats)]);
  if (memory == nullptr) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory to attend");
  }
  float* const q = memory.get();
  float* const o = q + group * step.queries * d;
  float* const key_room = o + group * step.queries * dv;
  float* const value_room = key_room + keys * d;
  for (int64_t head = 0; head < shape_.kv_heads; ++head) {
    load_queries(step, head * group, group, d, q);
    Rows k = this->keys(step.sequence, head, keys, key_room);
    if (step.rope.present()) {
      turn_queries(step, keys, q);
      k = stores_turned() ? k : turned_keys(step, keys, k, key_room);
    }
    const Rows v = values(step.sequence, head, keys, value_room);
    ForwardCall call;
    call.batch = call.kv_heads = 1;
    call.heads = group;
    call.queries = step.queries;
    call.keys = keys;
    call.width = d;
    call.value_width = dv;
    call.q = {q, {0, step.queries * d, d, 1}};
    call.k = {k.data, {0, 0, k.row_step, k.step}};
    call.v = {v.data, {0, 0, v.row_step, v.step}};
    call.o = {o, {0, step.queries * dv, dv, 1}};
    if (step.lse.data != nullptr) {
      call.lse = step.lse;
      call.lse.data = step.lse.at(0, head * group, 0);
    }
    call.scale = shape_.scale;
    call.causal = true;
    call.diagonal = diagonal(keys, step.queries);
    const qkvet_status status = attend_rows(call, why);
    if (status != QKVET_OK) {
      return status;
    }
    store_outputs(step, head * group, group, dv, o);
  }
  return QKVET_OK;
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
  shape->scale = c.scale_given != 0 ? c.scale : default_scale(c.d);
  return QKVET_OK;
}

void destroy_cache(const qkvet_kernel*, qkvet_cache* cache) {
  delete cache_of(cache);
}

qkvet_status step_cache(const qkvet_kernel*, qkvet_cache* cache,
                        const qkvet_cache_args* args, const qkvet_exec* exec,
                        qkvet_text* why) {
  qkvet_status status = check_exec(exec, why);
  qkvet_cache_args known = {};
  if (status == QKVET_OK) {
    status = read_struct(args, &known, why);
  }
  return status == QKVET_OK ? cache_of(cache)->step(known, why) : status;
}

qkvet_status length_of_cache(const qkvet_kernel*, qkvet_cache* cache,
                             int64_t sequence, int64_t* tokens,
                             qkvet_text* why) {
  if (!cache_of(cache)->has(sequence)) {
    return no_such_sequence(why);
  }
  *tokens = cache_of(cache)->length(sequence);
  return QKVET_OK;
}

qkvet_status reset_cache(const qkvet_kernel*, qkvet_cache* cache,
                         int64_t sequence, qkvet_text* why) {
  if (!cache_of(cache)->has(sequence)) {
    return no_such_sequence(why);
  }
  cache_of(cache)->reset(sequence);
  return QKVET_OK;
}

qkvet_status truncate_cache(const qkvet_kernel*, qkvet_cache* cache,
                            int64_t sequence, int64_t tokens, qkvet_text* why) {
  if (!cache_of(cache)->has(sequence)) {
    return no_such_sequence(why);
  }
  if (tokens < 0 || tokens > cache_of(cache)->length(sequence)) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "truncate keeps between 0 and all of the tokens there are");
  }
  cache_of(cache)->truncate(sequence, tokens);
  return QKVET_OK;
}

}  // namespace qkvet::impl

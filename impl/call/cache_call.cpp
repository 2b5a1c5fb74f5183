// SPDX-License-Identifier: Apache-2.0
#include "impl/call/cache_call.h"

#include "impl/call/call_rows.h"
#include "impl/call/forward_view.h"

namespace qkvet::impl {
namespace {

constexpr qkvet_dtype kInt8 = {QKVET_DTYPE_INT, 8, 1};
constexpr qkvet_dtype kE4m3 = {QKVET_DTYPE_FLOAT8_E4M3FN, 8, 1};

#define CONFIG(field, ...) QKVET_ROW(qkvet_cache_config, field, __VA_ARGS__)
#define STEP(field, ...) QKVET_ROW(qkvet_cache_args, field, __VA_ARGS__)
constexpr TensorRow kOfHeads[] = {
    CONFIG(slopes, "H", kTypeF32, Need::kOptional, QKVET_CACHE_ALIBI),
    CONFIG(sink, "H", kTypeF32, Need::kOptional, QKVET_CACHE_SINK)};
constexpr TensorRow kScales[] = {
    CONFIG(k_scale, "Hkv,d", kTypeF32, Need::kRequired),
    CONFIG(v_scale, "Hkv,dv", kTypeF32, Need::kRequired)};
constexpr TensorRow kNewTokens[] = {STEP(k, "1,Hkv,Tnew,d", kOfCall),
                                    STEP(v, "1,Hkv,Tnew,dv", kOfCall)};
constexpr TensorRow kStep[] = {
    STEP(q, "1,H,Tq,d", kOfCall),
    STEP(o, "1,H,Tq,dv", kOfCall),
    STEP(lse, "1,H,Tq", kTypeF32),
    STEP(rope_cos, "positions,pairs", kTypeF32),
    STEP(rope_sin, "positions,pairs", kTypeF32),
    STEP(mask, "1,H,Tq,L", kBytes, Need::kOptional, QKVET_CACHE_MASK),
    STEP(bias, "1,H,Tq,L", kF32OrOfCall, Need::kOptional, QKVET_CACHE_BIAS)};
#undef CONFIG
#undef STEP
#define QKVET_CACHE_TENSOR(field, ...)                                 \
  static_assert(                                                       \
      has_row(offsetof(qkvet_cache_config, field), kOfHeads, kScales), \
      #field " is not checked");
#define QKVET_STEP_TENSOR(field, ...)                                          \
  static_assert(has_row(offsetof(qkvet_cache_args, field), kNewTokens, kStep), \
                #field " is not checked");
#include "qkvet/tensors.def"
struct ReadBack {
  qkvet_tensor k, v;
};
constexpr TensorRow kReadBack[] = {
    QKVET_ROW(ReadBack, k, "1,Hkv,L,d", kTypeF32, Need::kRequired),
    QKVET_ROW(ReadBack, v, "1,Hkv,L,dv", kTypeF32, Need::kRequired)};

// Checks of tensors of this cache; it has one type, whatever the kernel takes.
Check check_of(const CacheShape& shape, qkvet_text* why) {
  static constexpr qkvet_capabilities kNone = {};
  Check e(kNone, why, shape.options);
  e["H"] = shape.heads;
  e["Hkv"] = shape.kv_heads;
  e["d"] = shape.width;
  e["dv"] = shape.value_width;
  e.storage = shape.storage;
  e.typed_by = "the cache";
  e.empty = Empty::kRefused;
  return e;
}

void read_window(const qkvet_cache_config& c, Check* check, CacheShape* shape) {
  check->rules(QKVET_INVALID_ARGUMENT,
               {{c.window < 0 || c.first_tokens < 0 || c.rollback < 0,
                 "window, first_tokens and rollback are not negative"},
                {c.window == 0 && (c.first_tokens > 0 || c.rollback > 0),
                 "first_tokens and rollback belong to a window, and there is "
                 "none"}});
  check->rules(QKVET_UNSUPPORTED,
               {{c.window > 0 && (shape->options & QKVET_CACHE_WINDOW) == 0,
                 "this cache has no sliding window"}});
  shape->window = c.window;
  shape->first_tokens = c.first_tokens;
  shape->rollback = c.rollback;
}

// Whether checked scales [Hkv, columns] are finite and not negative.
bool are_finite(const View<const float>& scales, int64_t kv_heads,
                int64_t columns) {
  for (int64_t head = 0; head < kv_heads; ++head) {
    for (int64_t c = 0; c < columns; ++c) {
      const float scale = *scales.at(head, c, 0);
      if (!(scale >= 0 && scale <= 0x1.fffffep127f)) {
        return false;
      }
    }
  }
  return true;
}

// The option that a quantised storage needs.
uint64_t option_of(Codes codes, bool per_channel) {
  if (codes == Codes::kInt8) {
    return per_channel ? QKVET_CACHE_INT8_PER_CHANNEL
                       : QKVET_CACHE_INT8_PER_TOKEN;
  }
  return per_channel ? QKVET_CACHE_FP8_PER_CHANNEL : QKVET_CACHE_FP8_PER_TOKEN;
}

void read_codes(const qkvet_cache_config& c, Check* check, CacheShape* shape) {
  const bool given = !is_absent(c.k_scale) || !is_absent(c.v_scale);
  const bool coded = c.stored.bits != 0, is_int8 = is_same(c.stored, kInt8);
  const bool per_channel = c.scales == QKVET_SCALES_PER_CHANNEL;
  const Codes codes = is_int8 ? Codes::kInt8 : Codes::kFp8;
  check->rules(QKVET_INVALID_ARGUMENT,
               {{!coded && (c.scales != QKVET_SCALES_NONE || given),
                 "scales belong to quantised storage, and stored is absent"},
                {coded && !per_channel && c.scales != QKVET_SCALES_PER_TOKEN,
                 "quantised storage has scales, a token or a channel"},
                {coded && !per_channel && given,
                 "scales a token are not given: the cache takes them"}});
  check->rules(QKVET_UNSUPPORTED,
               {{coded && !is_int8 && !is_same(c.stored, kE4m3),
                 "quantised storage is int8 or fp8 e4m3"},
                {coded && (shape->options & option_of(codes, per_channel)) == 0,
                 "this cache has no such quantised storage"}});
  if (!coded) {
    return;
  }
  shape->codes = codes;
  shape->per_channel = per_channel;
  if (per_channel) {
    check->rows(kScales, &c);
  }
  if (per_channel && check->ok()) {
    shape->k_scale = view_of<const float>(c.k_scale);
    shape->v_scale = view_of<const float>(c.v_scale);
    check->rules(QKVET_INVALID_ARGUMENT,
                 {{!are_finite(shape->k_scale, c.kv_heads, c.d) ||
                       !are_finite(shape->v_scale, c.kv_heads, c.dv),
                   "a scale is negative or not finite"}});
  }
}

void read_score_options(const qkvet_cache_config& c, Check* check,
                        CacheShape* shape) {
  check->rules(QKVET_UNSUPPORTED,
               {{c.softcap != 0 && (shape->options & QKVET_CACHE_SOFTCAP) == 0,
                 "softcap is not supported"}});
  check->rows(kOfHeads, &c);
  check->rules(QKVET_INVALID_ARGUMENT,
               {{!(c.softcap >= 0), "softcap is negative or NaN"}});
  if (check->ok()) {
    fill(c.slopes, &shape->slopes);
    fill(c.sink, &shape->sink);
    shape->softcap = c.softcap;
  }
}

}  // namespace

qkvet_status read_step(const CacheShape& shape, int64_t length,
                       int64_t position, const qkvet_cache_args& a,
                       CacheStep* step, qkvet_text* why) {
  const bool appends = !is_absent(a.k), attends = !is_absent(a.q);
  Check e = check_of(shape, why);
  e.rules(QKVET_INVALID_ARGUMENT,
          {{appends == is_absent(a.v),
            "k and v are appended together: one of them is absent"},
           {attends == is_absent(a.o), "q and o come together: one is absent"},
           {!attends &&
                !(is_absent(a.lse) && is_absent(a.mask) && is_absent(a.bias)),
            "lse, mask and bias belong to queries, and q is absent"},
           {!appends && !attends, "a step without k, v and q"},
           {wrong_rope(a.rope, {&a.rope_cos, &a.rope_sin}), kWrongRope}});
  e.rows(kNewTokens, &a);
  const int64_t tokens = appends ? e["Tnew"] : 0;
  e["L"] = length + tokens;
  e.rows(kStep, &a);
  e.rules(QKVET_INVALID_ARGUMENT,
          {{a.rope != QKVET_ROPE_NONE && e["positions"] < position + tokens,
            "the tables of a rotation end before the sequence does"},
           {2 * e["pairs"] > shape.width, kWideRope},
           {e["Tq"] > e["L"], "more queries than the sequence holds"}});
  if (!e.ok()) {
    return e.status;
  }
  step->sequence = a.sequence;
  step->tokens = tokens;
  step->queries = attends ? e["Tq"] : 0;
  fill(a.k, &step->k);
  fill(a.v, &step->v);
  fill(a.q, &step->q);
  fill(a.o, &step->o);
  fill(a.lse, &step->lse);
  fill_rope(a.rope, a.rope_cos, a.rope_sin, &step->rope);
  step->columns = e["L"];
  fill(a.mask, &step->mask);
  fill(a.bias, &step->bias);
  return QKVET_OK;
}

qkvet_status read_rows_out(const CacheShape& shape, int64_t length,
                           const qkvet_tensor& k, const qkvet_tensor& v,
                           Stored* k_out, Stored* v_out, qkvet_text* why) {
  const ReadBack tensors = {k, v};
  Check e = check_of(shape, why);
  e["L"] = length;
  e.empty = Empty::kAllowed;
  e.rows(kReadBack, &tensors);
  if (e.ok()) {
    fill(k, k_out);
    fill(v, v_out);
  }
  return e.status;
}

qkvet_status read_cache_config(const qkvet_kernel* self,
                               const qkvet_cache_config* config,
                               const qkvet_exec* exec, CacheShape* shape,
                               qkvet_text* why) {
  qkvet_cache_config c = {};
  const qkvet_capabilities& can = *self->capabilities;
  Check check(can, why);
  check.status = check_exec(exec, why);
  check.copy(config, &c);
  if (!check.ok()) {
    return check.status;
  }
  check.rules(QKVET_INVALID_ARGUMENT,
              {{c.sequences < 1 || c.heads < 1 || c.kv_heads < 1 || c.d < 1 ||
                    c.dv < 1 || c.capacity < 1,
                "sequences, heads, widths and capacity must be positive"},
               {c.kv_heads > 0 && c.heads % c.kv_heads != 0,
                "kv_heads do not divide heads"}});
  check.rules(QKVET_UNSUPPORTED,
              {{!storage_of(c.q, &shape->storage) || !is_same(c.kv, c.q) ||
                    !is_same(c.o, c.q) || !is_declared(can, c.q),
                "q, kv and o must be all f32, all f16 or all bf16"}});
  if (!check.ok()) {
    return check.status;
  }
  shape->sequences = c.sequences;
  shape->heads = c.heads;
  shape->kv_heads = c.kv_heads;
  shape->width = c.d;
  shape->value_width = c.dv;
  shape->capacity = c.capacity;
  shape->options = self->cache->options;
  shape->scale = c.scale_given != 0 ? c.scale : default_scale(c.d);
  Check e = check_of(*shape, why);
  read_window(c, &e, shape);
  read_codes(c, &e, shape);
  read_score_options(c, &e, shape);
  return e.status;
}

}  // namespace qkvet::impl

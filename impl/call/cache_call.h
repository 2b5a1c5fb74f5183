// SPDX-License-Identifier: Apache-2.0
// The configuration of a KV cache and its steps: the structs of cache.h,
// checked and typed.
#ifndef QKVET_IMPL_CALL_CACHE_CALL_H_
#define QKVET_IMPL_CALL_CACHE_CALL_H_

#include <cstdint>

#include "impl/call/rope.h"
#include "impl/call/tensor_view.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

// How numbers are stored.
enum class Codes : uint8_t { kAsGiven, kInt8, kFp8 };

struct CacheShape {
  int64_t sequences = 0;
  int64_t heads = 0;        // H
  int64_t kv_heads = 0;     // Hkv
  int64_t width = 0;        // d
  int64_t value_width = 0;  // dv
  int64_t capacity = 0;     // tokens a sequence
  Storage storage = Storage::kF32;
  float scale = 0;
  int64_t window = 0;  // keys that a query sees, 0: all
  int64_t first_tokens = 0;
  int64_t rollback = 0;
  Codes codes = Codes::kAsGiven;
  bool per_channel = false;   // else a scale a token; read only with codes
  View<const float> k_scale;  // [Hkv, d], per channel, only during create()
  View<const float> v_scale;  // [Hkv, dv]
  View<const float> slopes;   // [H], only during create(), no data: none
  View<const float> sink;     // [H], the same
  float softcap = 0;
  uint64_t options = 0;  // QKVET_CACHE_* that are declared

  int64_t group() const { return heads / kv_heads; }
  // The most tokens that a query sees.
  int64_t reach() const;
};

// One step; its tensors are checked.
struct CacheStep {
  int64_t sequence = 0;
  int64_t tokens = 0;   // Tnew, 0: nothing to append
  int64_t queries = 0;  // Tq, 0: nothing to attend
  Stored k;             // [1, Hkv, Tnew, d]
  Stored v;             // [1, Hkv, Tnew, dv]
  Stored q;             // [1, H, Tq, d]
  Stored o;             // [1, H, Tq, dv]
  View<float> lse;      // [1, H, Tq], no data if not requested
  Rope rope;            // without positions
  // [1, H, Tq, L], of the L tokens that are held after the step.
  View<const uint8_t> mask;  // no data if there is none
  Stored bias;               // absent if there is none
  int64_t columns = 0;       // L
};

// Fills *shape, or refuses: `self` does not support such a cache.
qkvet_status read_cache_config(const qkvet_kernel* self,
                               const qkvet_cache_config* config,
                               const qkvet_exec* exec, CacheShape* shape,
                               qkvet_text* why);

// Checks a step on a sequence of `length` tokens, except for its size and its
// window; the next token has position `position`.
qkvet_status read_step(const CacheShape& shape, int64_t length,
                       int64_t position, const qkvet_cache_args& args,
                       CacheStep* step, qkvet_text* why);

// [1, Hkv, length, d] and [1, Hkv, length, dv] in f32.
qkvet_status read_rows_out(const CacheShape& shape, int64_t length,
                           const qkvet_tensor& k, const qkvet_tensor& v,
                           Stored* k_out, Stored* v_out, qkvet_text* why);

// a + b, or the largest possible number.
constexpr int64_t add_up_to_most(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

inline int64_t CacheShape::reach() const {
  return window == 0 ? INT64_MAX : add_up_to_most(first_tokens, window);
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CALL_CACHE_CALL_H_

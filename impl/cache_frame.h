// SPDX-License-Identifier: Apache-2.0
// The frame of every KV cache here: checks a call, keeps the lengths of the
// sequences, and attends over what a storage holds. A cache is a class; what it
// may replace are the virtual functions, its seams:
//
//   reserve         room for so many tokens             a storage has these
//   four write           the tokens of a step to the end keys, values    one
//   head as rows of f32, where they lie or gathered attend_rows     the
//   arithmetic                      a control may have this the others
//   bookkeeping                         faults replace one
//
// A step writes its tokens behind the end of the sequence, attends over them
// too, and counts them last, when nothing can fail any more: a step that is
// refused leaves the cache as it was. What lies behind the end of a sequence is
// never read, so that reset and truncate are changes of a length.
//
// Contract: any strides; f32, f16 or bf16 throughout, f32 arithmetic, o rounded
// once; lse f32. INVALID_ARGUMENT or OUT_OF_MEMORY as cache.h lists them; empty
// extents are refused. Cost: 2 (d + dv) flops a visible pair; memory a step
// (L + group * Tq) (d + dv) floats.
#ifndef QKVET_IMPL_CACHE_FRAME_H_
#define QKVET_IMPL_CACHE_FRAME_H_

#include <cstdint>
#include <exception>
#include <vector>

#include "impl/declare.h"
#include "impl/forward_view.h"
#include "impl/row_frame.h"
#include "impl/tensor_view.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

struct CacheShape {
  int64_t sequences = 0;
  int64_t heads = 0;        // H
  int64_t kv_heads = 0;     // Hkv
  int64_t width = 0;        // d
  int64_t value_width = 0;  // dv
  int64_t capacity = 0;     // tokens a sequence
  Storage storage = Storage::kF32;
  float scale = 0;

  int64_t group() const { return heads / kv_heads; }
};

// One step whose tensors are known to fit.
struct CacheStep {
  int64_t sequence = 0;
  int64_t tokens = 0;   // Tnew, 0: nothing to append
  int64_t queries = 0;  // Tq, 0: nothing to attend
  Stored k;             // [1, Hkv, Tnew, d]
  Stored v;             // [1, Hkv, Tnew, dv]
  Stored q;             // [1, H, Tq, d]
  Stored o;             // [1, H, Tq, dv]
  View<float> lse;      // [1, H, Tq], no data if not asked for
  Rope rope;            // without positions
};

class Cache {
 public:
  // Throws where there is no memory.
  explicit Cache(const CacheShape& shape)
      : shape_(shape), lengths_(static_cast<size_t>(shape.sequences)) {}
  virtual ~Cache() = default;
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  const CacheShape& shape() const { return shape_; }
  bool has(int64_t sequence) const {
    return 0 <= sequence && sequence < shape_.sequences;
  }

  qkvet_status step(const qkvet_cache_args& args, qkvet_text* why);

  // What the caller is told.
  virtual int64_t length(int64_t sequence) const { return held(sequence); }
  virtual void reset(int64_t sequence) { set_held(sequence, 0); }
  virtual void truncate(int64_t sequence, int64_t tokens) {
    set_held(sequence, tokens);
  }

 protected:
  // Room for the first `tokens` tokens of a sequence; NULL, or why there is
  // none. What it holds stays.
  virtual const char* reserve(int64_t sequence, int64_t tokens) = 0;
  // Stores the tokens of a step behind the `before` ones that are held.
  virtual void write(const CacheStep& step, int64_t before) = 0;
  // The first n keys or values of a head, as rows of f32; `room` is for those
  // that have to be converted or gathered: [n, d] or [n, dv].
  virtual Rows keys(int64_t sequence, int64_t head, int64_t n,
                    float* room) const = 0;
  virtual Rows values(int64_t sequence, int64_t head, int64_t n,
                      float* room) const = 0;

  // Query heads of one key/value head, all f32.
  virtual qkvet_status attend_rows(const ForwardCall& call,
                                   qkvet_text* why) const;

  virtual qkvet_status append(const CacheStep& step, int64_t before,
                              qkvet_text* why);
  virtual void advance(const CacheStep& step) {
    set_held(step.sequence, held(step.sequence) + step.tokens);
  }
  // Row i of `queries` sees the keys j <= i + diagonal.
  virtual int64_t diagonal(int64_t keys, int64_t queries) const {
    return keys - queries;
  }
  // Where token j of a sequence stands, for its rotation. Keys are stored as
  // they came and turned when they are read.
  virtual int64_t position(const CacheStep&, int64_t /*keys*/,
                           int64_t j) const {
    return j;
  }
  // Whether stored keys are turned already.
  virtual bool stores_turned() const { return false; }
  // Which length is that of a sequence.
  virtual int64_t counter(int64_t sequence) const { return sequence; }

  // Tokens in memory, as every step finds them.
  int64_t held(int64_t sequence) const {
    return lengths_[static_cast<size_t>(counter(sequence))];
  }
  void set_held(int64_t sequence, int64_t tokens) {
    lengths_[static_cast<size_t>(counter(sequence))] = tokens;
  }

 private:
  qkvet_status attend(const CacheStep& step, int64_t keys,
                      qkvet_text* why) const;
  void turn_queries(const CacheStep& step, int64_t keys, float* q) const;
  Rows turned_keys(const CacheStep& step, int64_t keys, const Rows& stored,
                   float* room) const;

  CacheShape shape_;
  std::vector<int64_t> lengths_;
};

// *shape, or why `self` keeps no such cache.
qkvet_status read_cache_config(const qkvet_kernel* self,
                               const qkvet_cache_config* config,
                               const qkvet_exec* exec, CacheShape* shape,
                               qkvet_text* why);

// The table's functions that are the same for every class. A qkvet_cache is a
// Cache under another name.
void destroy_cache(const qkvet_kernel*, qkvet_cache* cache);
qkvet_status step_cache(const qkvet_kernel*, qkvet_cache* cache,
                        const qkvet_cache_args* args, const qkvet_exec* exec,
                        qkvet_text* why);
qkvet_status length_of_cache(const qkvet_kernel*, qkvet_cache* cache,
                             int64_t sequence, int64_t* tokens,
                             qkvet_text* why);
qkvet_status reset_cache(const qkvet_kernel*, qkvet_cache* cache,
                         int64_t sequence, qkvet_text* why);
qkvet_status truncate_cache(const qkvet_kernel*, qkvet_cache* cache,
                            int64_t sequence, int64_t tokens, qkvet_text* why);

template <class C>
qkvet_status create_cache(const qkvet_kernel* self, qkvet_context*,
                          const qkvet_cache_config* config,
                          const qkvet_exec* exec, qkvet_cache** cache,
                          qkvet_text* why) {
  CacheShape shape;
  const qkvet_status status =
      read_cache_config(self, config, exec, &shape, why);
  if (status != QKVET_OK) {
    return status;
  }
  try {
    Cache* const made = new C(shape);
    *cache = reinterpret_cast<qkvet_cache*>(made);
  } catch (const std::exception&) {  // bad_alloc, or more than a vector holds
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the cache");
  }
  return QKVET_OK;
}

template <class C, uint64_t kOptions = QKVET_CACHE_ROPE>
inline constexpr qkvet_cache_table kCacheTable = {
    .struct_size = sizeof(qkvet_cache_table),
    .options = kOptions,
    .create = create_cache<C>,
    .destroy = destroy_cache,
    .step = step_cache,
    .length = length_of_cache,
    .reset = reset_cache,
    .truncate = truncate_cache,
};

// A step stands at the end of its sequence: causal from the bottom right, with
// Tq != Tk.
inline constexpr qkvet_capabilities kCacheCapabilities = capabilities_with(
    kCommonOptions & ~QKVET_OPTION_CAUSAL_TOP_LEFT, {kF32, kF16, kBf16});
inline constexpr qkvet_precision kCachePrecision = sequential_f32();

// A kernel that is a cache and nothing else.
constexpr qkvet_kernel cache_kernel(
    const char* name, const char* description, Place place,
    const qkvet_cache_table* table,
    const qkvet_precision* precision = &kCachePrecision) {
  qkvet_kernel kernel = plain_kernel(name, description, place, precision,
                                     nullptr, &kCacheCapabilities);
  kernel.supports = nullptr;
  kernel.cache = table;
  return kernel;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CACHE_FRAME_H_

// SPDX-License-Identifier: Apache-2.0
// A KV cache in f32: keys and values of several sequences, each in memory of
// its own that grows token by token. qkvet/cache.h is the manual.
#include <cmath>
#include <cstddef>
#include <vector>

#include "qkvet/adapter.h"

// ---- Memory and arithmetic: yours to replace -------------------------------

struct qkvet_cache {
  struct Sequence {
    int64_t tokens = 0;
    std::vector<float> k;  // [tokens, Hkv, d]
    std::vector<float> v;  // [tokens, Hkv, dv]

    // Keeps the first `count` tokens.
    void cut(int64_t count, int64_t row_k, int64_t row_v) {
      tokens = count;
      k.resize(count * row_k);
      v.resize(count * row_v);
    }
  };
  int64_t H, Hkv, d, dv, capacity;
  float scale;
  std::vector<Sequence> sequences;

  bool has(int64_t sequence) const {
    return sequence >= 0 && sequence < static_cast<int64_t>(sequences.size());
  }
};

namespace {

using Sequence = qkvet_cache::Sequence;

float& at(const qkvet_tensor& tensor, int64_t h, int64_t t, int64_t c = 0) {
  return *static_cast<float*>(qkvet_element(&tensor, 0, h, t, c));
}

void append(const qkvet_cache& cache, Sequence& s, const qkvet_cache_args& a) {
  for (int64_t t = 0; t < a.k.shape[2]; ++t, ++s.tokens)
    for (int64_t h = 0; h < cache.Hkv; ++h) {
      for (int64_t c = 0; c < cache.d; ++c) s.k.push_back(at(a.k, h, t, c));
      for (int64_t c = 0; c < cache.dv; ++c) s.v.push_back(at(a.v, h, t, c));
    }
}

// Row i of the step over the first `seen` tokens of the sequence.
void attend_row(const qkvet_cache& cache, const Sequence& s,
                const qkvet_cache_args& a, int64_t h, int64_t i, int64_t seen) {
  const int64_t g = h / (cache.H / cache.Hkv);
  std::vector<float> p(seen);
  float max = -INFINITY, sum = 0;
  for (int64_t j = 0; j < seen; ++j) {
    const float* key = &s.k[(j * cache.Hkv + g) * cache.d];
    for (int64_t c = 0; c < cache.d; ++c) p[j] += at(a.q, h, i, c) * key[c];
    p[j] *= cache.scale;
    max = std::fmax(max, p[j]);
  }
  for (float& weight : p) sum += weight = std::exp(weight - max);
  for (int64_t c = 0; c < cache.dv; ++c) {
    float value = 0;
    for (int64_t j = 0; j < seen; ++j)
      value += p[j] / sum * s.v[(j * cache.Hkv + g) * cache.dv + c];
    at(a.o, h, i, c) = value;
  }
  if (a.lse.ndim != 0) at(a.lse, h, i) = max + std::log(sum);
}

// The rows of a step stand at the last positions of the sequence.
void attend(const qkvet_cache& cache, const Sequence& s,
            const qkvet_cache_args& a) {
  const int64_t Tq = a.q.shape[2];
  for (int64_t h = 0; h < cache.H; ++h)
    for (int64_t i = 0; i < Tq; ++i)
      attend_row(cache, s, a, h, i, s.tokens - Tq + i + 1);
}

// ---- The functions of the table --------------------------------------------

qkvet_status no(qkvet_text* why, const char* reason,
                qkvet_status status = QKVET_INVALID_ARGUMENT) {
  return qkvet_refuse(why, status, reason);
}

bool is_f32(qkvet_dtype dtype) {
  return dtype.code == QKVET_DTYPE_FLOAT && dtype.bits == 32;
}

qkvet_status create(const qkvet_kernel*, qkvet_context*,
                    const qkvet_cache_config* given, const qkvet_exec*,
                    qkvet_cache** cache, qkvet_text* why) {
  qkvet_cache_config config;
  bool more = !qkvet_read_struct(&config, sizeof config, given) ||
              config.window != 0 || config.stored.bits != 0 ||
              config.scales != QKVET_SCALES_NONE || config.softcap != 0;
#define QKVET_CACHE_TENSOR(field, ...) more |= config.field.ndim != 0;
#include "qkvet/tensors.def"
  if (more)
    return no(why, "no windows, codes, ALiBi, sinks and softcaps",
              QKVET_UNSUPPORTED);
  if (!is_f32(config.q) || !is_f32(config.kv) || !is_f32(config.o))
    return no(why, "only f32 is supported", QKVET_UNSUPPORTED);
  const float scale = config.scale_given
                          ? config.scale
                          : 1 / std::sqrt(static_cast<float>(config.d));
  *cache =
      new qkvet_cache{config.heads,    config.kv_heads, config.d, config.dv,
                      config.capacity, scale,           {}};
  (*cache)->sequences.resize(config.sequences);
  return QKVET_OK;
}

void destroy(const qkvet_kernel*, qkvet_cache* cache) { delete cache; }

// Whether `t` is f32 [1, heads, rows, width]; width < 0: of rank 3.
bool fits(const qkvet_tensor& t, int64_t heads, int64_t rows, int64_t width) {
  return t.ndim == (width < 0 ? 3 : 4) && is_f32(t.dtype) && t.shape[0] == 1 &&
         t.shape[1] == heads && t.shape[2] == rows &&
         (width < 0 || t.shape[3] == width);
}

// A step that is refused leaves the cache as it was: everything is looked at
// before anything is done.
qkvet_status step(const qkvet_kernel*, qkvet_cache* cache,
                  const qkvet_cache_args* args, const qkvet_exec*,
                  qkvet_text* why) {
  qkvet_cache_args a;
  if (!qkvet_read_struct(&a, sizeof a, args) || a.rope != QKVET_ROPE_NONE ||
      a.rope_cos.ndim != 0 || a.rope_sin.ndim != 0 || a.mask.ndim != 0 ||
      a.bias.ndim != 0)
    return no(why, "no rotations, masks and biases", QKVET_UNSUPPORTED);
  if (!cache->has(a.sequence)) return no(why, "there is no such sequence");
  Sequence& s = cache->sequences[a.sequence];
  const bool appends = a.k.ndim != 0, attends = a.q.ndim != 0;
  if (appends != (a.v.ndim != 0)) return no(why, "one of k and v is absent");
  if (!appends && !attends) return no(why, "a step without k, v and q");
  const int64_t added = a.k.ndim == 4 ? a.k.shape[2] : 0;
  const int64_t Tq = a.q.ndim == 4 ? a.q.shape[2] : 0;
  if (appends && (!fits(a.k, cache->Hkv, added, cache->d) ||
                  !fits(a.v, cache->Hkv, added, cache->dv)))
    return no(why, "k or v is not what the cache was made for");
  if (attends &&
      (!fits(a.q, cache->H, Tq, cache->d) ||
       !fits(a.o, cache->H, Tq, cache->dv) ||
       (a.lse.ndim != 0 && !fits(a.lse, cache->H, Tq, /*width=*/-1))))
    return no(why, "q, o or lse is not what the cache was made for");
  if (s.tokens + added > cache->capacity)
    return no(why, "the sequence is full", QKVET_OUT_OF_MEMORY);
  if (Tq > s.tokens + added)
    return no(why, "more queries than the sequence holds");
  if (appends) append(*cache, s, a);
  if (attends) attend(*cache, s, a);
  return QKVET_OK;
}

qkvet_status length(const qkvet_kernel*, qkvet_cache* cache, int64_t sequence,
                    int64_t* tokens, qkvet_text* why) {
  if (!cache->has(sequence)) return no(why, "there is no such sequence");
  *tokens = cache->sequences[sequence].tokens;
  return QKVET_OK;
}

qkvet_status truncate(const qkvet_kernel*, qkvet_cache* cache, int64_t sequence,
                      int64_t tokens, qkvet_text* why) {
  if (!cache->has(sequence)) return no(why, "there is no such sequence");
  Sequence& s = cache->sequences[sequence];
  if (tokens < 0 || tokens > s.tokens)
    return no(why, "the sequence does not hold so many tokens");
  s.cut(tokens, cache->Hkv * cache->d, cache->Hkv * cache->dv);
  return QKVET_OK;
}

qkvet_status reset(const qkvet_kernel* self, qkvet_cache* cache,
                   int64_t sequence, qkvet_text* why) {
  return truncate(self, cache, sequence, 0, why);
}

// ---- What the library says of itself ---------------------------------------

const qkvet_cache_table kTable = {sizeof(qkvet_cache_table),
                                  /*options=*/0,
                                  create,
                                  destroy,
                                  step,
                                  length,
                                  reset,
                                  truncate,
                                  /*fork=*/nullptr,
                                  /*reorder=*/nullptr,
                                  /*read_back=*/nullptr,
                                  /*memory=*/nullptr,
                                  /*evict=*/nullptr};

const qkvet_capabilities kCapabilities = [] {
  qkvet_capabilities c{};
  c.struct_size = sizeof c;
  c.options = QKVET_OPTION_SCALE | QKVET_OPTION_DEFAULT_SCALE |
              QKVET_OPTION_LSE | QKVET_OPTION_GROUPED_HEADS |
              QKVET_OPTION_VALUE_WIDTH;
  c.flags = QKVET_FLAG_ALLOCATES;
  return c;
}();

const qkvet_dialect kDialect = [] {
  qkvet_dialect dialect{};
  dialect.struct_size = sizeof dialect;
  dialect.lse_base = QKVET_LSE_NATURAL;
  return dialect;
}();

const qkvet_kernel kKernel = [] {
  qkvet_kernel kernel{};
  kernel.struct_size = sizeof kernel;
  kernel.name = "mine/cache";
  kernel.description = "a KV cache in f32, token by token";
  kernel.source_file = __FILE__;
  kernel.source_line = __LINE__;
  kernel.capabilities = &kCapabilities;
  kernel.dialect = &kDialect;
  kernel.cache = &kTable;
  return kernel;
}();

const qkvet_kernel* const kKernels[] = {&kKernel};

}  // namespace

extern "C" qkvet_status qkvet_open(const qkvet_host* host, const char* config,
                                   qkvet_library* out, qkvet_text* why) {
  return qkvet_open_kernels(host, config, out, why, "mine", kKernels, 1);
}

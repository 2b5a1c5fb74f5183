// SPDX-License-Identifier: Apache-2.0
// Kernels without forward(), for the tests of the door and the sandbox: a small
// correct cache, a small correct layer, and variants that misbehave in one way
// each. The library's config names what is wrong with its tables.
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "core/testdata/tables_layer.h"
#include "qkvet/kernel.h"

struct qkvet_cache {
  qkvet_cache_config config;
  struct Sequence {
    std::vector<float> k;  // token by token: [Hkv, d]
    std::vector<float> v;  // [Hkv, dv]
    int64_t tokens = 0;
  };
  std::vector<Sequence> sequences;
  int64_t form = 0;
};

namespace {

// What the caller wants of the cache, digit by digit: the window, the first
// tokens, the rollback, the type's bits, whose scales; and the last of each.
int64_t form_number(const qkvet_cache_config& c) {
  int64_t number = c.window;
  for (const int64_t digit :
       {c.first_tokens, c.rollback, int64_t{c.stored.bits}, int64_t{c.scales}})
    number = 10 * number + digit;
  if (c.k_scale.ndim == 0) return number;
  return 100 * number +
         static_cast<int64_t>(10 * at(c.k_scale, {c.kv_heads - 1, c.d - 1}) +
                              at(c.v_scale, {c.kv_heads - 1, c.dv - 1}));
}

qkvet_status create(const qkvet_kernel* self, qkvet_context*,
                    const qkvet_cache_config* config, const qkvet_exec*,
                    qkvet_cache** cache, qkvet_text* why) {
  if (is(self, "tables/create_crash")) crash();
  if (is(self, "tables/no_create"))
    return no(self, why, "keeps no such cache", QKVET_UNSUPPORTED);
  if (is(self, "tables/null_cache")) return QKVET_OK;
  if (is(self, "tables/late_crash"))
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      crash();
    }).detach();
  *cache = new qkvet_cache{*config, {}};
  (*cache)->sequences.resize(static_cast<size_t>(config->sequences));
  (*cache)->form = form_number(*config);
  return QKVET_OK;
}

void destroy(const qkvet_kernel* self, qkvet_cache* cache) {
  if (is(self, "tables/destroy_crash")) crash();
  delete cache;
}

bool has_shape(const qkvet_tensor& t, int64_t heads, int64_t width) {
  return t.ndim == 4 && t.shape[0] == 1 && t.shape[1] == heads &&
         t.shape[3] == width;
}

// "" or what is wrong with the step.
std::string bad_step(const qkvet_cache* cache, const qkvet_cache_args* a) {
  const qkvet_cache_config& c = cache->config;
  const bool k = a->k.ndim > 0;
  const bool q = a->q.ndim > 0;
  if (a->sequence < 0 || a->sequence >= c.sequences) return "no such sequence";
  if (k != (a->v.ndim > 0)) return "k and v come together";
  if (!k && !q) return "a step without k, v and q";
  if (k &&
      (!has_shape(a->k, c.kv_heads, c.d) || !has_shape(a->v, c.kv_heads, c.dv)))
    return "k or v has another shape";
  if (q && (!has_shape(a->q, c.heads, c.d) || !has_shape(a->o, c.heads, c.dv)))
    return "q or o has another shape";
  const int64_t tokens =
      cache->sequences[static_cast<size_t>(a->sequence)].tokens +
      (k ? a->k.shape[2] : 0);
  if (tokens > c.capacity) return "full";
  return q && a->q.shape[2] > tokens ? "more queries than tokens" : "";
}

void append(const qkvet_cache_config& c, const qkvet_cache_args* a,
            qkvet_cache::Sequence* s) {
  for (int64_t t = 0; t < a->k.shape[2]; ++t, ++s->tokens)
    for (int64_t h = 0; h < c.kv_heads; ++h) {
      for (int64_t i = 0; i < c.d; ++i) s->k.push_back(at(a->k, {0, h, t, i}));
      for (int64_t i = 0; i < c.dv; ++i) s->v.push_back(at(a->v, {0, h, t, i}));
    }
}

void answer(const qkvet_cache_config& c, const qkvet_cache_args* a,
            const qkvet_cache::Sequence& s) {
  const float scale = c.scale_given ? c.scale : 1 / std::sqrt(float(c.d));
  for (int64_t h = 0; h < c.heads; ++h)
    for (int64_t i = 0; i < a->q.shape[2]; ++i) {
      const int64_t head = h / (c.heads / c.kv_heads);
      const auto score = [&](int64_t j) {
        float dot = 0;
        for (int64_t x = 0; x < c.d; ++x)
          dot += at(a->q, {0, h, i, x}) *
                 s.k[size_t((j * c.kv_heads + head) * c.d + x)];
        return scale * dot;
      };
      const auto value = [&](int64_t j, int64_t x) {
        return s.v[size_t((j * c.kv_heads + head) * c.dv + x)];
      };
      const int64_t keys = s.tokens - a->q.shape[2] + i + 1;
      for (int64_t x = 0; x < c.dv; ++x)
        at(a->o, {0, h, i, x}) = attend(keys, x, score, value);
      if (a->lse.ndim > 0) at(a->lse, {0, h, i}) = score(keys - 1);
    }
}

qkvet_status step(const qkvet_kernel* self, qkvet_cache* cache,
                  const qkvet_cache_args* a, const qkvet_exec*,
                  qkvet_text* why) {
  if (is(self, "tables/step_crash") && a->k.ndim == 0) crash();
  if (is(self, "tables/step_hang") && a->k.ndim == 0)
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  const std::string bad = bad_step(cache, a);
  if (bad == "full")
    return no(self, why, "the sequence is full", QKVET_OUT_OF_MEMORY);
  if (!bad.empty()) return no(self, why, bad.c_str());
  auto& sequence = cache->sequences[static_cast<size_t>(a->sequence)];
  if (a->k.ndim > 0) append(cache->config, a, &sequence);
  if (a->q.ndim > 0) answer(cache->config, a, sequence);
  if (is(self, "tables/past_o") && a->o.ndim > 0) {
    const int64_t* n = a->o.shape;
    static_cast<float*>(a->o.data)[n[0] * n[1] * n[2] * n[3]] = 3;
  }
  return QKVET_OK;
}

qkvet_status length(const qkvet_kernel* self, qkvet_cache* cache,
                    int64_t sequence, int64_t* tokens, qkvet_text* why) {
  if (is(self, "tables/length_crash")) crash();
  if (is(self, "tables/no_length")) return no(self, why, "lost count");
  if (is(self, "tables/form")) {
    *tokens = cache->form;
    return QKVET_OK;
  }
  *tokens = cache->sequences[static_cast<size_t>(sequence)].tokens;
  if (is(self, "tables/wrong_length")) *tokens += 1;
  return QKVET_OK;
}

void cut(qkvet_cache* cache, int64_t number, int64_t tokens) {
  auto& s = cache->sequences[static_cast<size_t>(number)];
  const qkvet_cache_config& c = cache->config;
  s.tokens = tokens;
  s.k.resize(static_cast<size_t>(tokens * c.kv_heads * c.d));
  s.v.resize(static_cast<size_t>(tokens * c.kv_heads * c.dv));
}

qkvet_status reset(const qkvet_kernel* self, qkvet_cache* cache,
                   int64_t sequence, qkvet_text* why) {
  if (is(self, "tables/reset_crash")) crash();
  if (sequence < 0 || sequence >= cache->config.sequences)
    return no(self, why, "no such sequence");
  cut(cache, sequence, 0);
  return QKVET_OK;
}

qkvet_status truncate(const qkvet_kernel* self, qkvet_cache* cache,
                      int64_t sequence, int64_t tokens, qkvet_text* why) {
  if (is(self, "tables/truncate_crash")) crash();
  const auto& s = cache->sequences[static_cast<size_t>(sequence)];
  if (tokens < 0 || tokens > s.tokens)
    return no(self, why, "not so many tokens");
  cut(cache, sequence, tokens);
  return QKVET_OK;
}

qkvet_status evict(const qkvet_kernel* self, qkvet_cache* cache,
                   int64_t sequence, int64_t first, int64_t tokens,
                   qkvet_text* why) {
  if (is(self, "tables/evict_crash")) crash();
  auto& s = cache->sequences[static_cast<size_t>(sequence)];
  if (first < 0 || tokens < 1 || first + tokens > s.tokens)
    return no(self, why, "no such tokens");
  const qkvet_cache_config& c = cache->config;
  const auto drop = [&](std::vector<float>& rows, int64_t width) {
    const auto from = rows.begin() + first * c.kv_heads * width;
    rows.erase(from, from + tokens * c.kv_heads * width);
  };
  drop(s.k, c.d);
  drop(s.v, c.dv);
  s.tokens -= tokens;
  return QKVET_OK;
}

bool there(const qkvet_cache* cache, int64_t sequence) {
  return 0 <= sequence && sequence < cache->config.sequences;
}

qkvet_status fork(const qkvet_kernel* self, qkvet_cache* cache, int64_t from,
                  int64_t to, qkvet_text* why) {
  if (is(self, "tables/fork_crash")) crash();
  if (!there(cache, from) || !there(cache, to))
    return no(self, why, "no such sequence");
  cache->sequences[static_cast<size_t>(to)] =
      cache->sequences[static_cast<size_t>(from)];
  return QKVET_OK;
}

qkvet_status reorder(const qkvet_kernel* self, qkvet_cache* cache,
                     const int64_t* parents, qkvet_text* why) {
  if (is(self, "tables/reorder_crash")) crash();
  const auto before = cache->sequences;
  for (size_t s = 0; s < before.size(); ++s)
    if (!there(cache, parents[s])) return no(self, why, "no such parent");
  for (size_t s = 0; s < before.size(); ++s)
    cache->sequences[s] = before[static_cast<size_t>(parents[s])];
  return QKVET_OK;
}

qkvet_status read_back(const qkvet_kernel* self, qkvet_cache* cache,
                       int64_t sequence, const qkvet_tensor* k,
                       const qkvet_tensor* v, qkvet_text* why) {
  if (is(self, "tables/read_back_crash")) crash();
  if (!there(cache, sequence)) return no(self, why, "no such sequence");
  const qkvet_cache_config& c = cache->config;
  const auto& s = cache->sequences[static_cast<size_t>(sequence)];
  if (!has_shape(*k, c.kv_heads, c.d) || k->shape[2] != s.tokens)
    return no(self, why, "k has another shape");
  for (int64_t t = 0; t < s.tokens; ++t)
    for (int64_t h = 0; h < c.kv_heads; ++h) {
      for (int64_t i = 0; i < c.d; ++i)
        at(*k, {0, h, t, i}) = s.k[size_t((t * c.kv_heads + h) * c.d + i)];
      for (int64_t i = 0; i < c.dv; ++i)
        at(*v, {0, h, t, i}) = s.v[size_t((t * c.kv_heads + h) * c.dv + i)];
    }
  return QKVET_OK;
}

// What the tokens take; without the capacity, which nothing is kept for.
qkvet_status memory(const qkvet_kernel* self, qkvet_cache* cache,
                    int64_t* bytes, qkvet_text* why) {
  if (is(self, "tables/memory_crash")) crash();
  if (is(self, "tables/no_memory")) return no(self, why, "lost count");
  size_t floats = 0;
  for (const auto& s : cache->sequences) floats += s.k.size() + s.v.size();
  *bytes = static_cast<int64_t>(floats * sizeof(float));
  if (is(self, "tables/wrong_memory")) *bytes = -1 - *bytes;
  return QKVET_OK;
}

const char* const kNames[] = {"tables/cache",
                              "tables/silent",
                              "tables/past_o",
                              "tables/wrong_length",
                              "tables/no_length",
                              "tables/no_truncate",
                              "tables/no_memory",
                              "tables/wrong_memory",
                              "tables/memory_crash",
                              "tables/late_crash",
                              "tables/no_create",
                              "tables/null_cache",
                              "tables/create_crash",
                              "tables/destroy_crash",
                              "tables/step_crash",
                              "tables/length_crash",
                              "tables/reset_crash",
                              "tables/truncate_crash",
                              "tables/evict_crash",
                              "tables/fork_crash",
                              "tables/reorder_crash",
                              "tables/read_back_crash",
                              "tables/form",
                              "tables/step_hang",
                              "tables/layer",
                              "tables/layer_crash",
                              "tables/layer_unsupported",
                              "tables/layer_threads",
                              "tables/layer_writes_w_q"};
constexpr int kCount = sizeof kNames / sizeof kNames[0];

qkvet_kernel g_kernels[kCount];
const qkvet_kernel* g_list[kCount];
qkvet_capabilities g_capabilities;
qkvet_cache_table g_cache;
qkvet_cache_table g_uncut;
qkvet_layer_table g_layer;

void declare() {
  g_capabilities.struct_size = sizeof g_capabilities;
  g_capabilities.options = QKVET_OPTION_SCALE | QKVET_OPTION_DEFAULT_SCALE |
                           QKVET_OPTION_GROUPED_HEADS |
                           QKVET_OPTION_VALUE_WIDTH | QKVET_OPTION_LSE |
                           QKVET_OPTION_CAUSAL_TOP_LEFT;
  g_cache = {};
  g_cache.struct_size = sizeof g_cache;
  g_cache.options = QKVET_CACHE_WINDOW | QKVET_CACHE_INT8_PER_CHANNEL;
  g_cache.create = create;
  g_cache.destroy = destroy;
  g_cache.step = step;
  g_cache.length = length;
  g_cache.reset = reset;
  g_uncut = g_cache;  // what a cache need not offer
  g_cache.truncate = truncate;
  g_cache.evict = evict;
  g_cache.fork = fork;
  g_cache.reorder = reorder;
  g_cache.read_back = read_back;
  g_cache.memory = memory;
  g_layer = {};
  g_layer.struct_size = sizeof g_layer;
  g_layer.options = QKVET_LAYER_BIASES | QKVET_LAYER_STAGES |
                    QKVET_LAYER_UNBATCHED | QKVET_LAYER_FUSED_QKV |
                    QKVET_LAYER_FUSED_VQK | QKVET_LAYER_MASK_BUFFER;
  g_layer.forward = layer_forward;
  for (int i = 0; i < kCount; ++i) {
    qkvet_kernel& kernel = g_kernels[i];
    kernel = {};
    kernel.struct_size = sizeof kernel;
    kernel.name = kNames[i];
    kernel.capabilities = &g_capabilities;
    if (std::strncmp(kNames[i], "tables/layer", 12) == 0)
      kernel.layer = &g_layer;
    else
      kernel.cache = is(&kernel, "tables/no_truncate") ? &g_uncut : &g_cache;
    g_list[i] = &kernel;
  }
}

void spoil(const std::string& config) {
  if (config == "nothing") g_kernels[0].cache = nullptr;
  if (config == "zero_cache") g_cache.struct_size = 0;
  if (config == "short_cache")
    g_cache.struct_size = offsetof(qkvet_cache_table, reset);
  if (config == "no_step") g_cache.step = nullptr;
  if (config == "zero_layer") g_layer.struct_size = 0;
  if (config == "no_layer_forward") g_layer.forward = nullptr;
  if (config == "int_stage") g_layer.stage = {QKVET_DTYPE_INT, 8, 1};
  if (config == "f16_stage") g_layer.stage = {QKVET_DTYPE_FLOAT, 16, 1};
}

}  // namespace

extern "C" qkvet_status qkvet_open(const qkvet_host* host, const char* config,
                                   qkvet_library* out, qkvet_text*) {
  g_host = host;
  declare();
  spoil(config);
  out->abi_major = QKVET_ABI_MAJOR;
  out->abi_minor = QKVET_ABI_MINOR;
  out->name = "tables";
  out->kernel_count = kCount;
  out->kernels = g_list;
  return QKVET_OK;
}

// SPDX-License-Identifier: Apache-2.0
// Kernels without forward(), for the tests of the door and the sandbox: a small
// correct cache, and variants that misbehave in one way each. The library's
// config names what is wrong with its tables.
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <thread>

#include "core/testdata/library.h"

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

float& at(const qkvet_tensor& t, std::initializer_list<int64_t> index) {
  int64_t offset = 0;
  int i = 0;
  for (const int64_t n : index) offset += n * t.strides[i++];
  return data_of<float>(t)[offset];
}

[[noreturn]] void crash() {
  *reinterpret_cast<volatile int*>(uintptr_t{16}) = 1;
  std::abort();
}

// The kernel "<function>_crash" ends in that function.
void enter(const qkvet_kernel* self, const std::string& function) {
  if (is(self, function + "_crash")) crash();
}

qkvet_status no(const qkvet_kernel* self, qkvet_text* why,
                const std::string& text,
                qkvet_status status = QKVET_INVALID_ARGUMENT) {
  return is(self, "silent") ? status : say(why, status, text);
}

// sum of softmax(scores) * values, for one row; score(j), value(j, c).
template <class Score, class Value>
float attend(int64_t keys, int64_t c, Score score, Value value) {
  float top = -INFINITY;
  for (int64_t j = 0; j < keys; ++j) top = std::fmax(top, score(j));
  float sum = 0;
  float weighted = 0;
  for (int64_t j = 0; j < keys; ++j) {
    const float p = std::exp(score(j) - top);
    sum += p;
    weighted += p * value(j, c);
  }
  return weighted / sum;
}

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
  enter(self, "create");
  if (is(self, "no_create"))
    return no(self, why, "keeps no such cache", QKVET_UNSUPPORTED);
  if (is(self, "null_cache")) return QKVET_OK;
  if (is(self, "late_crash"))
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
  enter(self, "destroy");
  delete cache;
}

bool there(const qkvet_cache* cache, int64_t sequence) {
  return 0 <= sequence && sequence < cache->config.sequences;
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
  if (!there(cache, a->sequence)) return "no such sequence";
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
  if (is(self, "step_crash") && a->k.ndim == 0) crash();
  if (is(self, "step_hang") && a->k.ndim == 0)
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  const std::string bad = bad_step(cache, a);
  if (bad == "full")
    return no(self, why, "the sequence is full", QKVET_OUT_OF_MEMORY);
  if (!bad.empty()) return no(self, why, bad);
  auto& sequence = cache->sequences[static_cast<size_t>(a->sequence)];
  if (a->k.ndim > 0) append(cache->config, a, &sequence);
  if (a->q.ndim > 0) answer(cache->config, a, sequence);
  if (is(self, "past_o") && a->o.ndim > 0) {
    const int64_t* n = a->o.shape;
    data_of<float>(a->o)[n[0] * n[1] * n[2] * n[3]] = 3;
  }
  return QKVET_OK;
}

qkvet_status length(const qkvet_kernel* self, qkvet_cache* cache,
                    int64_t sequence, int64_t* tokens, qkvet_text* why) {
  enter(self, "length");
  if (is(self, "no_length")) return no(self, why, "lost count");
  if (is(self, "form")) {
    *tokens = cache->form;
    return QKVET_OK;
  }
  *tokens = cache->sequences[static_cast<size_t>(sequence)].tokens;
  if (is(self, "wrong_length")) *tokens += 1;
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
  enter(self, "reset");
  if (!there(cache, sequence)) return no(self, why, "no such sequence");
  cut(cache, sequence, 0);
  return QKVET_OK;
}

qkvet_status truncate(const qkvet_kernel* self, qkvet_cache* cache,
                      int64_t sequence, int64_t tokens, qkvet_text* why) {
  enter(self, "truncate");
  const auto& s = cache->sequences[static_cast<size_t>(sequence)];
  if (tokens < 0 || tokens > s.tokens)
    return no(self, why, "not so many tokens");
  cut(cache, sequence, tokens);
  return QKVET_OK;
}

qkvet_status evict(const qkvet_kernel* self, qkvet_cache* cache,
                   int64_t sequence, int64_t first, int64_t tokens,
                   qkvet_text* why) {
  enter(self, "evict");
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

qkvet_status fork(const qkvet_kernel* self, qkvet_cache* cache, int64_t from,
                  int64_t to, qkvet_text* why) {
  enter(self, "fork");
  if (!there(cache, from) || !there(cache, to))
    return no(self, why, "no such sequence");
  cache->sequences[static_cast<size_t>(to)] =
      cache->sequences[static_cast<size_t>(from)];
  return QKVET_OK;
}

qkvet_status reorder(const qkvet_kernel* self, qkvet_cache* cache,
                     const int64_t* parents, qkvet_text* why) {
  enter(self, "reorder");
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
  enter(self, "read_back");
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
  enter(self, "memory");
  if (is(self, "no_memory")) return no(self, why, "lost count");
  size_t floats = 0;
  for (const auto& s : cache->sequences) floats += s.k.size() + s.v.size();
  *bytes = static_cast<int64_t>(floats * sizeof(float));
  if (is(self, "wrong_memory")) *bytes = -1 - *bytes;
  return QKVET_OK;
}

Library g_library;
qkvet_capabilities g_capabilities;
qkvet_cache_table g_cache;
qkvet_cache_table g_uncut;
qkvet_layer_table g_layer;

const char* const kCaches[] = {
    "cache",         "silent",          "past_o",      "wrong_length",
    "no_length",     "no_truncate",     "no_memory",   "wrong_memory",
    "memory_crash",  "late_crash",      "no_create",   "null_cache",
    "create_crash",  "destroy_crash",   "step_crash",  "length_crash",
    "reset_crash",   "truncate_crash",  "evict_crash", "fork_crash",
    "reorder_crash", "read_back_crash", "form",        "step_hang"};
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
  g_layer.forward = [](const qkvet_kernel*, qkvet_context*,
                       const qkvet_layer_args*, const qkvet_exec*,
                       qkvet_text*) -> qkvet_status { return QKVET_OK; };
  for (const std::string name : kCaches)
    g_library.add("tables/" + name, g_capabilities).cache =
        name == "no_truncate" ? &g_uncut : &g_cache;
  g_library.add("tables/layer", g_capabilities).layer = &g_layer;
}

void spoil(const std::string& config) {
  if (config == "nothing") g_library.add("tables/cache", g_capabilities);
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

extern "C" qkvet_status qkvet_open(const qkvet_host*, const char* config,
                                   qkvet_library* out, qkvet_text*) {
  declare();
  spoil(config);
  return g_library.give("tables", out);
}

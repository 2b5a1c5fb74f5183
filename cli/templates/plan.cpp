// SPDX-License-Identifier: Apache-2.0
// Attention that is planned once and run often, f32, any strides: the lengths
// of a batch go to plan() and update(), its tensors to run(). qkvet/plan.h is
// the manual.
#include "qkvet/plan.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "qkvet/adapter.h"

// ---- Plans and arithmetic: yours to replace --------------------------------

// Row i of member b, which sees the first `seen` keys. A plan for a device
// would hold the work of each block of threads.
struct Item {
  int64_t b, i, seen;
};

struct qkvet_plan {
  // What the plan is for: a call of other extents or options is refused.
  struct Key {
    int64_t B, H, Hkv, Tq, Tk, d, dv;
    int32_t causal, scale_given, has_lse, has_q_len, has_kv_len;
    float scale;

    bool operator==(const Key& other) const {
      return std::memcmp(this, &other, sizeof *this) == 0;
    }
  } key;
  std::vector<Item> items;
};

namespace {

using Key = qkvet_plan::Key;

float& at(const qkvet_tensor& t, int64_t b, int64_t h, int64_t row,
          int64_t c = 0) {
  return *static_cast<float*>(qkvet_element(&t, b, h, row, c));
}

void attend_row(const Key& key, const qkvet_forward_args& a, const Item& item,
                int64_t h, std::vector<float>& p) {
  const int64_t b = item.b, i = item.i, seen = item.seen;
  const int64_t g = h / (key.H / key.Hkv);  // the head of k and v
  float max = -INFINITY, sum = 0;
  for (int64_t j = 0; j < seen; ++j) {
    float dot = 0;
    for (int64_t c = 0; c < key.d; ++c)
      dot += at(a.q, b, h, i, c) * at(a.k, b, g, j, c);
    p[j] = dot * key.scale;
    max = std::fmax(max, p[j]);
  }
  for (int64_t j = 0; j < seen; ++j) sum += p[j] = std::exp(p[j] - max);
  for (int64_t c = 0; c < key.dv; ++c) {
    float value = 0;
    for (int64_t j = 0; j < seen; ++j) value += p[j] * at(a.v, b, g, j, c);
    at(a.o, b, h, i, c) = seen > 0 ? value / sum : 0;
  }
  if (a.lse.ndim != 0)
    at(a.lse, b, h, i) = seen > 0 ? max + std::log(sum) : -INFINITY;
}

// Keys that row i sees of a member with so many rows and keys: the first ones.
int64_t seen_by(const Key& key, int64_t i, int64_t rows, int64_t keys) {
  const int64_t end = key.causal == QKVET_CAUSAL_NONE ? keys
                      : key.causal == QKVET_CAUSAL_TOP_LEFT
                          ? i + 1
                          : i + keys - rows + 1;
  return std::min(std::max<int64_t>(end, 0), keys);
}

// The rows that count; false: a length lies beyond its extent.
bool list_items(const Key& key, const qkvet_tensor& q_len,
                const qkvet_tensor& kv_len, std::vector<Item>* items) {
  const auto length = [](const qkvet_tensor& t, int64_t b, int64_t all) {
    if (t.ndim == 0) return all;
    return *static_cast<const int64_t*>(qkvet_element(&t, b, 0, 0, 0));
  };
  for (int64_t b = 0; b < key.B; ++b) {
    const int64_t rows = length(q_len, b, key.Tq);
    const int64_t keys = length(kv_len, b, key.Tk);
    if (rows < 0 || rows > key.Tq || keys < 0 || keys > key.Tk) return false;
    for (int64_t i = 0; i < rows; ++i)
      items->push_back({b, i, seen_by(key, i, rows, keys)});
  }
  return true;
}

// ---- Calls of one plan ------------------------------------------------------

Key key_of(const qkvet_forward_args& a) {
  Key key;
  std::memset(&key, 0, sizeof key);  // for operator==
  key.B = a.q.shape[0];
  key.H = a.q.shape[1];
  key.Hkv = a.k.shape[1];
  key.Tq = a.q.shape[2];
  key.Tk = a.k.shape[2];
  key.d = a.q.shape[3];
  key.dv = a.v.shape[3];
  key.causal = a.causal;
  key.scale_given = a.scale_given != 0;
  key.has_lse = a.lse.ndim != 0;
  key.has_q_len = a.q_len.ndim != 0;
  key.has_kv_len = a.kv_len.ndim != 0;
  key.scale =
      a.scale_given ? a.scale : 1 / std::sqrt(static_cast<float>(key.d));
  return key;
}

// ---- The functions of the table --------------------------------------------

qkvet_status plan(const qkvet_kernel* self, qkvet_context*,
                  const qkvet_forward_args* args, const qkvet_exec*,
                  qkvet_plan** made, qkvet_text* why) {
  const qkvet_status status = qkvet_supports_declared(self, args, why);
  if (status != QKVET_OK) return status;
  const qkvet_forward_args a = qkvet_known_args(args);
  qkvet_plan plan{key_of(a), {}};
  if (!list_items(plan.key, a.q_len, a.kv_len, &plan.items))
    return qkvet_refuse(why, QKVET_INVALID_ARGUMENT,
                        "a length is beyond its extent");
  *made = new qkvet_plan(std::move(plan));
  return QKVET_OK;
}

// Whether the call is one that the plan is for; otherwise why not.
qkvet_status fits(const qkvet_kernel* self, const qkvet_plan* plan,
                  const qkvet_forward_args* args, const qkvet_forward_args& a,
                  qkvet_text* why) {
  const qkvet_status status = qkvet_supports_declared(self, args, why);
  if (status != QKVET_OK) return status;
  if (!(key_of(a) == plan->key))
    return qkvet_refuse(why, QKVET_INVALID_ARGUMENT,
                        "the plan is for another call");
  return QKVET_OK;
}

qkvet_status update(const qkvet_kernel* self, qkvet_plan* plan,
                    const qkvet_forward_args* args, const qkvet_exec*,
                    qkvet_text* why) {
  const qkvet_forward_args a = qkvet_known_args(args);
  const qkvet_status status = fits(self, plan, args, a, why);
  if (status != QKVET_OK) return status;
  std::vector<Item> items;
  if (!list_items(plan->key, a.q_len, a.kv_len, &items))
    return qkvet_refuse(why, QKVET_INVALID_ARGUMENT,
                        "a length is beyond its extent");
  plan->items.swap(items);
  return QKVET_OK;
}

qkvet_status run(const qkvet_kernel* self, qkvet_plan* plan,
                 const qkvet_forward_args* args, const qkvet_exec*,
                 qkvet_text* why) {
  const qkvet_forward_args a = qkvet_known_args(args);
  const qkvet_status status = fits(self, plan, args, a, why);
  if (status != QKVET_OK) return status;
  std::vector<float> p(plan->key.Tk);
  for (const Item& item : plan->items)
    for (int64_t h = 0; h < plan->key.H; ++h)
      attend_row(plan->key, a, item, h, p);
  return QKVET_OK;
}

void destroy(const qkvet_kernel*, qkvet_plan* plan) { delete plan; }

const qkvet_plan_table kPlans = {sizeof(qkvet_plan_table),
                                 QKVET_PLAN_UPDATE_INVARIANT,
                                 plan,
                                 run,
                                 update,
                                 destroy};

const void* extension(const qkvet_kernel*, const char* id) {
  return std::strcmp(id, QKVET_EXTENSION_PLAN) == 0 ? &kPlans : nullptr;
}

// ---- What the library says of itself ---------------------------------------

const qkvet_capabilities kCapabilities = [] {
  qkvet_capabilities c{};
  c.struct_size = sizeof c;
  c.options = QKVET_OPTION_CAUSAL_TOP_LEFT | QKVET_OPTION_CAUSAL_BOTTOM_RIGHT |
              QKVET_OPTION_SCALE | QKVET_OPTION_DEFAULT_SCALE |
              QKVET_OPTION_LSE | QKVET_OPTION_GROUPED_HEADS |
              QKVET_OPTION_VALUE_WIDTH | QKVET_OPTION_CROSS_LENGTHS |
              QKVET_OPTION_LENGTHS;
  c.flags = QKVET_FLAG_REENTRANT | QKVET_FLAG_ALLOCATES;
  c.layouts = QKVET_LAYOUT_BHTD | QKVET_LAYOUT_ANY_STRIDES;
  return c;
}();

const qkvet_dialect kDialect = [] {
  qkvet_dialect dialect{};
  dialect.struct_size = sizeof dialect;
  dialect.empty_row = QKVET_EMPTY_ROW_ZERO;
  dialect.lse_base = QKVET_LSE_NATURAL;
  dialect.empty_row_lse = QKVET_EMPTY_LSE_MINUS_INF;
  return dialect;
}();

// The arithmetic (qkvet/precision.h): each output is held to it. Nothing
// declared means the generic bound.
const qkvet_precision kPrecision = [] {
  qkvet_precision p{};
  p.struct_size = sizeof p;
  p.preset = QKVET_PRECISION_CPU_F32;
  return p;
}();

const qkvet_kernel kKernel = [] {
  qkvet_kernel kernel{};
  kernel.struct_size = sizeof kernel;
  kernel.name = "mine/planned";
  kernel.description = "f32, planned once and run often";
  kernel.source_file = __FILE__;
  kernel.source_line = __LINE__;
  kernel.capabilities = &kCapabilities;
  kernel.dialect = &kDialect;
  kernel.precision = &kPrecision;
  kernel.supports = qkvet_supports_declared;
  kernel.get_extension = extension;
  return kernel;
}();

const qkvet_kernel* const kKernels[] = {&kKernel};

}  // namespace

extern "C" qkvet_status qkvet_open(const qkvet_host* host, const char* config,
                                   qkvet_library* out, qkvet_text* why) {
  return qkvet_open_kernels(host, config, out, why, "mine", kKernels, 1);
}

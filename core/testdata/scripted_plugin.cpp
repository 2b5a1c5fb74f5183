// SPDX-License-Identifier: Apache-2.0
// Kernels for the tests of what calls bring and of plans, family by family in
// kFamilies. The name of a kernel says what it does: "options/show_mask" and
// the like refuse every call and tell in their reason what they were given,
// "past_", "cut_" and "into_" touch a tensor where they may not; "without_"
// leaves one out; the others write ones, right or wrong in one way each.
// "plans/right" writes into every row that counts how many keys its member has,
// by the lengths of its plan.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

#include "core/testdata/library.h"
#include "qkvet/plan.h"

namespace {

using Forward = qkvet_forward_args;
using Tensors = std::vector<std::pair<std::string, const qkvet_tensor*>>;

Tensors tensors_of(const Forward& a) {
  return {
#define QKVET_FORWARD_TENSOR(field, tensor, options) {#field, &a.field},
#include "qkvet/tensors.def"
  };
}

Tensors gradients_of(const qkvet_backward_args& a) {
  return {
#define QKVET_BACKWARD_TENSOR(field, tensor) {#field, &a.field},
#include "qkvet/tensors.def"
  };
}

Tensors tensors_of(const qkvet_layer_args& a) {
  return {
#define QKVET_LAYER_TENSOR(field, tensor) {#field, &a.field},
#include "qkvet/tensors.def"
  };
}

Tensors gradients_of(const qkvet_layer_backward_args& a) {
  return {
#define QKVET_LAYER_BACKWARD_TENSOR(field, tensor) {#field, &a.field},
#include "qkvet/tensors.def"
  };
}

Tensors both(Tensors one, const Tensors& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

volatile double g_read;

// Does to a tensor what the name of the kernel says; the reason of one that
// shows.
std::string touch(const qkvet_kernel* self, const Tensors& tensors) {
  for (const auto& [name, t] : tensors) {
    if (is(self, "show_" + name)) return description(*t);
    if (t->ndim == 0) continue;
    int64_t last = 0;
    for (int i = 0; i < t->ndim; ++i)
      last += t->shape[i] == 1 ? 0 : (t->shape[i] - 1) * t->strides[i];
    if (is(self, "past_" + name)) g_read = value_at(*t, last + 1);
    // Where an int as the type of an offset leads.
    if (is(self, "cut_" + name))
      g_read = value_at(*t, static_cast<int32_t>(last));
    if (is(self, "into_" + name)) *data_of<volatile uint8_t>(*t) = 1;
  }
  return "";
}

const int64_t* numbers(const qkvet_tensor& t) {
  return data_of<const int64_t>(t);
}

// Rows, or keys, of member b that count; `all` without lengths.
int64_t counted(const qkvet_tensor& lengths, const qkvet_tensor& ends,
                int64_t b, int64_t all) {
  if (ends.ndim > 0) return numbers(ends)[ends.shape[0] - 1];
  return lengths.ndim > 0 ? numbers(lengths)[b] : all;
}

// `value` into all elements of the first rows of member b. Loops over empty
// extents do nothing.
void fill_rows(const qkvet_tensor& t, int64_t b, int64_t rows, float value) {
  for (int64_t h = 0; h < t.shape[1]; ++h)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t c = 0; c < (t.ndim == 4 ? t.shape[3] : 1); ++c)
        data_of<float>(t)[offset(t, b, h, i, c)] = value;
}

// Fills a contiguous tensor.
void fill(const qkvet_tensor& t, float value) {
  std::fill_n(data_of<float>(t), elements(t), value);
}

// Ones where they count, of keys or of queries.
void write(const qkvet_kernel* self, const Forward& f, const qkvet_tensor& t,
           bool of_keys = false) {
  if (t.ndim < 3) return fill(t, 1);
  for (int64_t b = 0; b < t.shape[0]; ++b) {
    int64_t rows = of_keys ? counted(f.kv_len, f.cu_seqlens_k, b, t.shape[2])
                           : counted(f.q_len, f.cu_seqlens_q, b, t.shape[2]);
    if (is(self, "all_rows")) rows = t.shape[2];
    if (is(self, of_keys ? "short_keys" : "short_rows") && rows > 0) --rows;
    fill_rows(t, b, rows, 1);
  }
}

// ---- Options ----------------------------------------------------------------

std::string scalars(const Forward* a) {
  char text[128];
  std::snprintf(text, sizeof text, "window %d %lld %lld softcap %g",
                a->has_window, static_cast<long long>(a->window_left),
                static_cast<long long>(a->window_right),
                static_cast<double>(a->softcap));
  std::string all = text;
  if (a->channel_group != 0)
    all += " groups " + std::to_string(a->channel_group);
  if (a->chunk != 0) all += " chunk " + std::to_string(a->chunk);
  return all;
}

qkvet_status forward(const qkvet_kernel* self, qkvet_context*, const Forward* a,
                     const qkvet_exec*, qkvet_text* why) {
  std::string shown = touch(self, tensors_of(*a));
  if (is(self, "show_scalars")) shown = scalars(a);
  if (is(self, "show_place"))
    shown = a->v.data == a->k.data ? "v lies in k" : "v lies apart";
  if (!shown.empty()) return say(why, QKVET_INVALID_ARGUMENT, shown);
  for (const qkvet_tensor* t : {&a->o, &a->lse, &a->weights})
    write(self, *a, *t);
  if (is(self, "into_gap"))  // behind the first row
    data_of<float>(a->o)[a->o.shape[3]] = 7;
  return QKVET_OK;
}

// ---- Gradients --------------------------------------------------------------

// Threes and fours, which backward() is given where there is dropout.
qkvet_status forward_of_dropout(const qkvet_kernel*, qkvet_context*,
                                const Forward* a, const qkvet_exec*,
                                qkvet_text* why) {
  if (a->dropout_p == 0.25F)
    return say(why, QKVET_INVALID_ARGUMENT, "not this probability");
  if (a->dropout_p > 0) fill(a->o, 3), fill(a->lse, 4);
  return QKVET_OK;
}

qkvet_status backward(const qkvet_kernel* self, qkvet_context*,
                      const qkvet_backward_args* a, const qkvet_exec* exec,
                      qkvet_text* why) {
  if (is(self, "refuses"))
    return say(why, QKVET_UNSUPPORTED, "not this gradient");
  if (is(self, "full")) return QKVET_OUT_OF_MEMORY;
  const Forward& f = *a->forward;
  const std::string shown = touch(self, both(gradients_of(*a), tensors_of(f)));
  if (!shown.empty()) return say(why, QKVET_INVALID_ARGUMENT, shown);
  for (const qkvet_tensor* t : {&a->d_q, &a->d_bias, &a->d_sink})
    write(self, f, *t);
  for (const qkvet_tensor* t : {&a->d_k, &a->d_v})
    write(self, f, *t, /*of_keys=*/true);
  if (is(self, "beside_workspace"))
    static_cast<float*>(exec->workspace)[exec->workspace_size / sizeof(float)] =
        1;
  return QKVET_OK;
}

// Sixteen floats, which the other kernels leave alone.
qkvet_status workspace(const qkvet_kernel*, qkvet_context*,
                       const qkvet_backward_args*, size_t* bytes) {
  *bytes = 16 * sizeof(float);
  return QKVET_OK;
}

qkvet_status layer_backward(const qkvet_kernel* self, qkvet_context*,
                            const qkvet_layer_backward_args* a,
                            const qkvet_exec*, qkvet_text* why) {
  if (is(self, "refuses"))
    return say(why, QKVET_UNSUPPORTED, "not this gradient");
  const Tensors gradients = gradients_of(*a);
  const std::string shown = touch(self, both(gradients, tensors_of(*a->layer)));
  if (!shown.empty()) return say(why, QKVET_INVALID_ARGUMENT, shown);
  for (const auto& [name, t] : gradients)
    if (t != &a->d_y && !is(self, "without_" + name)) fill(*t, 1);
  return QKVET_OK;
}

// ---- Layers -----------------------------------------------------------------

const qkvet_host* g_host = nullptr;

// How many threads run the 8 steps of the host's loop, and those of exec.
std::string count_threads(const qkvet_exec* exec) {
  std::thread::id ids[8];
  g_host->parallel_for(
      g_host->self, 8,
      [](void* data, int64_t i) {
        static_cast<std::thread::id*>(data)[i] = std::this_thread::get_id();
      },
      ids);
  return std::to_string(std::set(ids, ids + 8).size()) + " of " +
         std::to_string(exec->threads);
}

// "counts" writes 1, 2, 3 ... into each output.
qkvet_status layer_forward(const qkvet_kernel* self, qkvet_context*,
                           const qkvet_layer_args* a, const qkvet_exec* exec,
                           qkvet_text* why) {
  if (is(self, "refuses")) return say(why, QKVET_UNSUPPORTED, "not this layer");
  if (is(self, "crashes")) *reinterpret_cast<volatile int*>(uintptr_t{16}) = 1;
  std::string shown = touch(self, tensors_of(*a));
  if (is(self, "show_threads")) shown = count_threads(exec);
  if (is(self, "show_scalars")) {
    char text[128];
    std::snprintf(text, sizeof text, "heads %d %d causal %d scale %d %g",
                  static_cast<int>(a->heads), static_cast<int>(a->kv_heads),
                  static_cast<int>(a->causal), static_cast<int>(a->scale_given),
                  static_cast<double>(a->scale));
    shown = text;
  }
  if (!shown.empty()) return say(why, QKVET_INVALID_ARGUMENT, shown);
  for (const qkvet_tensor* t : {&a->y, &a->q, &a->k, &a->v, &a->attended})
    std::iota(data_of<float>(*t), data_of<float>(*t) + elements(*t), 1.0F);
  return QKVET_OK;
}

// ---- Plans ------------------------------------------------------------------

struct Plan {
  int64_t rows[8] = {};
  int64_t keys[8] = {};
  const int64_t* kept_keys = nullptr;
};

qkvet_status fill_plan(const Forward* a, Plan* plan, qkvet_text* why) {
  if (a->q.data != nullptr || a->o.data != nullptr || a->q.ndim != 4)
    return say(why, QKVET_INVALID_ARGUMENT, "there is data in front of a run");
  if (a->kv_len.ndim != 1 || a->kv_len.data == nullptr)
    return say(why, QKVET_INVALID_ARGUMENT, "there are no lengths");
  for (int64_t b = 0; b < a->q.shape[0]; ++b) {
    plan->keys[b] = numbers(a->kv_len)[b];
    plan->rows[b] = counted(a->q_len, a->cu_seqlens_q, b, a->q.shape[2]);
  }
  plan->kept_keys = numbers(a->kv_len);
  return QKVET_OK;
}

qkvet_status make(const qkvet_kernel* self, qkvet_context*, const Forward* a,
                  const qkvet_exec*, qkvet_plan** plan, qkvet_text* why) {
  if (is(self, "refuses")) return say(why, QKVET_INVALID_ARGUMENT, "not today");
  if (is(self, "nothing")) return QKVET_OK;
  auto* const made = new Plan;
  *plan = reinterpret_cast<qkvet_plan*>(made);
  return fill_plan(a, made, why);
}

qkvet_status update(const qkvet_kernel*, qkvet_plan* plan, const Forward* a,
                    const qkvet_exec*, qkvet_text* why) {
  return fill_plan(a, reinterpret_cast<Plan*>(plan), why);
}

qkvet_status run(const qkvet_kernel* self, qkvet_plan* plan, const Forward* a,
                 const qkvet_exec*, qkvet_text* why) {
  const auto* const known = reinterpret_cast<const Plan*>(plan);
  if (a->kv_len.data != nullptr || a->q.data == nullptr)
    return say(why, QKVET_INVALID_ARGUMENT,
               "there are lengths in a run, or no data");
  for (int64_t b = 0; b < a->o.shape[0]; ++b) {
    const int64_t rows = is(self, "pads") ? a->o.shape[2] : known->rows[b];
    const int64_t keys =
        is(self, "keeps_address") ? known->kept_keys[b] : known->keys[b];
    fill_rows(a->o, b, rows, static_cast<float>(keys));
  }
  return is(self, "late") ? say(why, QKVET_INVALID_ARGUMENT, "too late")
                          : QKVET_OK;
}

void destroy(const qkvet_kernel*, qkvet_plan* plan) {
  delete reinterpret_cast<Plan*>(plan);
}

qkvet_plan_table g_plans;

const void* extension(const qkvet_kernel*, const char* id) {
  return std::strcmp(id, QKVET_EXTENSION_PLAN) == 0 ? &g_plans : nullptr;
}

// ---- The library ------------------------------------------------------------

Library g_library;
qkvet_capabilities g_capabilities;
qkvet_backward_table g_backward, g_layer_backward;
qkvet_layer_table g_layer, g_layer_with_gradient;

struct Family {
  std::string name;
  void (*give)(qkvet_kernel& kernel);  // its functions
  std::vector<const char*> deeds;
  std::vector<const char*> deeds_to_tensors;
  Tensors tensors;  // of no call: their names
};
const Family kFamilies[] = {
    {"options",
     [](qkvet_kernel& kernel) { kernel.forward = forward; },
     {"rows", "all_rows", "short_rows", "into_gap", "show_scalars",
      "show_place"},
     {"show_", "past_", "cut_", "into_"},
     tensors_of(Forward{})},
    {"backward",
     [](qkvet_kernel& kernel) {
       kernel.forward = forward_of_dropout;
       kernel.backward = &g_backward;
     },
     {"ones", "short_keys", "refuses", "full", "beside_workspace"},
     {"show_", "past_", "into_"},
     both(gradients_of(qkvet_backward_args{}), tensors_of(Forward{}))},
    {"layer_backward",
     [](qkvet_kernel& kernel) {
       kernel.layer = &g_layer_with_gradient;
       kernel.backward = &g_layer_backward;
     },
     {"ones", "refuses"},
     {"show_", "past_", "into_", "without_"},
     both(gradients_of(qkvet_layer_backward_args{}),
          tensors_of(qkvet_layer_args{}))},
    {"layer",
     [](qkvet_kernel& kernel) { kernel.layer = &g_layer; },
     {"counts", "refuses", "crashes", "show_threads", "show_scalars"},
     {"show_", "into_"},
     tensors_of(qkvet_layer_args{})},
    {"plans",
     [](qkvet_kernel& kernel) { kernel.get_extension = extension; },
     {"right", "pads", "refuses", "nothing", "late", "keeps_address"},
     {},
     {}}};

}  // namespace

// "minor=N" is a library of that minor version; "no_backward" has a table of
// gradients without a function, "no_run" one of plans.
extern "C" qkvet_status qkvet_open(const qkvet_host* host, const char* config,
                                   qkvet_library* out, qkvet_text*) {
  g_host = host;
  g_capabilities.struct_size = sizeof g_capabilities;
  g_capabilities.options = ~uint64_t{0};
  g_capabilities.layouts = QKVET_LAYOUT_ANY_STRIDES;
  g_capabilities.dtype_count = 0;
  for (const uint8_t bits : std::initializer_list<uint8_t>{32, 64, 16}) {
    const qkvet_dtype type = {QKVET_DTYPE_FLOAT, bits, 1};
    g_capabilities.dtypes[g_capabilities.dtype_count++] = {type, type, type};
  }
  // A program that has opened this library before has it still.
  const bool has_run = std::strcmp(config, "no_run") != 0;
  g_plans = {sizeof g_plans, QKVET_PLAN_UPDATE_INVARIANT,
             make,           has_run ? run : nullptr,
             update,         destroy};
  g_backward = {sizeof g_backward, QKVET_BACKWARD_BIAS | QKVET_BACKWARD_SINK,
                workspace, backward, nullptr};
  if (std::strcmp(config, "no_backward") == 0) g_backward.backward = nullptr;
  g_layer_backward = {sizeof g_layer_backward, 0, nullptr, nullptr,
                      layer_backward};
  g_layer_with_gradient.struct_size = sizeof g_layer_with_gradient;
  g_layer_with_gradient.options =
      QKVET_LAYER_BIASES | QKVET_LAYER_UNBATCHED | QKVET_LAYER_ROPE;
  g_layer_with_gradient.forward =
      [](const qkvet_kernel*, qkvet_context*, const qkvet_layer_args*,
         const qkvet_exec*, qkvet_text*) -> qkvet_status { return QKVET_OK; };
  g_layer.struct_size = sizeof g_layer;
  g_layer.options = QKVET_LAYER_BIASES | QKVET_LAYER_STAGES |
                    QKVET_LAYER_UNBATCHED | QKVET_LAYER_FUSED_QKV |
                    QKVET_LAYER_FUSED_VQK | QKVET_LAYER_MASK_BUFFER;
  g_layer.forward = layer_forward;
  for (const Family& family : kFamilies) {
    const auto add = [&family](const std::string& deed) {
      family.give(g_library.add(family.name + "/" + deed, g_capabilities));
    };
    for (const char* deed : family.deeds) add(deed);
    for (const std::string deed : family.deeds_to_tensors)
      for (const auto& [name, tensor] : family.tensors) add(deed + name);
  }
  const qkvet_status status = g_library.give("scripted", out);
  unsigned minor = QKVET_ABI_MINOR;
  std::sscanf(config, "minor=%u", &minor);
  out->abi_minor = minor;
  return status;
}

// SPDX-License-Identifier: Apache-2.0
// Kernels for the tests of plans. "plans/right" writes into every row that
// counts how many keys its member has, by the lengths of its plan; the others
// do one thing wrong each. With the config "no_run" the table is not whole.
#include <cstdio>
#include <cstring>

#include "core/testdata/show_tensor.h"
#include "qkvet/plan.h"

namespace {

struct Plan {
  int64_t rows[8] = {};
  int64_t keys[8] = {};
  const int64_t* kept_keys = nullptr;
};

bool is(const qkvet_kernel* self, const char* name) {
  return std::strcmp(self->name + std::strlen("plans/"), name) == 0;
}

qkvet_status no(qkvet_text* why, const char* reason) {
  std::snprintf(why->data, why->capacity, "%s", reason);
  return QKVET_INVALID_ARGUMENT;
}

const int64_t* numbers(const qkvet_tensor& t) {
  return static_cast<const int64_t*>(t.data);
}

qkvet_status fill(const qkvet_forward_args* a, Plan* plan, qkvet_text* why) {
  if (a->q.data != nullptr || a->o.data != nullptr || a->q.ndim != 4)
    return no(why, "there is data in front of a run");
  if (a->kv_len.ndim != 1 || a->kv_len.data == nullptr)
    return no(why, "there are no lengths");
  for (int64_t b = 0; b < a->q.shape[0]; ++b) {
    plan->keys[b] = numbers(a->kv_len)[b];
    plan->rows[b] = a->q_len.ndim == 1 ? numbers(a->q_len)[b] : a->q.shape[2];
  }
  plan->kept_keys = numbers(a->kv_len);
  return QKVET_OK;
}

qkvet_status make(const qkvet_kernel* self, qkvet_context*,
                  const qkvet_forward_args* a, const qkvet_exec*,
                  qkvet_plan** plan, qkvet_text* why) {
  if (is(self, "refuses")) return no(why, "not today");
  if (is(self, "nothing")) return QKVET_OK;
  auto* const made = new Plan;
  *plan = reinterpret_cast<qkvet_plan*>(made);
  return fill(a, made, why);
}

qkvet_status update(const qkvet_kernel*, qkvet_plan* plan,
                    const qkvet_forward_args* a, const qkvet_exec*,
                    qkvet_text* why) {
  return fill(a, reinterpret_cast<Plan*>(plan), why);
}

qkvet_status run(const qkvet_kernel* self, qkvet_plan* plan,
                 const qkvet_forward_args* a, const qkvet_exec*,
                 qkvet_text* why) {
  const auto* const known = reinterpret_cast<const Plan*>(plan);
  if (a->kv_len.data != nullptr || a->q.data == nullptr)
    return no(why, "there are lengths in a run, or no data");
  const qkvet_tensor& o = a->o;
  for (int64_t b = 0; b < o.shape[0]; ++b) {
    const int64_t rows = is(self, "pads") ? o.shape[2] : known->rows[b];
    const int64_t keys =
        is(self, "keeps_address") ? known->kept_keys[b] : known->keys[b];
    for (int64_t h = 0; h < o.shape[1]; ++h)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t c = 0; c < o.shape[3]; ++c)
          static_cast<float*>(o.data)[offset(o, b, h, i, c)] =
              static_cast<float>(keys);
  }
  return is(self, "late") ? no(why, "too late") : QKVET_OK;
}

void destroy(const qkvet_kernel*, qkvet_plan* plan) {
  delete reinterpret_cast<Plan*>(plan);
}

const char* const kNames[] = {"plans/right",   "plans/pads",
                              "plans/refuses", "plans/nothing",
                              "plans/late",    "plans/keeps_address"};
constexpr int kCount = sizeof kNames / sizeof kNames[0];

qkvet_kernel g_kernels[kCount];
const qkvet_kernel* g_list[kCount];
qkvet_capabilities g_capabilities;
qkvet_plan_table g_plans;

const void* extension(const qkvet_kernel*, const char* id) {
  return std::strcmp(id, QKVET_EXTENSION_PLAN) == 0 ? &g_plans : nullptr;
}

}  // namespace

extern "C" qkvet_status qkvet_open(const qkvet_host*, const char* config,
                                   qkvet_library* out, qkvet_text*) {
  g_capabilities.struct_size = sizeof g_capabilities;
  g_capabilities.options = ~uint64_t{0};
  g_capabilities.layouts = QKVET_LAYOUT_ANY_STRIDES;
  // A program that has opened this library before has it still.
  const bool whole = std::strcmp(config, "no_run") != 0;
  g_plans = {sizeof g_plans, QKVET_PLAN_UPDATE_INVARIANT,
             make,           whole ? run : nullptr,
             update,         destroy};
  for (int i = 0; i < kCount; ++i) {
    g_kernels[i] = {};
    g_kernels[i].struct_size = sizeof g_kernels[i];
    g_kernels[i].name = kNames[i];
    g_kernels[i].capabilities = &g_capabilities;
    g_kernels[i].get_extension = extension;
    g_list[i] = &g_kernels[i];
  }
  out->abi_major = QKVET_ABI_MAJOR;
  out->abi_minor = QKVET_ABI_MINOR;
  out->name = "plans";
  out->kernel_count = kCount;
  out->kernels = g_list;
  return QKVET_OK;
}

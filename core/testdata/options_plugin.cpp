// SPDX-License-Identifier: Apache-2.0
// Kernels for the tests of forward()'s options. "options/show_mask" and the
// like refuse every call and tell in their reason what they were given; the
// others copy or write, right or wrong in one way each.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "core/testdata/show_tensor.h"
#include "qkvet/kernel.h"

namespace {

struct Named {
  const char* name;
  qkvet_tensor qkvet_forward_args::*tensor;
};
constexpr Named kTensors[] = {{"q", &qkvet_forward_args::q},
                              {"k", &qkvet_forward_args::k},
                              {"v", &qkvet_forward_args::v},
                              {"o", &qkvet_forward_args::o},
                              {"mask", &qkvet_forward_args::mask},
                              {"bias", &qkvet_forward_args::bias},
                              {"sink", &qkvet_forward_args::sink},
                              {"slopes", &qkvet_forward_args::slopes},
                              {"q_len", &qkvet_forward_args::q_len},
                              {"kv_len", &qkvet_forward_args::kv_len},
                              {"cu_q", &qkvet_forward_args::cu_seqlens_q},
                              {"cu_k", &qkvet_forward_args::cu_seqlens_k},
                              {"lists", &qkvet_forward_args::key_indices},
                              {"listed", &qkvet_forward_args::topk_length},
                              {"rows", &qkvet_forward_args::segments_q},
                              {"keys", &qkvet_forward_args::segments_k},
                              {"ranges", &qkvet_forward_args::full_ranges},
                              {"tree", &qkvet_forward_args::tree_mask}};

std::string scalars(const qkvet_forward_args* a) {
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

bool is(const qkvet_kernel* self, const char* name) {
  return std::strcmp(self->name + std::strlen("options/"), name) == 0;
}

// Rows of member b that count.
int64_t rows_of(const qkvet_forward_args* a, int64_t b) {
  const auto numbers = [](const qkvet_tensor& t) {
    return static_cast<const int64_t*>(t.data);
  };
  if (a->cu_seqlens_q.ndim > 0)
    return numbers(a->cu_seqlens_q)[a->cu_seqlens_q.shape[0] - 1];
  return a->q_len.ndim > 0 ? numbers(a->q_len)[b] : a->o.shape[2];
}

// 1 into all elements of the first rows of a member. Loops over empty extents
// do nothing.
void write(const qkvet_kernel* self, const qkvet_forward_args* a,
           const qkvet_tensor& t) {
  if (t.ndim == 0) return;
  for (int64_t b = 0; b < t.shape[0]; ++b) {
    int64_t rows = is(self, "all_rows") ? t.shape[2] : rows_of(a, b);
    if (is(self, "short_rows") && rows > 0) --rows;
    for (int64_t h = 0; h < t.shape[1]; ++h)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t c = 0; c < (t.ndim == 4 ? t.shape[3] : 1); ++c)
          static_cast<float*>(t.data)[offset(t, b, h, i, c)] = 1;
  }
}

volatile double g_sink;

qkvet_status forward(const qkvet_kernel* self, qkvet_context*,
                     const qkvet_forward_args* a, const qkvet_exec*,
                     qkvet_text* why) {
  const auto say = [&](const std::string& text) {
    std::snprintf(why->data, why->capacity, "%s", text.c_str());
    return QKVET_INVALID_ARGUMENT;
  };
  if (is(self, "show_scalars")) return say(scalars(a));
  if (is(self, "show_place"))
    return say(a->v.data == a->k.data ? "v lies in k" : "v lies apart");
  for (const Named& named : kTensors)
    if (is(self, (std::string("show_") + named.name).c_str()))
      return say(description(a->*named.tensor));
  write(self, a, a->o);
  write(self, a, a->lse);
  write(self, a, a->weights);
  if (is(self, "into_gap"))  // behind the first row
    static_cast<float*>(a->o.data)[a->o.shape[3]] = 7;
  for (const Named& named : kTensors) {
    const qkvet_tensor& t = a->*named.tensor;
    if (t.ndim == 0) continue;
    int64_t last = 0;
    for (int i = 0; i < t.ndim; ++i)
      last += t.shape[i] == 1 ? 0 : (t.shape[i] - 1) * t.strides[i];
    if (is(self, (std::string("past_") + named.name).c_str()))
      g_sink = value_at(t, last + 1);
    // Where an int as the type of an offset leads.
    if (is(self, (std::string("cut_") + named.name).c_str()))
      g_sink = value_at(t, static_cast<int32_t>(last));
    if (is(self, (std::string("into_") + named.name).c_str()))
      *static_cast<volatile uint8_t*>(t.data) = 1;
  }
  return QKVET_OK;
}

const char* const kNames[] = {
    "options/rows",        "options/all_rows",     "options/short_rows",
    "options/into_gap",    "options/show_q",       "options/show_k",
    "options/show_v",      "options/show_o",       "options/show_mask",
    "options/show_bias",   "options/show_sink",    "options/show_slopes",
    "options/show_q_len",  "options/show_kv_len",  "options/show_cu_q",
    "options/show_cu_k",   "options/show_scalars", "options/show_place",
    "options/past_mask",   "options/past_bias",    "options/past_sink",
    "options/past_slopes", "options/past_q_len",   "options/past_kv_len",
    "options/past_cu_q",   "options/past_cu_k",    "options/into_mask",
    "options/into_bias",   "options/into_kv_len",  "options/past_k",
    "options/cut_k",       "options/show_lists",   "options/show_listed",
    "options/past_lists",  "options/past_listed",  "options/into_lists"};
constexpr int kCount = sizeof kNames / sizeof kNames[0];

qkvet_kernel g_kernels[kCount];
const qkvet_kernel* g_list[kCount];
qkvet_capabilities g_capabilities;

}  // namespace

// The configuration "minor=N" is that of a library of that minor version.
extern "C" qkvet_status qkvet_open(const qkvet_host*, const char* config,
                                   qkvet_library* out, qkvet_text*) {
  g_capabilities.struct_size = sizeof g_capabilities;
  g_capabilities.options = ~uint64_t{0};
  g_capabilities.layouts = QKVET_LAYOUT_ANY_STRIDES;
  const qkvet_dtype types[] = {{QKVET_DTYPE_FLOAT, 32, 1},
                               {QKVET_DTYPE_FLOAT, 64, 1},
                               {QKVET_DTYPE_FLOAT, 16, 1}};
  g_capabilities.dtype_count = 3;
  for (int i = 0; i < 3; ++i)
    g_capabilities.dtypes[i] = {types[i], types[i], types[i]};
  for (int i = 0; i < kCount; ++i) {
    g_kernels[i] = {};
    g_kernels[i].struct_size = sizeof g_kernels[i];
    g_kernels[i].name = kNames[i];
    g_kernels[i].capabilities = &g_capabilities;
    g_kernels[i].forward = forward;
    g_list[i] = &g_kernels[i];
  }
  out->abi_major = QKVET_ABI_MAJOR;
  unsigned minor = QKVET_ABI_MINOR;
  if (config != nullptr) std::sscanf(config, "minor=%u", &minor);
  out->abi_minor = minor;
  out->name = "options";
  out->kernel_count = kCount;
  out->kernels = g_list;
  return QKVET_OK;
}

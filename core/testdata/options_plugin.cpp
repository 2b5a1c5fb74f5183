// SPDX-License-Identifier: Apache-2.0
// Kernels for the tests of forward()'s options. "options/show_mask" and the
// like refuse every call and tell in their reason what they were given; the
// others copy or write, right or wrong in one way each.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "core/testdata/show_tensor.h"
#include "qkvet/kernel.h"

namespace {

struct Named {
  const char* name;
  qkvet_tensor qkvet_forward_args::*tensor;
};
constexpr Named kTensors[] = {
#define QKVET_FORWARD_TENSOR(field, ...) {#field, &qkvet_forward_args::field},
#include "qkvet/tensors.def"
};

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

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const char* other : {"rows", "all_rows", "short_rows", "into_gap",
                            "show_scalars", "show_place"})
    names.push_back(std::string("options/") + other);
  for (const char* what : {"show_", "past_", "cut_", "into_"})
    for (const Named& named : kTensors)
      names.push_back(std::string("options/") + what + named.name);
  return names;
}

const std::vector<std::string> g_names = all_names();
std::vector<qkvet_kernel> g_kernels(g_names.size());
std::vector<const qkvet_kernel*> g_list;
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
  g_list.clear();
  for (size_t i = 0; i < g_names.size(); ++i) {
    g_kernels[i] = {};
    g_kernels[i].struct_size = sizeof g_kernels[i];
    g_kernels[i].name = g_names[i].c_str();
    g_kernels[i].capabilities = &g_capabilities;
    g_kernels[i].forward = forward;
    g_list.push_back(&g_kernels[i]);
  }
  out->abi_major = QKVET_ABI_MAJOR;
  unsigned minor = QKVET_ABI_MINOR;
  if (config != nullptr) std::sscanf(config, "minor=%u", &minor);
  out->abi_minor = minor;
  out->name = "options";
  out->kernel_count = static_cast<int32_t>(g_list.size());
  out->kernels = g_list.data();
  return QKVET_OK;
}

// SPDX-License-Identifier: Apache-2.0
// Kernels for the tests of backward(). "backward/show_do" and the like refuse
// every call and tell in their reason what they were given; the others write
// ones into the rows that count, right or wrong in one way each.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/testdata/show_tensor.h"

namespace {

using Args = qkvet_backward_args;

struct Gradient {
  const char* name;
  qkvet_tensor Args::*tensor;
};
constexpr Gradient kTensors[] = {
    {"do", &Args::d_o}, {"dq", &Args::d_q},       {"dk", &Args::d_k},
    {"dv", &Args::d_v}, {"dbias", &Args::d_bias}, {"dsink", &Args::d_sink}};

struct Given {
  const char* name;
  qkvet_tensor qkvet_forward_args::*tensor;
};
constexpr Given kGiven[] = {{"o", &qkvet_forward_args::o},
                            {"lse", &qkvet_forward_args::lse},
                            {"k", &qkvet_forward_args::k},
                            {"bias", &qkvet_forward_args::bias},
                            {"weights", &qkvet_forward_args::weights}};

bool is(const qkvet_kernel* self, const char* name) {
  return std::strcmp(self->name + std::strlen("backward/"), name) == 0;
}
bool is(const qkvet_kernel* self, const char* what, const char* tensor) {
  return is(self, (std::string(what) + tensor).c_str());
}

// Rows, or keys, of member b that count; `all` without lengths.
int64_t counted(const qkvet_tensor& lengths, const qkvet_tensor& ends,
                int64_t b, int64_t all) {
  const auto numbers = [](const qkvet_tensor& t) {
    return static_cast<const int64_t*>(t.data);
  };
  if (ends.ndim > 0) return numbers(ends)[ends.shape[0] - 1];
  return lengths.ndim > 0 ? numbers(lengths)[b] : all;
}

void write(const qkvet_kernel* self, const Args* a, const qkvet_tensor& t,
           bool of_keys) {
  const qkvet_forward_args& f = *a->forward;
  for (int64_t b = 0; t.ndim == 4 && b < t.shape[0]; ++b) {
    int64_t rows = of_keys ? counted(f.kv_len, f.cu_seqlens_k, b, t.shape[2])
                           : counted(f.q_len, f.cu_seqlens_q, b, t.shape[2]);
    if (of_keys && is(self, "short_keys")) --rows;
    for (int64_t h = 0; h < t.shape[1]; ++h)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t c = 0; c < t.shape[3]; ++c)
          static_cast<float*>(t.data)[offset(t, b, h, i, c)] = 1;
  }
  for (int64_t h = 0; t.ndim == 1 && h < t.shape[0]; ++h)
    static_cast<float*>(t.data)[offset(t, h, 0, 0, 0)] = 1;
}

volatile double g_read;

// Behind the last element, or into the first.
void misbehave(const qkvet_kernel* self, const char* name,
               const qkvet_tensor& t) {
  if (t.ndim == 0) return;
  int64_t last = 0;
  for (int i = 0; i < t.ndim; ++i)
    last += t.shape[i] == 1 ? 0 : (t.shape[i] - 1) * t.strides[i];
  if (is(self, "past_", name)) g_read = value_at(t, last + 1);
  if (is(self, "into_", name)) *static_cast<volatile uint8_t*>(t.data) = 1;
}

qkvet_status backward(const qkvet_kernel* self, qkvet_context*, const Args* a,
                      const qkvet_exec* exec, qkvet_text* why) {
  const auto say = [&](qkvet_status status, const std::string& text) {
    std::snprintf(why->data, why->capacity, "%s", text.c_str());
    return status;
  };
  if (is(self, "refuses")) return say(QKVET_UNSUPPORTED, "not this gradient");
  if (is(self, "full")) return QKVET_OUT_OF_MEMORY;
  for (const Gradient& named : kTensors)
    if (is(self, "show_", named.name))
      return say(QKVET_INVALID_ARGUMENT, description(a->*named.tensor));
  for (const Given& named : kGiven)
    if (is(self, "show_", named.name))
      return say(QKVET_INVALID_ARGUMENT,
                 description(a->forward->*named.tensor));
  write(self, a, a->d_q, /*of_keys=*/false);
  write(self, a, a->d_k, /*of_keys=*/true);
  write(self, a, a->d_v, /*of_keys=*/true);
  write(self, a, a->d_bias, /*of_keys=*/false);
  write(self, a, a->d_sink, /*of_keys=*/false);
  for (const Gradient& named : kTensors)
    misbehave(self, named.name, a->*named.tensor);
  for (const Given& named : kGiven)
    misbehave(self, named.name, a->forward->*named.tensor);
  if (is(self, "beside_workspace"))
    static_cast<float*>(exec->workspace)[exec->workspace_size / sizeof(float)] =
        1;
  return QKVET_OK;
}

// Sixteen floats, which the other kernels leave alone.
qkvet_status workspace(const qkvet_kernel*, qkvet_context*, const Args*,
                       size_t* bytes) {
  *bytes = 16 * sizeof(float);
  return QKVET_OK;
}

// Fills a contiguous tensor.
void fill(const qkvet_tensor& t, float value) {
  int64_t count = t.ndim > 0 ? 1 : 0;
  for (int i = 0; i < t.ndim; ++i) count *= t.shape[i];
  std::fill_n(static_cast<float*>(t.data), count, value);
}

// Threes and fours, which backward() is given where there is dropout.
qkvet_status forward(const qkvet_kernel*, qkvet_context*,
                     const qkvet_forward_args* a, const qkvet_exec*,
                     qkvet_text* why) {
  if (a->dropout_p == 0.25F) {
    std::snprintf(why->data, why->capacity, "not this probability");
    return QKVET_INVALID_ARGUMENT;
  }
  if (a->dropout_p > 0) fill(a->o, 3), fill(a->lse, 4);
  return QKVET_OK;
}

const char* const kNames[] = {
    "backward/ones",         "backward/short_keys",
    "backward/refuses",      "backward/full",
    "backward/show_do",      "backward/show_dq",
    "backward/show_dk",      "backward/show_dv",
    "backward/show_dbias",   "backward/show_dsink",
    "backward/show_o",       "backward/show_lse",
    "backward/show_k",       "backward/show_bias",
    "backward/show_weights", "backward/past_do",
    "backward/past_o",       "backward/past_dk",
    "backward/into_do",      "backward/into_o",
    "backward/into_lse",     "backward/beside_workspace"};
constexpr int kCount = sizeof kNames / sizeof kNames[0];

qkvet_kernel g_kernels[kCount];
const qkvet_kernel* g_list[kCount];
qkvet_capabilities g_capabilities;
qkvet_backward_table g_backward;

}  // namespace

// With the config "nothing" the table holds no function.
extern "C" qkvet_status qkvet_open(const qkvet_host*, const char* config,
                                   qkvet_library* out, qkvet_text*) {
  g_capabilities.struct_size = sizeof g_capabilities;
  g_capabilities.options = ~uint64_t{0};
  g_capabilities.layouts = QKVET_LAYOUT_ANY_STRIDES;
  g_backward.struct_size = sizeof g_backward;
  g_backward.options = QKVET_BACKWARD_BIAS | QKVET_BACKWARD_SINK;
  g_backward.workspace = workspace;
  // A program that has opened this library before has it still.
  const bool nothing = std::strcmp(config, "nothing") == 0;
  g_backward.backward = nothing ? nullptr : backward;
  for (int i = 0; i < kCount; ++i) {
    g_kernels[i] = {};
    g_kernels[i].struct_size = sizeof g_kernels[i];
    g_kernels[i].name = kNames[i];
    g_kernels[i].capabilities = &g_capabilities;
    g_kernels[i].forward = forward;
    g_kernels[i].backward = &g_backward;
    g_list[i] = &g_kernels[i];
  }
  out->abi_major = QKVET_ABI_MAJOR;
  out->abi_minor = QKVET_ABI_MINOR;
  out->name = "backward";
  out->kernel_count = kCount;
  out->kernels = g_list;
  return QKVET_OK;
}

// SPDX-License-Identifier: Apache-2.0
// Kernels for the tests of layer_backward(). "layer_backward/show_dy" and the
// like refuse every call and tell in their reason what they were given; the
// others write ones everywhere, right or wrong in one way each.
#include <cstring>

#include "core/testdata/show_tensor.h"

namespace {

using Args = qkvet_layer_backward_args;
using Layer = qkvet_layer_args;

struct Gradient {
  const char* name;
  qkvet_tensor Args::*tensor;
};
constexpr Gradient kGradients[] = {
    {"dx", &Args::d_x},     {"dw_q", &Args::d_w_q}, {"dw_k", &Args::d_w_k},
    {"dw_v", &Args::d_w_v}, {"dw_o", &Args::d_w_o}, {"db_q", &Args::d_b_q},
    {"db_k", &Args::d_b_k}, {"db_v", &Args::d_b_v}, {"db_o", &Args::d_b_o}};

bool is(const qkvet_kernel* self, const std::string& name) {
  return name == self->name + std::strlen("layer_backward/");
}

int64_t elements(const qkvet_tensor& t) {
  int64_t n = t.ndim > 0 ? 1 : 0;
  for (int i = 0; i < t.ndim; ++i) n *= t.shape[i];
  return n;
}

volatile float g_read;

qkvet_status layer_backward(const qkvet_kernel* self, qkvet_context*,
                            const Args* a, const qkvet_exec*, qkvet_text* why) {
  const auto say = [&](qkvet_status status, const std::string& text) {
    std::snprintf(why->data, why->capacity, "%s", text.c_str());
    return status;
  };
  const Layer& layer = *a->layer;
  const std::pair<const char*, const qkvet_tensor*> given[] = {
      {"dy", &a->d_y},         {"x", &layer.x}, {"w_o", &layer.w_o},
      {"b_k", &layer.b_k},     {"y", &layer.y}, {"stage_q", &layer.q},
      {"cos", &layer.rope_cos}};
  if (is(self, "refuses")) return say(QKVET_UNSUPPORTED, "not this gradient");
  for (const auto& [name, tensor] : given)
    if (is(self, std::string("show_") + name))
      return say(QKVET_INVALID_ARGUMENT, description(*tensor));
  for (const Gradient& gradient : kGradients) {
    const qkvet_tensor& t = a->*gradient.tensor;
    if (is(self, std::string("show_") + gradient.name))
      return say(QKVET_INVALID_ARGUMENT, description(t));
    if (is(self, std::string("without_") + gradient.name)) continue;
    for (int64_t n = 0; n < elements(t); ++n)
      static_cast<float*>(t.data)[n] = 1;
  }
  auto* const d_y = static_cast<float*>(a->d_y.data);
  if (is(self, "past_dy")) g_read = d_y[elements(a->d_y)];
  if (is(self, "into_dy")) *static_cast<volatile float*>(d_y) = 1;
  return QKVET_OK;
}

qkvet_status forward(const qkvet_kernel*, qkvet_context*, const Layer*,
                     const qkvet_exec*, qkvet_text*) {
  return QKVET_OK;
}

const char* const kNames[] = {
    "layer_backward/ones",         "layer_backward/refuses",
    "layer_backward/show_dy",      "layer_backward/show_x",
    "layer_backward/show_w_o",     "layer_backward/show_b_k",
    "layer_backward/show_y",       "layer_backward/show_stage_q",
    "layer_backward/show_cos",     "layer_backward/show_dx",
    "layer_backward/show_dw_k",    "layer_backward/show_dw_o",
    "layer_backward/show_db_k",    "layer_backward/show_db_o",
    "layer_backward/without_dw_v", "layer_backward/without_db_o",
    "layer_backward/past_dy",      "layer_backward/into_dy"};
constexpr int kCount = sizeof kNames / sizeof kNames[0];

qkvet_kernel g_kernels[kCount];
const qkvet_kernel* g_list[kCount];
qkvet_capabilities g_capabilities;
qkvet_layer_table g_layer;
qkvet_backward_table g_backward;

}  // namespace

extern "C" qkvet_status qkvet_open(const qkvet_host*, const char*,
                                   qkvet_library* out, qkvet_text*) {
  g_capabilities.struct_size = sizeof g_capabilities;
  g_capabilities.options = ~uint64_t{0};
  g_layer.struct_size = sizeof g_layer;
  g_layer.options =
      QKVET_LAYER_BIASES | QKVET_LAYER_UNBATCHED | QKVET_LAYER_ROPE;
  g_layer.forward = forward;
  g_backward.struct_size = sizeof g_backward;
  g_backward.layer_backward = layer_backward;
  for (int i = 0; i < kCount; ++i) {
    g_kernels[i] = {};
    g_kernels[i].struct_size = sizeof g_kernels[i];
    g_kernels[i].name = kNames[i];
    g_kernels[i].capabilities = &g_capabilities;
    g_kernels[i].layer = &g_layer;
    g_kernels[i].backward = &g_backward;
    g_list[i] = &g_kernels[i];
  }
  out->abi_major = QKVET_ABI_MAJOR;
  out->abi_minor = QKVET_ABI_MINOR;
  out->name = "layer_backward";
  out->kernel_count = kCount;
  out->kernels = g_list;
  return QKVET_OK;
}

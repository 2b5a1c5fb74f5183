// SPDX-License-Identifier: Apache-2.0
// ggml_flash_attn_ext() of ggml-org/ggml on the CPU, for 64 queries and more,
// which it takes in tiles. No mask is made here, and so no causal rule taken.
#include <ggml-cpu.h>
#include <ggml.h>

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <memory>

#include "adapter.h"

namespace {

// Theirs has extents from the innermost one outwards.
ggml_tensor* given(ggml_context* context, const qkvet_tensor& t) {
  ggml_tensor* tensor = ggml_new_tensor_4d(context, GGML_TYPE_F32, t.shape[3],
                                           t.shape[2], t.shape[1], t.shape[0]);
  std::memcpy(tensor->data, foreign::data_of(t), ggml_nbytes(tensor));
  return tensor;
}

qkvet_status attend(const qkvet_kernel*, qkvet_context*,
                    const qkvet_forward_args* args, const qkvet_exec*,
                    qkvet_text*) {
  const qkvet_forward_args& a = *args;
  size_t bytes = 1 << 24;
  for (const qkvet_tensor* t : {&a.q, &a.k, &a.v, &a.o})
    bytes += sizeof(float) * static_cast<size_t>(t->shape[0] * t->shape[1] *
                                                 t->shape[2] * t->shape[3]);
  const std::unique_ptr<ggml_context, decltype(&ggml_free)> context(
      ggml_init({bytes, nullptr, false}), ggml_free);
  if (context == nullptr) return QKVET_OUT_OF_MEMORY;
  const float scale = a.scale_given != 0
                          ? a.scale
                          : 1 / std::sqrt(static_cast<float>(a.q.shape[3]));
  // Its answer is [B, Tq, H, dv].
  ggml_tensor* o =
      ggml_flash_attn_ext(context.get(), given(context.get(), a.q),
                          given(context.get(), a.k), given(context.get(), a.v),
                          /*mask=*/nullptr, scale, /*max_bias=*/0, a.softcap);
  ggml_cgraph* graph = ggml_new_graph(context.get());
  ggml_build_forward_expand(graph, o);
  if (ggml_graph_compute_with_ctx(context.get(), graph, /*n_threads=*/1) !=
      GGML_STATUS_SUCCESS)
    return QKVET_INTERNAL;
  const int64_t H = a.q.shape[1], Tq = a.q.shape[2], dv = a.v.shape[3];
  for (int64_t row = 0; row < a.q.shape[0] * H * Tq; ++row) {
    const int64_t b = row / Tq / H, h = row / Tq % H, i = row % Tq;
    std::memcpy(
        foreign::data_of(a.o) + row * dv,
        static_cast<const float*>(o->data) + ((b * Tq + i) * H + h) * dv,
        sizeof(float) * static_cast<size_t>(dv));
  }
  return QKVET_OK;
}

void declare(qkvet_capabilities& c) {
  c.options |= QKVET_OPTION_SCALE | QKVET_OPTION_SOFTCAP |
               QKVET_OPTION_CROSS_LENGTHS | QKVET_OPTION_GROUPED_HEADS |
               QKVET_OPTION_VALUE_WIDTH;
  c.tq = {64, 0, 0};
  c.dv = {8, 0, 8};
}

}  // namespace

FOREIGN_LIBRARY("ggml", "tiled", attend, declare);

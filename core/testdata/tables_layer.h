// SPDX-License-Identifier: Apache-2.0
// What the kernels of tables_plugin.cpp share, and its layers.
#ifndef QKVET_CORE_TESTDATA_TABLES_LAYER_H_
#define QKVET_CORE_TESTDATA_TABLES_LAYER_H_

#include <cstdlib>
#include <initializer_list>
#include <set>
#include <thread>

#include "core/testdata/library.h"

namespace {

const qkvet_host* g_host = nullptr;

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

// Row t of member b, for x and y of two or three dimensions.
float& cell(const qkvet_tensor& t, int64_t b, int64_t row, int64_t c) {
  return t.ndim == 2 ? at(t, {row, c}) : at(t, {b, row, c});
}

using Matrix = std::vector<float>;  // one member's [T, columns]

Matrix project(const qkvet_tensor& x, int64_t b, const qkvet_tensor& w,
               const qkvet_tensor& bias) {
  const int64_t rows = x.shape[x.ndim - 2];
  Matrix product;
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t c = 0; c < w.shape[1]; ++c) {
      float sum = bias.ndim > 0 ? at(bias, {c}) : 0;
      for (int64_t i = 0; i < w.shape[0]; ++i)
        sum += cell(x, b, t, i) * at(w, {i, c});
      product.push_back(sum);
    }
  return product;
}

// "" or what is wrong with the call.
std::string bad_layer(const qkvet_layer_args* a) {
  const int64_t model = a->x.shape[a->x.ndim - 1];
  const auto wrong_bias = [](const qkvet_tensor& bias, int64_t extent) {
    return bias.ndim > 0 && bias.shape[0] != extent;
  };
  if (a->w_q.shape[0] != model) return "rows of w_q";
  if (a->w_q.shape[1] % a->heads != 0) return "columns of w_q";
  if (a->w_k.shape[1] * a->heads != a->w_q.shape[1] * a->kv_heads)
    return "columns of w_k";
  if (a->w_o.shape[0] * a->kv_heads != a->w_v.shape[1] * a->heads)
    return "rows of w_o";
  return wrong_bias(a->b_q, a->w_q.shape[1]) ? "extent of b_q" : "";
}

void copy_stage(const qkvet_tensor& stage, int64_t b, const Matrix& rows) {
  if (stage.ndim == 0) return;
  const int64_t width = stage.shape[1] * stage.shape[3];
  for (int64_t h = 0; h < stage.shape[1]; ++h)
    for (int64_t t = 0; t < stage.shape[2]; ++t)
      for (int64_t c = 0; c < stage.shape[3]; ++c)
        at(stage, {b, h, t, c}) =
            rows[size_t(t * width + h * stage.shape[3] + c)];
}

// Keys that row t sees.
int64_t keys_of(const qkvet_layer_args* a, int64_t t, int64_t rows) {
  const qkvet_tensor& mask = a->mask_buffer;
  if (mask.ndim == 0) return a->causal != 0 ? t + 1 : rows;
  int64_t keys = 0;
  for (int64_t j = 0; j < rows; ++j)
    keys +=
        data_of<const uint8_t>(mask)[t * mask.strides[0] + j * mask.strides[1]];
  return keys;
}

void layer_of_member(const qkvet_layer_args* a, int64_t b) {
  const int64_t rows = a->x.shape[a->x.ndim - 2];
  const int64_t qw = a->w_q.shape[1];
  const int64_t kw = a->w_k.shape[1];
  const int64_t vw = a->w_v.shape[1];
  const int64_t d = qw / a->heads;
  const int64_t dv = vw / a->kv_heads;
  const int64_t ow = a->heads * dv;
  const Matrix q = project(a->x, b, a->w_q, a->b_q);
  const Matrix k = project(a->x, b, a->w_k, a->b_k);
  const Matrix v = project(a->x, b, a->w_v, a->b_v);
  Matrix merged(static_cast<size_t>(rows * ow));
  const float scale = a->scale_given ? a->scale : 1 / std::sqrt(float(d));
  for (int64_t h = 0; h < a->heads; ++h)
    for (int64_t t = 0; t < rows; ++t) {
      const int64_t head = h / (a->heads / a->kv_heads);
      const auto score = [&](int64_t j) {
        float dot = 0;
        for (int64_t c = 0; c < d; ++c)
          dot +=
              q[size_t(t * qw + h * d + c)] * k[size_t(j * kw + head * d + c)];
        return scale * dot;
      };
      const auto value = [&](int64_t j, int64_t c) {
        return v[size_t(j * vw + head * dv + c)];
      };
      for (int64_t c = 0; c < dv; ++c)
        merged[size_t(t * ow + h * dv + c)] =
            attend(keys_of(a, t, rows), c, score, value);
    }
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t c = 0; c < a->w_o.shape[1]; ++c) {
      float sum = a->b_o.ndim > 0 ? at(a->b_o, {c}) : 0;
      for (int64_t i = 0; i < ow; ++i)
        sum += merged[size_t(t * ow + i)] * at(a->w_o, {i, c});
      cell(a->y, b, t, c) = sum;
    }
  copy_stage(a->q, b, q);
  copy_stage(a->k, b, k);
  copy_stage(a->v, b, v);
  copy_stage(a->attended, b, merged);
}

// How many threads run the 8 steps of the host's loop; those of exec behind it.
void count_threads(const qkvet_layer_args* a, const qkvet_exec* exec) {
  std::thread::id ids[8];
  g_host->parallel_for(
      g_host->self, 8,
      [](void* data, int64_t i) {
        static_cast<std::thread::id*>(data)[i] = std::this_thread::get_id();
      },
      ids);
  cell(a->y, 0, 0, 0) = float(std::set(ids, ids + 8).size());
  cell(a->y, 0, 0, 1) = float(exec->threads);
}

qkvet_status layer_forward(const qkvet_kernel* self, qkvet_context*,
                           const qkvet_layer_args* a, const qkvet_exec* exec,
                           qkvet_text* why) {
  enter(self, "layer");
  if (is(self, "layer_unsupported"))
    return no(self, why, "not this layer", QKVET_UNSUPPORTED);
  if (is(self, "layer_writes_w_q")) at(a->w_q, {0, 1}) = 1;
  const std::string bad = bad_layer(a);
  if (!bad.empty()) return no(self, why, bad);
  const int64_t members = a->x.ndim == 3 ? a->x.shape[0] : 1;
  for (int64_t b = 0; b < members; ++b) layer_of_member(a, b);
  if (is(self, "layer_threads")) count_threads(a, exec);
  return QKVET_OK;
}

}  // namespace

#endif  // QKVET_CORE_TESTDATA_TABLES_LAYER_H_

// SPDX-License-Identifier: Apache-2.0
// Kernels of f64 storage, row by row: the other skeletons compute in f32. No
// options except causal rules, scales, masks, biases, lse and weights.
//
// An Arithmetic is F64Rows' own, F64Hooks, or a class that overrides a part of
// it. Everything else is double: sums sequential and ascending, products
// rounded, the maximum first, one division an element at the end.
//
// Contract: any strides, addresses aligned to elements; reads and writes
// elements of the tensors only; a row without a key has o = 0, lse -infinity.
// Memory: Tk doubles a call.
#ifndef QKVET_IMPL_SKELETONS_F64_ROWS_H_
#define QKVET_IMPL_SKELETONS_F64_ROWS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>

#include "impl/call/call_rows.h"
#include "impl/call/declare.h"
#include "impl/call/options_view.h"
#include "impl/call/scratch.h"
#include "impl/call/tensor_view.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

inline constexpr qkvet_dtype kF64 = {QKVET_DTYPE_FLOAT, 64, 1};
inline constexpr uint64_t kF64Options = kCommonOptions | QKVET_OPTION_WEIGHTS |
                                        QKVET_OPTION_MASK | QKVET_OPTION_BIAS;
inline constexpr qkvet_capabilities kF64Capabilities =
    capabilities_with(kF64Options, {kF64});

// sequential_f32() in double. glibc documents exp within 1 ulp, which is at
// most two units; the default scale is a root and a division.
constexpr qkvet_precision sequential_f64() {
  constexpr double kUnitF64 = 0x1p-53;
  qkvet_precision p = sequential_f32();
  p.accumulator_u = kUnitF64;
  p.exp_error = 2 * kUnitF64;
  p.exp_floor = 0x1p-1074;
  p.default_scale_error = 2;
  return p;
}
inline constexpr qkvet_precision kSequentialF64 = sequential_f64();

struct F64Call {
  int64_t batch, heads, kv_heads, queries, keys, width, value_width;
  View<const double> q, k, v;
  View<double> o, lse, weights;  // lse, weights: no data if not asked for
  View<const uint8_t> mask;      // no data if there is none
  View<const double> bias;       // the same
  double scale;
  bool causal;
  int64_t diagonal;  // row i has position i + diagonal

  int64_t visible(int64_t i) const {
    return causal ? std::clamp<int64_t>(i + diagonal + 1, 0, keys) : keys;
  }
  double bias_of(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return bias.data == nullptr ? 0 : bias.at(b, h, i)[j * bias.step[3]];
  }
  // Whether a key within the causal rule is seen: a bias of -infinity hides
  // like a mask.
  bool allows(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return (mask.data == nullptr || mask.at(b, h, i)[j * mask.step[3]] != 0) &&
           bias_of(b, h, i, j) != -std::numeric_limits<double>::infinity();
  }
};

#define ROW(field, ...) QKVET_ROW(qkvet_forward_args, field, __VA_ARGS__)
inline constexpr TensorRow kF64Tensors[] = {
    ROW(q, "B,H,Tq,d", kTypeF64, Need::kRequired),
    ROW(k, "B,Hkv,Tk,d", kTypeF64, Need::kRequired),
    ROW(v, "B,Hkv,Tk,dv", kTypeF64, Need::kRequired),
    ROW(o, "B,H,Tq,dv", kTypeF64, Need::kRequired),
    ROW(lse, "B,H,Tq", kTypeF64),
    ROW(weights, "B,H,Tq,Tk", kTypeF64),
    ROW(bias, "B,H,Tq,Tk", kTypeF64),
    ROW(mask, "B,H,Tq,Tk", kBytes)};
#undef ROW

inline void fill_f64(const qkvet_forward_args& a, F64Call* call) {
  call->batch = a.q.shape[0];
  call->heads = a.q.shape[1];
  call->kv_heads = a.k.shape[1];
  call->queries = a.q.shape[2];
  call->keys = a.k.shape[2];
  call->width = a.q.shape[3];
  call->value_width = a.v.shape[3];
  call->q = view_of<const double>(a.q);
  call->k = view_of<const double>(a.k);
  call->v = view_of<const double>(a.v);
  call->o = view_of<double>(a.o);
  fill(a.lse, &call->lse);
  fill(a.weights, &call->weights);
  fill(a.bias, &call->bias);
  fill(a.mask, &call->mask);
  call->scale = a.scale_given != 0
                    ? static_cast<double>(a.scale)
                    : 1 / std::sqrt(static_cast<double>(call->width));
  call->causal = a.causal != QKVET_CAUSAL_NONE;
  call->diagonal =
      a.causal == QKVET_CAUSAL_BOTTOM_RIGHT ? call->keys - call->queries : 0;
}

// Fills *call, or refuses with a reason.
inline qkvet_status read_f64(const qkvet_kernel* self,
                             const qkvet_forward_args* args, F64Call* call,
                             qkvet_text* why) {
  qkvet_forward_args known = {};
  Check e(*self->capabilities, why);
  e.copy(args, &known);
  if (const char* unknown =
          e.ok() ? unknown_field(known, kF64Options) : nullptr) {
    e.refuse(QKVET_UNSUPPORTED, "%s", unknown);
  }
  e.empty = Empty::kRefused;
  e.rows(kF64Tensors, &known);
  e.rules(QKVET_UNSUPPORTED, {{known.causal < QKVET_CAUSAL_NONE ||
                                   known.causal > QKVET_CAUSAL_BOTTOM_RIGHT,
                               "causal: this mode is not known"}});
  e.rules(QKVET_INVALID_ARGUMENT,
          {{e["Hkv"] > 0 && e["H"] % e["Hkv"] != 0, "Hkv does not divide H"}});
  if (e.ok()) {
    *call = {};
    fill_f64(known, call);
  }
  return e.status;
}

inline qkvet_status supports_f64(const qkvet_kernel* self,
                                 const qkvet_forward_args* args,
                                 qkvet_text* why) {
  F64Call call;
  return read_f64(self, args, &call, why);
}

struct F64Hooks {
  // One more weighted value.
  static double add_value(double acc, double term) { return acc + term; }
  // Turns scores w[0 .. n-1] into weights with sum *sum. Returns lse.
  static double softmax(double max, int64_t n, double* w, double* sum) {
    *sum = 0;
    for (int64_t j = 0; j < n; ++j) {
      *sum += w[j] = std::exp(w[j] - max);
    }
    return max + std::log(*sum);
  }
};

template <class Arithmetic>
struct F64Rows {
  // One row of queries of a head.
  struct Row {
    int64_t b, h, i, kv;
    int64_t n;  // keys that the causal rule leaves
  };

  // The score of a key that is seen.
  static double score(const F64Call& call, const Row& r, int64_t j) {
    const double* const q = call.q.at(r.b, r.h, r.i);
    const double* const k = call.k.at(r.b, r.kv, j);
    double dot = 0;
    for (int64_t c = 0; c < call.width; ++c) {
      dot += q[c * call.q.step[3]] * k[c * call.k.step[3]];
    }
    return dot * call.scale + call.bias_of(r.b, r.h, r.i, j);
  }

  // Scores of a row, -infinity for hidden keys; whether any is seen.
  static bool scores(const F64Call& call, const Row& r, double* s,
                     double* max) {
    *max = -std::numeric_limits<double>::infinity();
    bool any = false;
    for (int64_t j = 0; j < r.n; ++j) {
      const bool seen = call.allows(r.b, r.h, r.i, j);
      s[j] =
          seen ? score(call, r, j) : -std::numeric_limits<double>::infinity();
      *max = std::fmax(*max, s[j]);
      any = any || seen;
    }
    return any;
  }

  // Hidden values reach no sum, even if they are not finite.
  static double output(const F64Call& call, const Row& r, const double* w,
                       int64_t c) {
    double acc = 0;
    for (int64_t j = 0; j < r.n; ++j) {
      if (call.allows(r.b, r.h, r.i, j)) {
        acc = Arithmetic::add_value(
            acc, w[j] * call.v.at(r.b, r.kv, j)[c * call.v.step[3]]);
      }
    }
    return acc;
  }

  static void row(const F64Call& call, int64_t b, int64_t h, int64_t i,
                  double* w) {
    const Row r = {b, h, i, h / (call.heads / call.kv_heads), call.visible(i)};
    double lse = -std::numeric_limits<double>::infinity();
    double sum = 0;
    double max = 0;
    const bool any = scores(call, r, w, &max);
    if (any) {
      lse = Arithmetic::softmax(max, r.n, w, &sum);
    }
    double* const o = call.o.at(b, h, i);
    for (int64_t c = 0; c < call.value_width; ++c) {
      o[c * call.o.step[3]] = any ? output(call, r, w, c) / sum : 0;
    }
    if (call.lse.data != nullptr) {
      *call.lse.at(b, h, i) = lse;
    }
    for (int64_t j = 0; call.weights.data != nullptr && j < call.keys; ++j) {
      call.weights.at(b, h, i)[j * call.weights.step[3]] =
          any && j < r.n ? w[j] / sum : 0;
    }
  }

  static qkvet_status forward(const qkvet_kernel* self, qkvet_context*,
                              const qkvet_forward_args* args,
                              const qkvet_exec* exec, qkvet_text* why) {
    F64Call call;
    QKVET_TRY(check_exec(exec, why));
    QKVET_TRY(read_f64(self, args, &call, why));
    std::unique_ptr<double[]> scratch;
    QKVET_TRY(allocate(call.keys, &scratch, why));
    for (int64_t b = 0; b < call.batch; ++b) {
      for (int64_t h = 0; h < call.heads; ++h) {
        for (int64_t i = 0; i < call.queries; ++i) {
          row(call, b, h, i, scratch.get());
        }
      }
    }
    return QKVET_OK;
  }
};

// A kernel of f64 storage that needs no context.
template <class Arithmetic, const qkvet_precision& kPrecision = kSequentialF64>
constexpr qkvet_kernel f64_kernel(const char* name, const char* description,
                                  Place place) {
  qkvet_kernel kernel =
      plain_kernel(name, description, place, &kPrecision,
                   F64Rows<Arithmetic>::forward, &kF64Capabilities);
  kernel.supports = supports_f64;
  return kernel;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_F64_ROWS_H_

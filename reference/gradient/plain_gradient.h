// SPDX-License-Identifier: Apache-2.0
// The definition of the gradient of attention, in double, pair by pair (Dao,
// "FlashAttention-2", 3.1.2):
//
//   delta  D_i = sum_t g_it o_it, g = d_o
//   pair   dS_ij = p_ij (sum_t g_it v_jt - D_i);  dZ_ij = cap'(..) dS_ij
//   sums   dq_i = c sum_j dZ_ij k_j;  dk_j = c sum_i dZ_ij q_i;
//          dv_j = sum_i p_ij g_i;  dbias_ij = dS_ij or dZ_ij;
//          dsink = -sum_i p_iz D_i
//
// With dropout, f_ij v_j takes the place of v_j (options/dropout.h), and o is
// that with dropout.
//
// p and o are those of plain_forward; with a rotation q and k are the rotated
// ones, and dq and dk are turned back.  Include gradient.h to call it; this
// header is for the definition itself and its faults.
#ifndef QKVET_REFERENCE_GRADIENT_PLAIN_GRADIENT_H_
#define QKVET_REFERENCE_GRADIENT_PLAIN_GRADIENT_H_

#include <cmath>

#include "reference/attention/plain.h"
#include "reference/gradient/gradient.h"

namespace qkvet::reference {

struct PlainGradientHooks : PlainHooks {
  // The term that is subtracted from every dP, because the softmax's sum is 1.
  static double delta(const double* g, const double* o, int64_t dv) {
    double sum = 0;
    for (int64_t t = 0; t < dv; ++t) sum += g[t] * o[t];
    return sum;
  }
  static double key_scale(const Problem& problem) { return problem.scale; }
  // The derivative of T tanh(x / T), from its value.
  static double cap_slope(const Problem& problem, double capped) {
    if (!(problem.softcap > 0)) return 1;
    const double t = capped / problem.softcap;
    return 1 - t * t;
  }
  // Whether the cap is applied after the bias.
  static bool bias_capped(const Problem& problem) {
    return problem.softcap > 0 && problem.softcap_after_bias;
  }
  // The gradient of a rotation's inputs, from that of its results.
  static std::vector<double> turned_back(const Rotation& rotation,
                                         const RopeRows& rows) {
    return plain_rotate<PlainRopeHooks>(rotation, rows, TurnWay::kBack);
  }
  // Adds a row's term to the gradient of a key.
  static void collect(double& sum, double term) { sum += term; }
  static double sink_share(const Problem& problem, int64_t h, double lse) {
    const double z = problem.sink[h];
    return problem.sink_in_lse ? std::exp(z - lse)
                               : 1 / (1 + std::exp(lse - z));
  }
};

// The f of dropout; 1 without.
struct PlainFactors {
  const uint8_t* kept = nullptr;  // [B,H,Tq,Tk]
  double of_kept = 1;
  double at(int64_t pair) const {
    return kept == nullptr || kept[pair] != 0 ? of_kept : 0;
  }
};

// The output of a pair's cap; the score itself, if the cap comes last.
template <class Hooks>
double plain_capped(const Problem& problem, const PlainPlace& place, int64_t j,
                    double scaled) {
  return problem.softcap_after_bias
             ? Hooks::template score<Hooks>(problem, place, j, scaled)
             : Hooks::capped(problem, scaled);
}

template <class Hooks>
void plain_backward_row(const GradientProblem& problem,
                        const OracleOutput& forward,
                        const PlainFactors& factors, const PlainPlace& place,
                        GradientOutput& out) {
  const Problem& call = problem.forward;
  const Shape& shape = call.shape;
  const int64_t d = shape.d;
  const int64_t dv = shape.dv;
  const int64_t row =
      (place.b * shape.H + place.h) * shape.Tq + place.first_q + place.i;
  const int64_t head = place.b * shape.Hkv + Hooks::kv_head(shape, place.h);
  const double* g = problem.d_o + row * dv;
  const double* q = call.q + row * d;
  const double D = Hooks::delta(g, forward.o.data() + row * dv, dv);
  for (int64_t j = 0; j < place.Lk; ++j) {
    const int64_t pair = row * shape.Tk + place.first_k + j;
    if (forward.sees[pair] == 0) continue;
    const int64_t key = head * shape.Tk + place.first_k + j;
    const double* k = call.k + key * d;
    const double* v = call.v + key * dv;
    const double p = forward.weights[pair];
    const double f = factors.at(pair);
    double dot = 0;
    double dP = 0;
    for (int64_t c = 0; c < d; ++c) dot += q[c] * k[c];
    for (int64_t t = 0; t < dv; ++t) dP += g[t] * v[t];
    const double dS = p * (f * dP - D);
    const double dZ =
        dS * Hooks::cap_slope(
                 call,
                 plain_capped<Hooks>(call, place, j, Hooks::scale(call) * dot));
    out.bias[pair] = Hooks::bias_capped(call) ? dZ : dS;
    for (int64_t c = 0; c < d; ++c) {
      out.q[row * d + c] += Hooks::scale(call) * dZ * k[c];
      Hooks::collect(out.k[key * d + c], Hooks::key_scale(call) * dZ * q[c]);
    }
    for (int64_t t = 0; t < dv; ++t) {
      Hooks::collect(out.v[key * dv + t], f * p * g[t]);
    }
  }
  if (call.sink == nullptr) return;
  out.sink[place.h] -= Hooks::sink_share(call, place.h, forward.lse[row]) * D;
}

inline GradientOutput zero_gradient(const Problem& call) {
  const Shape& shape = call.shape;
  GradientOutput out;
  out.q.resize(shape.q_elements());
  out.k.resize(shape.k_elements());
  out.v.resize(shape.v_elements());
  out.bias.resize(shape.weights_elements());
  if (call.sink != nullptr) out.sink.resize(shape.H);
  return out;
}

// Without a rotation.
template <class Hooks>
GradientOutput plain_backward_of(const GradientProblem& problem,
                                 const OracleOutput& forward,
                                 const PlainFactors& factors = {}) {
  const Problem& call = problem.forward;
  const Shape& shape = call.shape;
  GradientOutput out = zero_gradient(call);
  for (int64_t b = 0; b < shape.B; ++b) {
    for (int64_t h = 0; h < shape.H; ++h) {
      for (int64_t i = 0; i < shape.Tq; ++i) {
        if (forward.visible[(b * shape.H + h) * shape.Tq + i] <= 0) continue;
        plain_backward_row<Hooks>(problem, forward, factors,
                                  Hooks::place(call, b, h, i), out);
      }
    }
  }
  return out;
}

template <class Hooks>
GradientOutput plain_backward_with(const GradientProblem& problem) {
  const Problem& call = problem.forward;
  if (call.rotation.style == RopeStyle::kNone)
    return plain_backward_of<Hooks>(problem, plain_forward_with<Hooks>(call));
  const auto q = plain_rotate<Hooks>(call.rotation, query_rows(call));
  const auto k = plain_rotate<Hooks>(call.rotation, key_rows(call));
  GradientProblem turned = problem;
  turned.forward.q = q.data();
  turned.forward.k = k.data();
  turned.forward.rotation = {};
  GradientOutput out = plain_backward_with<Hooks>(turned);
  out.q = Hooks::turned_back(call.rotation, with_data(query_rows(call), out.q));
  out.k = Hooks::turned_back(call.rotation, with_data(key_rows(call), out.k));
  return out;
}

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_GRADIENT_PLAIN_GRADIENT_H_

// SPDX-License-Identifier: Apache-2.0
// Correct gradients with other arithmetic. Their forward passes are naive,
// except for half storage.
#include <cmath>
#include <cstdint>

#include "impl/call/tensor_view.h"
#include "impl/controls/control.h"
#include "impl/skeletons/backward_kernel.h"
#include "impl/skeletons/options_kernel.h"

namespace qkvet::impl {

namespace {

constexpr Arithmetic kSequential = {};
constexpr Arithmetic kNormalisedP = {.norm_first = true, .p = P::kNormalised};

// Key by key, as in kernels that assign each tile of keys to a block: keys and
// rows last to first, weights once for dv and dk, and again, in a second walk,
// for dq.
struct Pair {
  float p, dz;
  bool seen;
};

Pair pair_of(const BackwardPiece& piece, int64_t r, int64_t j) {
  const ForwardCall& call = *piece.call;
  const int64_t i = piece.first + r, d = call.width, dv = call.value_width;
  if (!PlainBackward::sees(call, piece.b, piece.h, i, j)) {
    return {0, 0, false};
  }
  const float scaled =
      product_of_rows(piece.k + j * d, piece.q + r * d, d) * call.scale;
  const float score = with_options(call, piece.b, piece.h, i, j, scaled);
  const float p = std::exp(score - piece.lse[r]);
  const float dp = product_of_rows(piece.v + j * dv, piece.d_o + r * dv, dv);
  const float ds = p * dp - p * piece.delta[r];
  piece.give_bias(r, j, ds);
  return {p, ds * softcap_slope(call, scaled), true};
}

qkvet_status gradient_by_columns(const BackwardPiece& piece, qkvet_context*,
                                 qkvet_text*) {
  const ForwardCall& call = *piece.call;
  const int64_t d = call.width, dv = call.value_width;
  for (int64_t j = call.keys - 1; j >= 0; --j) {
    for (int64_t r = piece.rows - 1; r >= 0; --r) {
      const Pair pair = pair_of(piece, r, j);
      if (pair.seen) {
        add_row(pair.p, piece.d_o + r * dv, dv, piece.d_v + j * dv);
        add_row(pair.dz, piece.q + r * d, d, piece.d_k + j * d);
      }
    }
  }
  for (int64_t r = 0; r < piece.rows; ++r) {
    for (int64_t j = call.keys - 1; j >= 0; --j) {
      const Pair pair = pair_of(piece, r, j);
      if (pair.seen) {
        add_row(pair.dz, piece.k + j * d, d, piece.d_q + r * d);
      }
    }
  }
  return QKVET_OK;
}

float score_of(const BackwardPiece& piece, int64_t r, int64_t j) {
  const ForwardCall& call = *piece.call;
  const int64_t d = call.width;
  const float dot = product_of_rows(piece.q + r * d, piece.k + j * d, d);
  return with_options(call, piece.b, piece.h, piece.first + r, j,
                      dot * call.scale);
}

int64_t list_keys(const BackwardPiece& piece, int64_t r) {
  return piece.call->list_keys(piece.b, piece.h, piece.first + r, piece.keys);
}

// Computes the softmax again and ignores the given lse; a sink joins its
// denominator.
qkvet_status gradient_with_own_lse(const BackwardPiece& piece,
                                   qkvet_context* context, qkvet_text* why) {
  float own[kBackwardRows];
  const float sink = piece.call->options.sink_of(piece.h);
  for (int64_t r = 0; r < piece.rows; ++r) {
    const int64_t count = list_keys(piece, r);
    float* const scores = piece.scratch;
    float max = sink;
    for (int64_t n = 0; n < count; ++n) {
      scores[n] = score_of(piece, r, piece.keys[n]);
      max = std::fmax(max, scores[n]);
    }
    float sum = std::exp(sink - max);
    for (int64_t n = 0; n < count; ++n) {
      sum += std::exp(scores[n] - max);
    }
    own[r] = max + std::log(sum);
  }
  BackwardPiece changed = piece;
  changed.lse = own;
  return BackwardRows<PlainBackward>::piece(changed, context, why);
}

// Subtracts the sum of p dp from dp, which in exact arithmetic equals that of
// do o; o is not read.
qkvet_status gradient_with_own_delta(const BackwardPiece& piece,
                                     qkvet_context* context, qkvet_text* why) {
  float own[kBackwardRows];
  const int64_t dv = piece.call->value_width;
  for (int64_t r = 0; r < piece.rows; ++r) {
    const int64_t count = list_keys(piece, r);
    own[r] = 0;
    for (int64_t n = 0; n < count; ++n) {
      const int64_t j = piece.keys[n];
      own[r] += std::exp(score_of(piece, r, j) - piece.lse[r]) *
                product_of_rows(piece.d_o + r * dv, piece.v + j * dv, dv);
    }
  }
  BackwardPiece changed = piece;
  changed.delta = own;
  return BackwardRows<PlainBackward>::piece(changed, context, why);
}

// p and dz are rounded to the storage type before their products, as on tensor
// cores with half storage; the sums are f32.
struct HalfOperands : PlainBackward {
  static float operand(const ForwardCall& call, float value) {
    return round_to(call.storage, value);
  }
};

// The same if q is aligned to 64 bytes, and f32 elsewhere: numbers too large
// for f16 are infinite in one and finite in the other.
struct HalfWhereAligned : PlainBackward {
  static float operand(const ForwardCall& call, float value) {
    const auto address = reinterpret_cast<uintptr_t>(call.half.q.data);
    return address % 64 == 0 ? round_to(call.storage, value) : value;
  }
};

// Vectors of 64 bytes: every tensor is aligned to one, including o and lse,
// which with dropout no caller passes.
constexpr qkvet_capabilities kAlignedWithDropout = [] {
  qkvet_capabilities c =
      capabilities_with(kCommonOptions | kDropoutOptions, {kF32});
  c.alignment = 64;
  return c;
}();

bool is_on_vector(const qkvet_tensor& tensor) {
  return reinterpret_cast<uintptr_t>(first_element(tensor)) % 64 == 0;
}

qkvet_status aligned_backward(const qkvet_kernel* self, qkvet_context* context,
                              const qkvet_backward_args* args,
                              const qkvet_exec* exec, qkvet_text* why) {
  if (!is_on_vector(args->forward->o) || !is_on_vector(args->forward->lse)) {
    return refuse(why, QKVET_INTERNAL, "o or lse begins beside 64 bytes");
  }
  return kBackwardTable<PlainBackward>.backward(self, context, args, exec, why);
}
constexpr qkvet_backward_table kOnVectors = backward_table(aligned_backward);

}  // namespace

QKVET_CONTROL(backward_on_vectors,
              "dropout and its gradient, o and lse on 64 bytes",
              kernel_of(OptionsKernel<OptionHooks>::forward, &kHooksPrecision,
                        &kAlignedWithDropout),
              &qkvet_kernel::backward, &kOnVectors);

QKVET_CONTROL(backward_from_columns,
              "gradient key by key, last to first, in two walks",
              kArithmeticKernel<kSequential>, &qkvet_kernel::backward,
              &kBackwardTable<PlainBackward, gradient_by_columns>);

QKVET_CONTROL(backward_recomputes_lse, "gradient from a softmax of its own",
              kArithmeticKernel<kSequential>, &qkvet_kernel::backward,
              &kBackwardTable<PlainBackward, gradient_with_own_lse>);

QKVET_CONTROL(backward_delta_from_p,
              "gradient with the sum of p dp in place of that of do o",
              kArithmeticKernel<kSequential>, &qkvet_kernel::backward,
              &kBackwardTable<PlainBackward, gradient_with_own_delta>);

// The same in forward: P is normalised, then rounded.
QKVET_CONTROL(backward_half_operands, "p and ds of a gradient rounded to bf16",
              kArithmeticKernel<kNormalisedP>, &qkvet_kernel::backward,
              &kBackwardTable<HalfOperands>);

QKVET_CONTROL(backward_half_where_aligned,
              "p and ds rounded to half storage where q is aligned",
              kArithmeticKernel<kNormalisedP>, &qkvet_kernel::backward,
              &kBackwardTable<HalfWhereAligned>);

}  // namespace qkvet::impl

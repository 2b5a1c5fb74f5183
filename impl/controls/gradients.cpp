// SPDX-License-Identifier: Apache-2.0
// Correct gradients with other arithmetic. Their forward passes are naive,
// except for half storage.
#include <cmath>
#include <cstdint>

#include "impl/abi/tensor_view.h"
#include "impl/controls/control.h"
#include "impl/skeletons/backward_kernel.h"
#include "impl/skeletons/hooks.h"
#include "impl/skeletons/options_kernel.h"

namespace qkvet::impl {

// Gradients whose rows are computed one by one, from all scores of the row:
//
//   static float Arithmetic::lse(const GradientScores&);
//   static float Arithmetic::delta(const GradientScores&, const float* p);
//
// compute the lse for the weights, and the number subtracted from dp.

// Row r of a piece and the keys that it sees, piece.keys[0, count).
struct GradientScores {
  const BackwardPiece& piece;
  int64_t r, count;
  float *score, *dp, *slope;  // [count]

  float sink() const { return piece.call->options.sink_of(piece.h); }
};

inline void take_scores(const GradientScores& row) {
  const BackwardPiece& piece = row.piece;
  const ForwardCall& call = *piece.call;
  const int64_t d = call.width, dv = call.value_width;
  for (int64_t n = 0; n < row.count; ++n) {
    const int64_t j = piece.keys[n];
    const float scaled =
        product_of_rows(piece.q + row.r * d, piece.k + j * d, d) * call.scale;
    row.score[n] =
        with_options(call, piece.b, piece.h, piece.first + row.r, j, scaled);
    row.slope[n] = softcap_slope(call, scaled);
    row.dp[n] = product_of_rows(piece.d_o + row.r * dv, piece.v + j * dv, dv);
  }
}

template <class Arithmetic>
void add_scored_row(const GradientScores& row) {
  const BackwardPiece& piece = row.piece;
  const int64_t d = piece.call->width, dv = piece.call->value_width;
  const float lse = Arithmetic::lse(row);
  for (int64_t n = 0; n < row.count; ++n) {
    row.score[n] = std::exp(row.score[n] - lse);
  }
  const float delta = Arithmetic::delta(row, row.score);
  for (int64_t n = 0; n < row.count; ++n) {
    const int64_t j = piece.keys[n];
    const float ds = row.score[n] * (row.dp[n] - delta);
    const float dz = ds * row.slope[n];
    piece.give_bias(row.r, j, ds);
    add_row(row.score[n], piece.d_o + row.r * dv, dv, piece.d_v + j * dv);
    add_row(dz, piece.k + j * d, d, piece.d_q + row.r * d);
    add_row(dz, piece.q + row.r * d, d, piece.d_k + j * d);
  }
}

template <class Arithmetic>
qkvet_status gradient_by_rows(const BackwardPiece& piece, qkvet_context*,
                              qkvet_text*) {
  const int64_t keys = piece.call->keys;
  for (int64_t r = 0; r < piece.rows; ++r) {
    const int64_t count =
        piece.call->list_keys(piece.b, piece.h, piece.first + r, piece.keys);
    const GradientScores row = {piece,
                                r,
                                count,
                                piece.scratch,
                                piece.scratch + keys,
                                piece.scratch + 2 * keys};
    take_scores(row);
    if (count > 0) {
      add_scored_row<Arithmetic>(row);
    }
  }
  return QKVET_OK;
}

// The lse that forward() returned.
struct GivenLse {
  static float lse(const GradientScores& row) { return row.piece.lse[row.r]; }
};
struct GivenDelta {
  static float delta(const GradientScores& row, const float* /*p*/) {
    return row.piece.delta[row.r];
  }
};

namespace {

constexpr Arithmetic kNaive = {};
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

// Computes the softmax again and ignores the given lse; a sink joins its
// denominator.
struct OwnLse : GivenDelta {
  static float lse(const GradientScores& row) {
    float max = row.sink();
    for (int64_t n = 0; n < row.count; ++n) {
      max = std::fmax(max, row.score[n]);
    }
    float sum = std::exp(row.sink() - max);
    for (int64_t n = 0; n < row.count; ++n) {
      sum += std::exp(row.score[n] - max);
    }
    return max + std::log(sum);
  }
};

// Subtracts the sum of p dp from dp, which in exact arithmetic equals that of
// do o; o is not read.
struct DeltaFromP : GivenLse {
  static float delta(const GradientScores& row, const float* p) {
    float sum = 0;
    for (int64_t n = 0; n < row.count; ++n) {
      sum += p[n] * row.dp[n];
    }
    return sum;
  }
};

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

QKVET_CONTROL(backward_on_vectors) = with_backward(
    plain_kernel("controls/backward_on_vectors",
                 "dropout and its gradient, o and lse on 64 bytes", QKVET_PLACE,
                 &kHooksPrecision, OptionsKernel<OptionHooks>::forward,
                 &kAlignedWithDropout),
    &kOnVectors);

QKVET_CONTROL(backward_from_columns) = with_backward(
    arithmetic_kernel<kNaive>(
        "controls/backward_from_columns",
        "gradient key by key, last to first, in two walks", QKVET_PLACE),
    &kBackwardTable<PlainBackward, gradient_by_columns>);

QKVET_CONTROL(backward_recomputes_lse) = with_backward(
    arithmetic_kernel<kNaive>("controls/backward_recomputes_lse",
                              "gradient from a softmax of its own",
                              QKVET_PLACE),
    &kBackwardTable<PlainBackward, gradient_by_rows<OwnLse>>);

QKVET_CONTROL(backward_delta_from_p) = with_backward(
    arithmetic_kernel<kNaive>(
        "controls/backward_delta_from_p",
        "gradient with the sum of p dp in place of that of do o", QKVET_PLACE),
    &kBackwardTable<PlainBackward, gradient_by_rows<DeltaFromP>>);

// The same in forward: P is normalised, then rounded.
QKVET_CONTROL(backward_half_operands) = with_backward(
    arithmetic_kernel<kNormalisedP>("controls/backward_half_operands",
                                    "p and ds of a gradient rounded to bf16",
                                    QKVET_PLACE),
    &kBackwardTable<HalfOperands>);

QKVET_CONTROL(backward_half_where_aligned) = with_backward(
    arithmetic_kernel<kNormalisedP>(
        "controls/backward_half_where_aligned",
        "p and ds rounded to half storage where q is aligned", QKVET_PLACE),
    &kBackwardTable<HalfWhereAligned>);

}  // namespace qkvet::impl

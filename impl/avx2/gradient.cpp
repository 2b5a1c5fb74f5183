// SPDX-License-Identifier: Apache-2.0
#include "impl/avx2/gradient.h"

#include "impl/avx2/gradient_rows.h"
#include "impl/backward_call.h"

namespace qkvet::impl {
namespace {

// Of the keys of a head.
struct Scratch {
  float *score, *dp, *slope;  // [Tk]
};

void add_run(const BackwardPiece& piece, const GradientRow& row, int64_t r,
             Run run, const Scratch& at) {
  const ForwardCall& call = *piece.call;
  const bool capped = call.options.softcap > 0;
  gradient_products(row, run.begin, run.end, at.score, at.dp);
  for (int64_t j = run.begin; call.options.changes_scores() && j < run.end;
       ++j) {
    at.slope[j] = softcap_slope(call, at.score[j]);
    at.score[j] =
        with_options(call, piece.b, piece.h, piece.first + r, j, at.score[j]);
  }
  gradient_weights(row, run.begin, run.end, at.score, at.dp);
  for (int64_t j = run.begin; j < run.end; ++j) {
    piece.give_bias(r, j, at.dp[j]);
    at.dp[j] *= capped ? at.slope[j] : 1;
  }
  gradient_sums(row, run.begin, run.end, at.score, at.dp);
}

// The first run of `count` ascending keys from list[n] on.
Run run_at(const int64_t* list, int64_t n, int64_t count) {
  Run run = {list[n], list[n] + 1};
  while (n + run.count() < count && list[n + run.count()] == run.end) {
    ++run.end;
  }
  return run;
}

}  // namespace

qkvet_status gradient_on_avx2(const BackwardPiece& piece,
                              qkvet_context* context, qkvet_text* why) {
  if (context == nullptr) {
    return refuse(why, QKVET_INVALID_ARGUMENT, "open() has not succeeded");
  }
  const ForwardCall& call = *piece.call;
  const int64_t d = call.width, dv = call.value_width;
  const Scratch at = {piece.scratch, piece.scratch + call.keys,
                      piece.scratch + 2 * call.keys};
  for (int64_t r = 0; r < piece.rows; ++r) {
    const GradientRow row = {piece.q + r * d,
                             piece.d_o + r * dv,
                             piece.k,
                             piece.v,
                             piece.d_q + r * d,
                             piece.d_k,
                             piece.d_v,
                             d,
                             dv,
                             call.scale,
                             piece.lse[r],
                             piece.delta[r]};
    const int64_t i = piece.first + r;
    if (!call.options.hides_pairs()) {
      add_run(piece, row, r, call.in_reach(i), at);
      continue;
    }
    const int64_t count = call.list_keys(piece.b, piece.h, i, piece.keys);
    for (int64_t n = 0; n < count;) {
      const Run run = run_at(piece.keys, n, count);
      add_run(piece, row, r, run, at);
      n += run.count();
    }
  }
  return QKVET_OK;
}

}  // namespace qkvet::impl

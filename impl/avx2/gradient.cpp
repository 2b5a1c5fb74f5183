// SPDX-License-Identifier: Apache-2.0
#include "impl/avx2/gradient.h"

#include "impl/avx2/gradient_rows.h"
#include "impl/call/backward_call.h"

namespace qkvet::impl {
namespace {

constexpr int64_t kKeysAtOnce = 64;

// Intermediate numbers for the keys of a head and one row; those of the next
// row follow.
struct Scratch {
  float *score, *dp;  // [kRowsAtOnce, Tk]
  float* slope;       // [Tk], of one row after the other
};

GradientRow row_of(const BackwardPiece& piece, int64_t r) {
  const ForwardCall& call = *piece.call;
  const int64_t d = call.width, dv = call.value_width;
  return {
      piece.q + r * d, piece.d_o + r * dv, piece.k, piece.v, piece.d_q + r * d,
      piece.d_k,       piece.d_v,          d,       dv,      call.scale,
      piece.lse[r],    piece.delta[r]};
}

// Scores become p, and dp becomes dz.
void finish_scores(const BackwardPiece& piece, const GradientRow& row,
                   int64_t r, Run run, const Scratch& at) {
  const ForwardCall& call = *piece.call;
  const bool capped = call.options.softcap > 0;
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
}

void add_run(const BackwardPiece& piece, int64_t r, Run run,
             const Scratch& at) {
  const GradientRow row = row_of(piece, r);
  gradient_products(row, run.begin, run.end, at.score, at.dp);
  finish_scores(piece, row, r, run, at);
  gradient_sums(row, run.begin, run.end, at.score, at.dp);
}

// For four rows from r on that all see the keys of `run`.
void add_run_of_four(const BackwardPiece& piece, int64_t r, Run run,
                     const Scratch& at) {
  const int64_t stride = piece.call->keys;
  const GradientRow first = row_of(piece, r);
  gradient_products_of_four(first, run.begin, run.end, stride, at.score, at.dp);
  for (int64_t n = 0; n < kRowsAtOnce; ++n) {
    const Scratch own = {at.score + n * stride, at.dp + n * stride, at.slope};
    finish_scores(piece, row_of(piece, r + n), r + n, run, own);
  }
  gradient_sums_of_four(first, run.begin, run.end, stride, at.score, at.dp);
}

// The part of the tile that a row sees, in a call that hides no pairs.
Run seen_of(const BackwardPiece& piece, int64_t r, Run tile) {
  const Run run = piece.call->in_reach(piece.first + r);
  return {run.begin > tile.begin ? run.begin : tile.begin,
          run.end < tile.end ? run.end : tile.end};
}

// Rows r to r + 3. Keys that only some of them see are before or after the keys
// that all see, so every sum adds its rows and keys in the same order as one
// row after the other would.
void add_four(const BackwardPiece& piece, int64_t r, Run tile,
              const Scratch& at) {
  Run runs[kRowsAtOnce];
  Run all = tile;
  for (int64_t n = 0; n < kRowsAtOnce; ++n) {
    runs[n] = seen_of(piece, r + n, tile);
    all.begin = runs[n].begin > all.begin ? runs[n].begin : all.begin;
    all.end = runs[n].end < all.end ? runs[n].end : all.end;
  }
  if (all.begin >= all.end) {
    for (int64_t n = 0; n < kRowsAtOnce; ++n) {
      add_run(piece, r + n, runs[n], at);
    }
    return;
  }
  for (int64_t n = 0; n < kRowsAtOnce; ++n) {
    add_run(piece, r + n, {runs[n].begin, all.begin}, at);
  }
  add_run_of_four(piece, r, all, at);
  for (int64_t n = 0; n < kRowsAtOnce; ++n) {
    add_run(piece, r + n, {all.end, runs[n].end}, at);
  }
}

// The first run of `count` ascending keys from list[n] on.
Run run_at(const int64_t* list, int64_t n, int64_t count) {
  Run run = {list[n], list[n] + 1};
  while (n + run.count() < count && list[n + run.count()] == run.end) {
    ++run.end;
  }
  return run;
}

// A tile of k, v, d_k and d_v stays in the cache while all rows pass over it.
// Sums over keys continue from tile to tile, ascending.
void add_tile(const BackwardPiece& piece, Run tile, const Scratch& at) {
  int64_t r = 0;
  for (; r + kRowsAtOnce <= piece.rows; r += kRowsAtOnce) {
    add_four(piece, r, tile, at);
  }
  for (; r < piece.rows; ++r) {
    add_run(piece, r, seen_of(piece, r, tile), at);
  }
}

}  // namespace

qkvet_status gradient_on_avx2(const BackwardPiece& piece,
                              qkvet_context* context, qkvet_text* why) {
  if (context == nullptr) {
    return refuse(why, QKVET_INVALID_ARGUMENT, "open() has not succeeded");
  }
  const ForwardCall& call = *piece.call;
  static_assert(2 * kRowsAtOnce + 1 <= kBackwardScratch);
  const Scratch at = {piece.scratch, piece.scratch + kRowsAtOnce * call.keys,
                      piece.scratch + 2 * kRowsAtOnce * call.keys};
  for (int64_t j = 0; !call.options.hides_pairs() && j < call.keys;
       j += kKeysAtOnce) {
    const int64_t left = call.keys - j;
    add_tile(piece, {j, j + (left < kKeysAtOnce ? left : kKeysAtOnce)}, at);
  }
  for (int64_t r = 0; call.options.hides_pairs() && r < piece.rows; ++r) {
    const int64_t i = piece.first + r;
    const int64_t count = call.list_keys(piece.b, piece.h, i, piece.keys);
    for (int64_t n = 0; n < count;) {
      const Run run = run_at(piece.keys, n, count);
      add_run(piece, r, run, at);
      n += run.count();
    }
  }
  return QKVET_OK;
}

}  // namespace qkvet::impl

// SPDX-License-Identifier: Apache-2.0
#include "impl/eigen/gradient.h"

#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>
#include <algorithm>
#include <new>

#include "impl/call/backward_call.h"

namespace qkvet::impl {
namespace {

using Matrix =
    Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Input = Eigen::Map<const Matrix>;
using Sums = Eigen::Map<Matrix>;

// Keys of a tile.
constexpr int64_t kGradientKeys = 128;

struct Tile {
  const BackwardPiece& piece;
  int64_t first, keys;  // the tile is [first, first + keys)
  Input q, k, v, d_o;   // k and v: of the tile
  Sums d_q, d_k, d_v;   // d_k and d_v: of the tile
  Matrix *p, *dz;       // [rows, keys]: scores and dp before
};

Run part_of(Run run, int64_t first, int64_t end) {
  run.begin = std::clamp(run.begin, first, end);
  run.end = std::clamp(run.end, run.begin, end);
  return run;
}

// The next run of keys that row i sees, from key `from` of the tile on; an
// empty one ends them.
Run next_run(const Tile& tile, int64_t i, int64_t from) {
  const BackwardPiece& piece = tile.piece;
  const ForwardCall& call = *piece.call;
  Run run = part_of(call.in_reach(i), from, tile.first + tile.keys);
  if (!call.options.hides_pairs()) {
    return run;
  }
  const auto allows = [&](int64_t j) {
    return call.options.allows(piece.b, piece.h, i, j);
  };
  while (run.begin < run.end && !allows(run.begin)) {
    ++run.begin;
  }
  const int64_t end = run.end;
  run.end = run.begin;
  while (run.end < end && allows(run.end)) {
    ++run.end;
  }
  return run;
}

// For the keys `run` of row r: turns scores into p, and dp into dz.
void weigh(const Tile& tile, int64_t r, Run run) {
  const BackwardPiece& piece = tile.piece;
  const ForwardCall& call = *piece.call;
  const int64_t i = piece.first + r, from = run.begin - tile.first;
  auto p = tile.p->row(r).segment(from, run.count()).array();
  auto dz = tile.dz->row(r).segment(from, run.count()).array();
  float* const slopes = piece.scratch;
  for (int64_t n = 0; call.options.changes_scores() && n < run.count(); ++n) {
    slopes[n] = softcap_slope(call, p[n]);
    p[n] = with_options(call, piece.b, piece.h, i, run.begin + n, p[n]);
  }
  p = (p - piece.lse[r]).exp();
  float* const factors = piece.scratch + call.keys;
  const Dropout& dropout = call.options.dropout;
  for (int64_t n = 0; dropout.present() && n < run.count(); ++n) {
    factors[n] = dropout.factor(piece.b, piece.h, i, run.begin + n);
    dz[n] *= factors[n];
  }
  dz = p * (dz - piece.delta[r]);
  for (int64_t n = 0; dropout.present() && n < run.count(); ++n) {
    p[n] *= factors[n];
  }
  for (int64_t n = 0; piece.d_bias.present() && n < run.count(); ++n) {
    piece.give_bias(r, run.begin + n, dz[n]);
  }
  for (int64_t n = 0; call.options.softcap > 0 && n < run.count(); ++n) {
    dz[n] *= slopes[n];
  }
}

// Adds the terms of the keys `run` of row r.
void add_run(Tile* tile, int64_t r, Run run) {
  const int64_t from = run.begin - tile->first, n = run.count();
  const auto p = tile->p->row(r).segment(from, n);
  const auto dz = tile->dz->row(r).segment(from, n);
  tile->d_v.middleRows(from, n).noalias() += p.transpose() * tile->d_o.row(r);
  tile->d_q.row(r).noalias() += dz * tile->k.middleRows(from, n);
  tile->d_k.middleRows(from, n).noalias() += dz.transpose() * tile->q.row(r);
}

void add_tile(Tile* tile) {
  const BackwardPiece& piece = tile->piece;
  tile->p->noalias() = tile->q * tile->k.transpose();
  *tile->p *= piece.call->scale;
  tile->dz->noalias() = tile->d_o * tile->v.transpose();
  bool whole = true;
  for (int64_t r = 0; r < piece.rows; ++r) {
    const Run run = next_run(*tile, piece.first + r, tile->first);
    whole = whole && run.count() == tile->keys;
  }
  for (int64_t r = 0; r < piece.rows; ++r) {
    const int64_t i = piece.first + r;
    for (Run run = next_run(*tile, i, tile->first); run.count() > 0;
         run = next_run(*tile, i, run.end)) {
      weigh(*tile, r, run);
      if (!whole) {
        add_run(tile, r, run);
      }
    }
  }
  if (whole) {
    tile->d_v.noalias() += tile->p->transpose() * tile->d_o;
    tile->d_q.noalias() += *tile->dz * tile->k;
    tile->d_k.noalias() += tile->dz->transpose() * tile->q;
  }
}

}  // namespace

qkvet_status gradient_with_eigen(const BackwardPiece& piece, qkvet_context*,
                                 qkvet_text* why) {
  const ForwardCall& call = *piece.call;
  const int64_t rows = piece.rows, d = call.width, dv = call.value_width;
  // The window moves to the right: no later row begins further left.
  const int64_t begin = call.in_reach(piece.first).begin;
  const int64_t end = call.in_reach(piece.first + rows - 1).end;
  try {
    for (int64_t j = begin; j < end; j += kGradientKeys) {
      const int64_t keys = std::min(kGradientKeys, end - j);
      Matrix p(rows, keys), dz(rows, keys);
      Tile tile = {piece,
                   j,
                   keys,
                   Input(piece.q, rows, d),
                   Input(piece.k + j * d, keys, d),
                   Input(piece.v + j * dv, keys, dv),
                   Input(piece.d_o, rows, dv),
                   Sums(piece.d_q, rows, d),
                   Sums(piece.d_k + j * d, keys, d),
                   Sums(piece.d_v + j * dv, keys, dv),
                   &p,
                   &dz};
      add_tile(&tile);
    }
  } catch (const std::bad_alloc&) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for a tile");
  }
  return QKVET_OK;
}

}  // namespace qkvet::impl

// SPDX-License-Identifier: Apache-2.0
// Tiled online softmax (FlashAttention) on AVX2 and FMA: no [Tq, Tk] buffer.
//
// K and V of a head are packed into panels of 16 keys and 16 columns. Six query
// rows at a time meet a tile of 128 keys: 6 x 16 scores in registers, row
// maxima, exponentials in place, then P V in registers again, six rows and 16
// columns at a time. Packing costs O(Tk (d + dv)) a head; tiles and panels
// beyond the diagonal are skipped.
//
// Up to 48 rows, as in decoding, meet rows of K and V in place: those are read
// once, eight rows of K are turned in registers, and the next tile is fetched
// meanwhile. Every sum has the same order, so the bits are the same.
//
// Arithmetic: a score is one FMA chain over c = 0, 1, ... and one product with
// the scale; P v is one FMA chain over the keys, rescaled once a tile; the
// denominator is summed in eight lanes; o = acc * (1 / sum).
//
// With options a function of the caller prepares every row of a tile: it
// finishes the scores and returns the runs of keys that the row sees. P V uses
// those runs, or all six rows together where they see the whole tile. Calls
// without options skip all this. A tile is left out if segments, ranges, chunks
// and a tree hide all its keys from all six rows.
//
// Half storage is converted to f32 on the way into the panels or, a tile at a
// time, to rows; o is rounded to it once, on the way out.
//
// Contract: any strides, addresses aligned to elements, no byte outside the
// tensors (tails by masked loads and stores); outputs apart from inputs. A key
// that a row does not see enters neither its maximum nor its sums, not even
// with weight 0: the product with V stops where the rows of a register tile
// begin to differ, and the rest is added row by row. NaN in a visible key or
// value makes its rows NaN.
#include "impl/avx2/flash_kernel.h"

#include <immintrin.h>
#include <math.h>
#include <stdint.h>

#include "impl/avx2/exp.h"
#include "impl/avx2/pack.h"
#include "impl/avx2/tile.h"

namespace qkvet::impl {
namespace {

// ---- Up to six rows against one tile of keys -------------------------------

struct MicroTile {
  const FlashRow* rows;
  const float* q;  // [d, R]
  TileKeys keys;
  float* scores;     // [R, kTileKeys]
  float* acc;        // [R, acc_step]
  int64_t acc_step;  // columns, padded to panels
  float* max;        // [R]
  float* sum;        // [R]
  bool* seen;        // [R], with options: whether the row has seen a key
};

// Keys of this tile that row r sees.
int64_t keys_in_tile(const FlashRow& row, int64_t first) {
  return max_of(0, min_of(kTileKeys, row.keys - first));
}

// Scores to weights: keys[r] of row r, 0 if it sees none of the tile. factor[r]
// rescales the sums so far; in a fresh tile there are none.
template <int R>
void softmax_tile(const MicroTile& t, const int64_t* keys, bool fresh,
                  float* factor) {
  alignas(32) float step[kLanes] = {};  // old maximum - new maximum
  for (int r = 0; r < R; ++r) {
    if (keys[r] > 0) {
      const float tile_max = row_maximum(t.scores + r * kTileKeys, keys[r]);
      const float old = t.max[r];
      t.max[r] = fresh || tile_max > old ? tile_max : old;
      step[r] = fresh ? 0 : old - t.max[r];
    }
  }
  _mm256_store_ps(factor, exp_nonpositive(_mm256_load_ps(step)));
  for (int r = 0; r < R; ++r) {
    if (keys[r] > 0) {
      const float sum =
          row_weights(t.scores + r * kTileKeys, keys[r], t.max[r]);
      t.sum[r] = fresh ? sum : t.sum[r] * factor[r] + sum;
    }
  }
}

template <int R>
void score_tile(const FlashHead& head, const MicroTile& t, int64_t keys) {
  if (head.one_block) {
    score_rows<R>(t.q, t.keys, keys, head.width, head.scale, t.scores);
    return;
  }
  for (int64_t j = 0; j < keys; j += kPanel) {
    score_panel<R>(t.q, t.keys.k + j * head.width, head.width, head.scale,
                   t.scores + j);
  }
}

template <int R, bool kFirst>
void multiply_values(const MicroTile& t, int64_t first, const float* factor) {
  const int64_t common = keys_in_tile(t.rows[0], first);
  for (int64_t c = 0; c < t.acc_step; c += kPanel) {
    const float* const v = t.keys.v + c / kPanel * t.keys.v_panel;
    value_panel<R, kFirst>(t.scores, v, t.keys.v_row, common, factor, t.acc + c,
                           t.acc_step);
    for (int r = 1; r < R; ++r) {
      const int64_t keys = keys_in_tile(t.rows[r], first);
      if (keys > common) {
        constexpr float kKeep = 1;
        value_panel<1, false>(t.scores + r * kTileKeys + common,
                              v + common * t.keys.v_row, t.keys.v_row,
                              keys - common, &kKeep, t.acc + r * t.acc_step + c,
                              t.acc_step);
      }
    }
  }
}

template <int R>
void add_tile(const FlashHead& head, const MicroTile& t, int64_t first) {
  int64_t keys[R];
  for (int r = 0; r < R; ++r) {
    keys[r] = keys_in_tile(t.rows[r], first);
  }
  if (keys[R - 1] == 0) {
    return;
  }
  score_tile<R>(head, t, keys[R - 1]);
  alignas(32) float factor[kLanes];
  softmax_tile<R>(t, keys, first == 0, factor);
  if (first == 0) {
    multiply_values<R, true>(t, first, factor);
  } else {
    multiply_values<R, false>(t, first, factor);
  }
}

void pack_queries(const FlashHead& head, const FlashRow* rows, int64_t count,
                  float* stage, float* to) {
  for (int64_t r = 0; r < count; ++r) {
    const float* q = static_cast<const float*>(rows[r].q);
    int64_t step = head.q_col;
    if (head.widen != nullptr) {
      head.widen(static_cast<const uint16_t*>(rows[r].q), step, head.width,
                 stage);
      q = stage;
      step = 1;
    }
    for (int64_t c = 0; c < head.width; ++c) {
      to[c * count + r] = q[c * step];
    }
  }
}

// o = acc * (1 / sum), or 0: value_width elements, `step` apart.
void write_output(const FlashHead& head, const float* acc, bool empty,
                  float sum, float* o, int64_t step) {
  if (step != 1 || empty) {
    const float inverse = empty ? 0 : 1 / sum;
    for (int64_t c = 0; c < head.value_width; ++c) {
      o[c * step] = empty ? 0 : acc[c] * inverse;
    }
    return;
  }
  const __m256 inverse = _mm256_set1_ps(1 / sum);
  for (int64_t c = 0; c < head.value_width; c += kLanes) {
    const __m256 x = _mm256_mul_ps(_mm256_load_ps(acc + c), inverse);
    const int64_t left = head.value_width - c;
    if (left >= kLanes) {
      _mm256_storeu_ps(o + c, x);
    } else {
      _mm256_maskstore_ps(o + c, first_lanes(left), x);
    }
  }
}

void write_row(const FlashHead& head, const FlashRow& row, const float* acc,
               float max, float sum, float* stage) {
  const bool empty = row.keys == 0;
  if (row.lse != nullptr) {
    *row.lse = empty ? -INFINITY : max + logf(sum);
  }
  if (head.narrow == nullptr) {
    write_output(head, acc, empty, sum, static_cast<float*>(row.o), head.o_col);
    return;
  }
  write_output(head, acc, empty, sum, stage, 1);
  head.narrow(stage, head.value_width, static_cast<uint16_t*>(row.o),
              head.o_col);
}

// ---- The same with options, where hidden keys have a score of -infinity -----

// P V of row r over its runs.
void multiply_runs(const float* v, const MicroTile& t, int64_t r,
                   const FlashRun* runs, int64_t count, const float* factor,
                   int64_t c) {
  constexpr float kKeep = 1;
  for (int64_t n = 0; n < count; ++n) {
    value_panel<1, false>(t.scores + r * kTileKeys + runs[n].begin,
                          v + runs[n].begin * t.keys.v_row, t.keys.v_row,
                          runs[n].end - runs[n].begin,
                          n == 0 ? factor + r : &kKeep,
                          t.acc + r * t.acc_step + c, t.acc_step);
  }
}

template <int R>
void add_prepared_tile(const FlashHead& head, const FlashOptions& options,
                       const MicroTile& t, int64_t first) {
  const int64_t keys = min_of(kTileKeys, head.keys - first);
  if (options.needs != nullptr &&
      !options.needs(options.call, t.rows, R, first, keys)) {
    return;
  }
  score_tile<R>(head, t, keys);
  FlashRun runs[R][kMostRuns];
  int64_t count[R], scores[R];
  bool together = true;
  for (int r = 0; r < R; ++r) {
    count[r] = options.prepare(options.call, t.rows[r], first, keys,
                               t.scores + r * kTileKeys, runs[r]);
    scores[r] = count[r] > 0 ? keys : 0;
    t.seen[r] = t.seen[r] || count[r] > 0;
    together = together && count[r] == 1 && runs[r][0].begin == 0 &&
               runs[r][0].end == keys;
  }
  alignas(32) float factor[kLanes];
  softmax_tile<R>(t, scores, false, factor);
  for (int64_t c = 0; c < t.acc_step; c += kPanel) {
    const float* const v = t.keys.v + c / kPanel * t.keys.v_panel;
    if (together) {
      value_panel<R, false>(t.scores, v, t.keys.v_row, keys, factor, t.acc + c,
                            t.acc_step);
      continue;
    }
    for (int r = 0; r < R; ++r) {
      multiply_runs(v, t, r, runs[r], count[r], factor, c);
    }
  }
}

// Keys and values of a head that a second-level cache does not hold.
constexpr int64_t kFarFloats = 1 << 19;

NextTile next_tile(const FlashHead& head, int64_t first) {
  if (head.keys * (head.width + head.value_width) <= kFarFloats) {
    return {};
  }
  const int64_t element = head.widen != nullptr ? 2 : 4;
  const int64_t k_row = head.k_row * element, v_row = head.v_row * element;
  return {static_cast<const char*>(head.k) + (first + kTileKeys) * k_row,
          static_cast<const char*>(head.v) + (first + kTileKeys) * v_row, k_row,
          v_row, element};
}

// Keys `first` and on, in panels.
TileKeys in_panels(const FlashHead& head, const FlashWorkspace& space,
                   int64_t first) {
  return {space.k + first * head.width, 0, 0, space.v + first * kPanel, kPanel,
          head.keys * kPanel,           {}};
}

// The same of half storage, in rows; values are padded to panels.
TileKeys widened(const FlashHead& head, const FlashWorkspace& space,
                 int64_t first) {
  const int64_t columns = panels_of(head.value_width) * kPanel;
  const int64_t end = min_of(first + kTileKeys, head.keys);
  float *k = space.k, *v = space.v;
  for (int64_t j = first; j < end; ++j, k += head.width, v += columns) {
    head.widen(static_cast<const uint16_t*>(head.k) + j * head.k_row,
               head.k_col, head.width, k);
    head.widen(static_cast<const uint16_t*>(head.v) + j * head.v_row,
               head.v_col, head.value_width, v);
    for (int64_t c = head.value_width; c < columns; ++c) {
      v[c] = 0;
    }
  }
  return {space.k, head.width, 1, space.v, columns, kPanel, {}};
}

// The same of f32 in place, but for values with gaps in their panels, or that
// end after their rows.
TileKeys in_place(const FlashHead& head, const FlashWorkspace& space,
                  int64_t first) {
  FlashHead tile = head;
  tile.keys = min_of(kTileKeys, head.keys - first);
  const float* const k = static_cast<const float*>(head.k) + first * head.k_row;
  const float* const v = static_cast<const float*>(head.v) + first * head.v_row;
  if (head.v_col == 1 && head.value_width % kPanel == 0) {
    return {k, head.k_row, head.k_col, v, head.v_row, kPanel, {}};
  }
  tile.v = v;
  pack_f32_values(tile, space.v);
  return {k, head.k_row, head.k_col, space.v, kPanel, tile.keys * kPanel, {}};
}

TileKeys tile_keys(const FlashHead& head, const FlashWorkspace& space,
                   int64_t first) {
  if (!head.one_block) {
    return in_panels(head, space, first);
  }
  TileKeys keys = head.widen != nullptr ? widened(head, space, first)
                                        : in_place(head, space, first);
  keys.next = next_tile(head, first);
  return keys;
}

// add.operator()<R>() for R = rows, which is a number of the compiler in
// register tiles.
template <class Add>
void with_rows(int64_t rows, const Add& add) {
  switch (rows) {
    case 1:
      return add.template operator()<1>();
    case 2:
      return add.template operator()<2>();
    case 3:
      return add.template operator()<3>();
    case 4:
      return add.template operator()<4>();
    case 5:
      return add.template operator()<5>();
    default:
      return add.template operator()<6>();
  }
}

}  // namespace

void flash_pack(const FlashHead& head, const FlashWorkspace& space) {
  if (head.widen != nullptr) {
    pack_half_keys(head, space.stage, space.k);
    pack_half_values(head, space.stage, space.v);
    return;
  }
  pack_f32_keys(head, space.k);
  pack_f32_values(head, space.v);
}

void flash_block(const FlashHead& head, const FlashOptions* options,
                 const FlashRow* rows, int64_t count,
                 const FlashWorkspace& space) {
  float max[kBlockRows], sum[kBlockRows];
  bool seen[kBlockRows] = {};
  const int64_t columns = panels_of(head.value_width) * kPanel;
  for (int64_t r = 0; r < count; ++r) {
    max[r] = rows[r].sink;
    sum[r] = rows[r].sink > -INFINITY ? 1 : 0;
  }
  for (int64_t c = 0; options != nullptr && c < count * columns; ++c) {
    space.acc[c] = 0;
  }
  for (int64_t r = 0; r < count; r += kMicroRows) {
    pack_queries(head, rows + r, min_of(kMicroRows, count - r), space.stage,
                 space.q + r * head.width);
  }
  // From row to row, neither end of the keys in reach moves back.
  const int64_t begin = rows[0].begin / kTileKeys * kTileKeys;
  const int64_t end = rows[count - 1].keys;
  for (int64_t first = begin; first < end; first += kTileKeys) {
    const TileKeys keys = tile_keys(head, space, first);
    for (int64_t r = 0; r < count; r += kMicroRows) {
      const MicroTile tile = {rows + r,
                              space.q + r * head.width,
                              keys,
                              space.scores,
                              space.acc + r * columns,
                              columns,
                              max + r,
                              sum + r,
                              seen + r};
      with_rows(min_of(kMicroRows, count - r), [&]<int R>() {
        if (options == nullptr) {
          add_tile<R>(head, tile, first);
        } else {
          add_prepared_tile<R>(head, *options, tile, first);
        }
      });
    }
  }
  for (int64_t r = 0; r < count; ++r) {
    FlashRow row = rows[r];
    row.keys = options == nullptr || seen[r] ? row.keys : 0;
    write_row(head, row, space.acc + r * columns, max[r], sum[r], space.stage);
  }
}

}  // namespace qkvet::impl

// SPDX-License-Identifier: Apache-2.0
// The border between the baseline code of the family and the one translation
// unit that may use AVX2 and FMA. Plain structs and pointers only.
#ifndef QKVET_IMPL_AVX2_FLASH_KERNEL_H_
#define QKVET_IMPL_AVX2_FLASH_KERNEL_H_

#include <stdint.h>

namespace qkvet::impl {

// Columns of a packed panel: two vectors.
constexpr int64_t kPanel = 16;
// Rows of a register tile: 6 x 2 accumulators of the 16 registers.
constexpr int64_t kMicroRows = 6;
// Rows that go through a key tile while it is in the cache.
constexpr int64_t kBlockRows = 8 * kMicroRows;
// Keys between two rescalings.
constexpr int64_t kTileKeys = 128;

// n elements of half storage, `step` apart, to f32, and back. NULL: f32
// storage.
using FlashWiden = void (*)(const uint16_t* from, int64_t step, int64_t n,
                            float* to);
using FlashNarrow = void (*)(const float* from, int64_t n, uint16_t* to,
                             int64_t step);

// One key/value head. Element (j, c) of k is number j * k_row + c * k_col.
struct FlashHead {
  const void* k;  // [Tk, d]
  const void* v;  // [Tk, dv]
  int64_t k_row, k_col, v_row, v_col;
  int64_t q_col, o_col;  // of the query rows
  int64_t keys;          // up to the last row's; no others are read
  bool one_block;        // all rows that meet these keys: none is packed
  int64_t width;         // d
  int64_t value_width;   // dv
  float scale;
  FlashWiden widen;
  FlashNarrow narrow;
};

// One query row of a head that shares these keys.
struct FlashRow {
  const void* q;  // [d]
  void* o;        // [dv]
  float* lse;     // NULL if not asked for
  int64_t keys;   // that it sees; 0: o = 0, lse = -inf
  // With options the row sees keys in [begin, keys), except those that the mask
  // hides; without, `begin` is 0 and there is no sink.
  int64_t begin;
  int64_t b, h, i;
  float sink;  // -infinity: none
};

// Keys of a tile, counted from its first one.
struct FlashRun {
  int64_t begin, end;
};
constexpr int64_t kMostRuns = (kTileKeys + 1) / 2;

// Turns scores[0, count), scale * q.k of the keys from `first` on, into those
// of the row: final if it sees the key, else -infinity. Writes the runs of
// visible keys, ascending; returns their number.
using FlashPrepare = int64_t (*)(const void* call, const FlashRow& row,
                                 int64_t first, int64_t count, float* scores,
                                 FlashRun* runs);

// Whether one of `count` rows sees a key of the `keys` from `first` on. A tile
// that no row sees is left out, which changes no bit.
using FlashNeeds = bool (*)(const void* call, const FlashRow* rows,
                            int64_t count, int64_t first, int64_t keys);

struct FlashOptions {
  const void* call;  // handed to both
  FlashPrepare prepare;
  FlashNeeds needs;  // NULL: all tiles are computed
};

// Scratch memory, aligned to 32 bytes, not initialised. k and v are those of a
// head, or of a tile if there is one block of rows.
struct FlashWorkspace {
  float* k;       // [panels of keys, d, kPanel]
  float* v;       // [panels of columns, keys, kPanel]
  float* q;       // [kBlockRows, d], six rows interleaved
  float* scores;  // [kMicroRows, kTileKeys]
  float* acc;     // [kBlockRows, panels of columns * kPanel]
  float* stage;   // [max(8 d, dv)], of half storage
};

// n contiguous elements of f16; needs F16C.
void widen_f16c(const uint16_t* from, int64_t n, float* to);

// Packs k and v of a head. Must precede the head's rows, unless these are one
// block.
void flash_pack(const FlashHead& head, const FlashWorkspace& space);

// Computes up to kBlockRows rows; from one row to the next, neither end of the
// keys in reach may move back. Without options (NULL) a row sees its first
// `keys` keys.
void flash_block(const FlashHead& head, const FlashOptions* options,
                 const FlashRow* rows, int64_t count,
                 const FlashWorkspace& space);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_AVX2_FLASH_KERNEL_H_

// SPDX-License-Identifier: Apache-2.0
// A row of the table of controls (table.cpp): the correct arithmetic of
// attention that a kernel has. The defaults are the plainest: sums one by one
// and ascending, products rounded, maximum first, divided at the end, in f32.
//
// engine.h computes the arithmetic of a row, declared.h derives the declaration
// that its author would make.
#ifndef QKVET_IMPL_CONTROLS_ARITHMETIC_H_
#define QKVET_IMPL_CONTROLS_ARITHMETIC_H_

#include <cstdint>

#include "impl/call/half.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

enum class Order : uint8_t {
  kAscending,
  kDescending,
  kHalves,   // by recursive halves
  kShuffled  // looks random, and is the same on every run
};

enum class Exp : uint8_t {
  kNatural,     // exp(s - m)
  kBase2,       // exp2((s - m) * log2(e))
  kPolynomial,  // poly_exp.h
  kCoarse,      // the same of degree 3, precise to some 14 bits
  // c = scale * log2(e): exp2(fma(q.k, c, -(m * c))). With options that add to
  // scores or cap them, or a sink, scores are in base 2: fma(q.k, c, b *
  // log2(e)), and exp2 of their differences.
  kFolded,
  kPrescaled  // q is multiplied by c first, and exp2(s - m)
};

enum class Merge : uint8_t {
  kNone,
  kMlo,  // (max, sum, o), one part after the other
  kLse   // each part a softmax of its own, weighted by exp(lse of it - lse)
};

// The place where P is rounded, and the half format.
enum class P : uint8_t {
  kUnrounded,
  kStorage,     // on its way into P v, to the storage type
  kSummed,      // the same, before the denominator adds it, to `p_type`
  kNormalised,  // the same, after its division
};

enum class Sink : uint8_t {
  kFirst,  // the softmax begins with it
  kLast,   // a part of its own after the last key; may raise the maximum
  kAdded   // added at the end, against the maximum of the keys
};

enum class Alibi : uint8_t {
  kDistance,    // slope * |position - j|
  kDifference,  // slope * j - slope * position
  kShift,       // slope * j alone, if no key is past the diagonal: the rest of
                // the term shifts all scores of the row alike
  kByPosition   // kDifference in double, rounded once
};

enum class Bias : uint8_t {
  kOneByOne,      // (s + b) - alibi
  kTogether,      // s + (b - alibi)
  kFirst,         // (q.k + (b - alibi) / scale) * scale
  kFirstInDouble  // (q.k + b / scale) * scale, the quotient and the sum in
                  // double: if a bias nearly cancels q.k, its rounding would
                  // otherwise remain, and no knob declares that
};

enum class Tanh : uint8_t {
  kLibrary,
  kByExp,          // 1 - 2 / (exp(2 x) + 1)
  kByExpFromHalf,  // the same where it does not cancel, |x| >= 0.5
  kByCoarseExp,    // (1 - e) / (1 + e), e = exp(-2 |x|) of Exp::kCoarse
  kInF16           // stored in f16
};

enum class Log : uint8_t {
  kLibrary,
  kCoarse  // poly_exp.h
};

// Keys that a row does not see.
enum class Hidden : uint8_t {
  kLeftOut,
  kPlaced,    // have a place in tiles, parts and halves, and no weight
  kBiased,    // walked with a bias of -infinity
  kReplaced,  // walked with a score of -infinity
  kCleared    // walked, their weights replaced by 0 after exp
};

struct Arithmetic {
  Order dot = Order::kAscending;
  int lanes = 1;     // of q.k: term c goes to lane c mod lanes, then halves
  bool fma = false;  // products of q.k and P v meet their sums unrounded
  bool root_scale = false;  // sqrt(scale) on q, and on k
  bool scaled_q = false;    // the scale on q, in natural units
  Exp exp = Exp::kNatural;
  Order value = Order::kAscending;
  int tile = 0;           // keys; 0: all
  bool tile_sum = false;  // the denominator of a tile is summed separately
  float lag = 0;          // natural log units by which the maximum may lag
  int parts = 1;          // of equal length, the last ones shorter or empty
  Merge merge = Merge::kNone;
  bool norm_first = false;  // weights are divided, and then meet the values
  bool reciprocal = false;  // 1 / sum, then products
  bool ftz = false;         // subnormal results and inputs are 0
  P p = P::kUnrounded;
  Storage p_type = Storage::kBf16;
  // Types that these are rounded to in any storage; f32: not rounded.
  Storage scores = Storage::kF32;    // each time they are stored
  Storage operands = Storage::kF32;  // q, k and v; `p` is for P
  Storage lse = Storage::kF32;       // as it is returned
  Storage sinks = Storage::kF32;     // as they are read
  Storage softmax = Storage::kF32;   // each of its results
  // The type of sums: each product, unless it is fused, each partial sum and
  // each rescale.
  Storage dot_sums = Storage::kF32;    // of q k
  Storage value_sums = Storage::kF32;  // of P v
  Storage totals = Storage::kF32;      // of weights; f16 as `softmax` alone
  // A tensor core: products in blocks of this size, on a grid with this many
  // bits more than f32. 0: none.
  int block = 0;
  int extra_bits = 0;
  bool cuts_down = false;  // towards minus infinity, not towards 0
  bool fast = false;       // exp2, quotients and logarithms of a device
  Sink sink = Sink::kFirst;
  Alibi alibi = Alibi::kDistance;
  Bias bias = Bias::kOneByOne;
  Tanh tanh = Tanh::kLibrary;
  Log log = Log::kLibrary;
  Hidden hidden = Hidden::kLeftOut;
  // Any score of a tile can cause a rescale, even a hidden one.
  bool votes_before_mask = false;
  // Declared as dialect.
  int32_t empty_row = QKVET_EMPTY_ROW_ZERO;
  int32_t empty_row_lse = QKVET_EMPTY_LSE_MINUS_INF;
  bool sink_alone = false;    // a row without a key has the sink's softmax
  bool empty_by_way = false;  // NaN by the mask, 0 by every other reason
  bool nan_weighs_nothing = false;
  bool lse_base2 = false;
  bool softcap_last = false;  // bias and ALiBi are capped with the score
  bool sink_in_lse = true;
  bool ranges_in_window = false;
  bool says_nothing = false;  // no dialect is declared
  // Declared as capabilities, in addition to derived ones.
  uint64_t without = 0;  // QKVET_OPTION_*
  uint64_t more = 0;     // the same
  bool f32_only = false;
  bool half_only = false;
};

constexpr bool walks_hidden_keys(const Arithmetic& a) {
  return a.hidden == Hidden::kBiased || a.hidden == Hidden::kReplaced ||
         a.hidden == Hidden::kCleared;
}

inline constexpr int kMostLanes = 8;
inline constexpr int kMostParts = 8;

// Whether the engine implements this combination.
constexpr bool is_computable(const Arithmetic& a) {
  const bool whole = a.tile == 0 && a.parts == 1;
  const bool by_lse = a.merge == Merge::kLse;
  return a.lanes <= kMostLanes && a.parts <= kMostParts &&
         (a.lanes & (a.lanes - 1)) == 0 &&
         (a.parts > 1) == (a.merge != Merge::kNone) &&
         (a.lanes == 1 || a.dot == Order::kAscending) &&
         (!a.root_scale || (a.lanes == 1 && a.dot == Order::kAscending &&
                            !a.fma && a.block == 0 && a.exp == Exp::kNatural &&
                            a.bias == Bias::kOneByOne)) &&
         (whole || (!a.norm_first && a.value != Order::kShuffled)) &&
         (!a.scaled_q || (a.exp == Exp::kNatural && !a.root_scale &&
                          a.bias == Bias::kOneByOne)) &&
         (a.operands == Storage::kF32 ||
          (a.lanes == 1 && a.dot == Order::kAscending && !a.fma &&
           a.block == 0 && !a.root_scale && a.value != Order::kHalves &&
           (a.p == P::kStorage || a.p == P::kNormalised))) &&
         (by_lse ? a.exp == Exp::kNatural : true) &&
         (a.softmax == Storage::kF32 ||
          (a.exp == Exp::kNatural && !by_lse && a.scores == a.softmax &&
           a.sinks == a.softmax && !a.reciprocal && !a.fast)) &&
         (!walks_hidden_keys(a) ||
          ((whole || a.votes_before_mask) && a.exp == Exp::kNatural)) &&
         (!a.votes_before_mask ||
          (a.hidden == Hidden::kCleared && a.lag > 0)) &&
         (a.dot_sums == Storage::kF32 ||
          (a.lanes == 1 && a.dot == Order::kAscending && a.block == 0 &&
           a.operands == Storage::kF32 && !a.root_scale)) &&
         (a.value_sums == Storage::kF32 ||
          (a.value != Order::kHalves && a.block == 0 && !by_lse &&
           a.operands == Storage::kF32)) &&
         (a.totals == Storage::kF32 ||
          (a.totals == Storage::kF16 && a.softmax == a.totals && !a.tile_sum &&
           a.value == Order::kAscending)) &&
         (a.p != P::kNormalised || a.norm_first);
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CONTROLS_ARITHMETIC_H_

// SPDX-License-Identifier: Apache-2.0
// Inside of the bound: what is kept of a problem, and what the passes over one
// row hand to each other. Symbols and derivations: bounds.md.
#ifndef QKVET_REFERENCE_BOUND_BOUND_IMPL_H_
#define QKVET_REFERENCE_BOUND_BOUND_IMPL_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "core/call/option_numbers.h"
#include "reference/bound/bound.h"

namespace qkvet::reference {

// Data of a row per visible key are stored by rank: rank a = 0 .. n-1 is the
// a-th of these keys, in ascending order.
struct BoundFacts::Impl {
  Shape shape;
  double scale = 1;  // |scale|
  bool scale_given = false;
#define QKVET_OPTION_NUMBER(name, ...) double name = 0;
#include "core/call/option_numbers.def"
  bool softcap_after_bias = false;
  bool sink_in_lse = true;
  std::vector<double> q;         // [B,H,Tq,d]
  std::vector<double> k;         // [B,Hkv,Tk,d]
  std::vector<double> v;         // [B,Hkv,Tk,dv]
  std::vector<double> o;         // [B,H,Tq,dv]
  std::vector<double> lse;       // [B,H,Tq]
  std::vector<double> v_size;    // [B,Hkv,Tk,dv] |v|, as read
  std::vector<double> v_error;   // [B,Hkv,Tk,dv] or empty: dv
  std::vector<int64_t> visible;  // [B,H,Tq]     n, or kRowNotCounted
  // [B,H,Tq,Tk] by rank, or empty if every row sees a prefix of the keys.
  std::vector<int64_t> keys;

  // Sizes "as read" are those of the kernel's inputs at most: |x| + dx.
  std::vector<double> weights;  // [B,H,Tq,Tk] by rank: p_j
  std::vector<double> score;    // [B,H,Tq,Tk] by rank: s_j
  std::vector<double>
      magnitude;               // [B,H,Tq,Tk] by rank: sum |q_c k_jc|, as read
  std::vector<double> drift;   // [B,H,Tq,Tk] by rank, or empty: Delta_j
  std::vector<double> scaled;  // the same: c q k, if it is not the score
  std::vector<double> bias;    // the same: b_j
  std::vector<double> alibi;   // the same: slope |diagonal - j|
  std::vector<double> reference;   // the same: |slope| (|diagonal| + j)
  std::vector<double> top;         // [B,H,Tq]     m, of keys and sink
  std::vector<double> total;       // [B,H,Tq]     L, sink included
  std::vector<double> shift;       // [B,H,Tq] or empty: |slope| |diagonal|
  std::vector<double> sink;        // [B,H,Tq] or empty: z
  std::vector<double> sink_share;  // [B,H,Tq] or empty: p of the sink
  std::vector<double> q_sum;       // [B,H,Tq]     sum_c |q_c|, as read
  std::vector<double> q_max;       // [B,H,Tq]     max_c |q_c|, as read
  std::vector<double> k_sum;       // [B,Hkv,Tk]   sum_c |k_jc|, as read
  // Exponent of the lowest set bit of all elements; kNoGrid if all are zero.
  std::vector<int> q_grid;  // [B,H,Tq]
  std::vector<int> k_grid;  // [B,Hkv,Tk]

  // Over the keys that the row sees.
  std::vector<double> v_sum;       // [B,H,Tq,dv]  sum_j |v_jt|, as read
  std::vector<double> v_max;       // [B,H,Tq,dv]  max_j |v_jt|, as read
  std::vector<double> v_drift;     // [B,H,Tq,dv] or empty: max_j dv_jt
  std::vector<double> spread;      // [B,H,Tq,dv]  max_j |v_jt - o_t|
  std::vector<double> deviation;   // [B,H,Tq,dv]  sum_j |v_jt - o_t|
  std::vector<uint8_t> v_integer;  // [B,H,Tq,dv] every v_jt is an exact integer
  // Over all keys of the member.
  std::vector<double> reach;  // [B,H,Tq,dv]
};

inline constexpr double kLog2E = 0x1.71547652b82fep0;

// Above every exponent that a double can have, and safe to add to itself.
inline constexpr int kNoGrid = 1 << 20;

// The facts for a model that may round q, k and v: they depend on it then.
BoundFacts with_rounded_operands(const BoundFacts& facts,
                                 const PrecisionModel& model);

// Exponent of the lowest set bit of a finite x; kNoGrid for 0.
int lowest_bit(double x);

// Unit roundoff of the oracle's own arithmetic.
inline constexpr double kOracleU = 0x1p-53;

// One row of the facts. Arrays of [n] are by rank, those of [Tk] by key.
struct RowView {
  int64_t n = 0;   // visible keys; at most 0: nothing to judge
  int64_t Tk = 0;  // all keys
  int64_t d = 0;
  int64_t dv = 0;
  double scale = 1;  // |scale|
  bool scale_given = false;
#define QKVET_OPTION_NUMBER(name, ...) double name = 0;
#include "core/call/option_numbers.def"
  bool softcap_after_bias = false;
  bool sink_in_lse = true;
  double top = 0;    // m
  double total = 1;  // L
  double lse = 0;
  double shift = 0;  // |slope| |diagonal|
  double q_sum = 0;
  double q_max = 0;
  int q_grid = 0;
  const int64_t* keys = nullptr;       // [n], or null: 0 .. n-1
  const double* q = nullptr;           // [d]
  const double* k = nullptr;           // [Tk,d]
  const double* k_sum = nullptr;       // [Tk]
  const int* k_grid = nullptr;         // [Tk]
  const double* v = nullptr;           // [Tk,dv]
  const double* v_size = nullptr;      // [Tk,dv]
  const double* v_error = nullptr;     // [Tk,dv], or null: exact
  const double* o = nullptr;           // [dv]
  const double* p = nullptr;           // [n]
  const double* score = nullptr;       // [n]
  const double* magnitude = nullptr;   // [n], without the scale
  const double* drift = nullptr;       // [n], or null: exact
  const double* scaled = nullptr;      // [n], or null: the score itself
  const double* bias = nullptr;        // [n], or null: 0
  const double* alibi = nullptr;       // [n], or null: 0
  const double* reference = nullptr;   // [n], or null: 0
  const double* sink = nullptr;        // [1], or null: none
  const double* sink_share = nullptr;  // [1]
  const double* v_sum = nullptr;       // [dv]
  const double* v_max = nullptr;       // [dv]
  const double* v_drift = nullptr;     // [dv], or null: exact
  const double* spread = nullptr;      // [dv]
  const double* deviation = nullptr;   // [dv]
  const uint8_t* v_integer = nullptr;  // [dv]

  int64_t key(int64_t rank) const {
    return keys != nullptr ? keys[rank] : rank;
  }
  // Terms of the denominator.
  int64_t terms() const { return sink != nullptr ? n + 1 : n; }
  // Whether something that is not q k is part of the scores.
  bool added() const { return bias != nullptr || alibi != nullptr; }
};

RowView row_view(const BoundFacts::Impl& facts, int64_t row);

// Every vector that a row needs, allocated once per problem.
struct RowScratch {
  RowScratch(const Shape& shape, const PrecisionModel& model);
  // By rank; the sink comes last, of rank n.
  std::vector<double> share_exact;     // [Tk+1]  p_j
  std::vector<double> score_error;     // [Tk+1]  e_j
  std::vector<double> exponent_error;  // [Tk+1]  E_j
  std::vector<double> excess;          // [Tk+1]  w_j (exp(E_j) - 1)
  std::vector<double> share;           // [Tk+1]  qU_j
  std::vector<double> rounding;        // [Tk+1]  r_j
  std::vector<double> entering;        // [Tk+1]  qU_j + r_j, if r_separate
  std::vector<double> moved;           // [dv]
  std::vector<double> carried;         // [dv]  dw
  std::vector<double> absolute;        // [dv]
  std::vector<double> largest;         // [dv]
  std::vector<double> limit;           // [dv]
  std::vector<double> added;           // [dv]
  std::vector<double> rounded;         // [dv]  pr
  std::vector<double> partial;         // [dv]
  std::vector<double> window;          // [dv]
  std::vector<double> peak;            // [dv]  largest partial sum
  std::vector<double> ordered;         // [dv]
  std::vector<double> lane;            // [dot_lanes]
  std::vector<double> lane_cost;       // [dot_lanes]
};

// Results of the passes over the scores of a row.
struct RowErrors {
  bool unjudged = false;  // overflow is legitimate, or the model has no bound
  bool flat = false;      // all weights are exactly 1
  int64_t rescales = 0;   // R
  double lambda = 0;      // absolute error of an operation that underflows
  double log_n = 0;
  double log_most = 0;  // of |ln| of a sum of weights, as it is computed
  double largest_argument = 0;  // of exp, before it overflows
  double growth = 1;            // the largest weight: exp(lazy)
  double evaluation = 1;        // times which a bound is at most itself
  double epsb = 0;              // eps / (1 - eps)
  double score_max = 0;         // emax
  // The largest score of a key; m, unless a sink is above it.
  double keys_top = -std::numeric_limits<double>::infinity();
  double exponent_max = 0;  // largest E_j, single keys included
  double floor = 0;         // phi, with every event that can add it
  double sum_excess = 0;    // sum_j excess_j
  double least_sum = 1;     // D
  double deviance = 0;      // sum_j |computed p_j - p_j| is at most this
  double log_up = 0;        // the largest excess of ln L over the truth ...
  double log_down = 0;      // ... and below
  double eta = 0;           // relative error of the computed sum of weights
  double merge = 0;         // nc
  // For the keys alone, where a sink stays out of the lse.
  double keys_log_up = 0;
  double keys_log_down = 0;
  double keys_eta = 0;
  double keys_part = 1;  // of the computed sum, at least
  // Rounded P; all zero where P is not rounded.
  bool r_separate = false;  // r_j is not part of excess_j and qU_j
  double r_sum = 0;         // sum_j r_j
  double r_cap = 0;         // sum_j r_j |v_j| is at most this times max |v|
};

// exp stays finite up to here, with room for a sum over keys.
inline constexpr double kLargestExponent = 600;
// Stands for a sum that rounding errors may have consumed: the hull of V takes
// over where it appears as a divisor.
inline constexpr double kNothing = 1e-280;

// Second-order terms: products of two roundings are at most 16 u of the first
// order, because no derivation below drops more than eight of them.
inline double second_order(double u) { return 1 + 16 * u; }

// ceil(log2(n)), n >= 1.
int ceil_log2(int64_t n);

// Whether one accumulator takes the keys in ascending order.
bool single_ascending(const PrecisionModel& model);

// block_cost() of a sum over the keys of the row: blocks may begin anew in each
// tile and each part.
double key_block_cost(const RowView& row, const PrecisionModel& model,
                      int64_t terms);

// Additions that a term of a sum over keys passes at most; negative: unknown.
double value_depth(const RowView& row, const PrecisionModel& model);

// How far, as a logarithm, the weight of the key that is the maximum can be
// from 1.
double own_exponent(const RowView& row, const PrecisionModel& model,
                    const RowErrors& errors);

// Relative error of a scale, or of both roots of one, that is stored as the
// softmax stores its numbers; 0 if it is not.
double stored_scale(double c, const PrecisionModel& model);

// Values that all scores of a row share.
struct ScoreTerms {
  ScoreTerms(const RowView& row, const PrecisionModel& model, double lambda);
  double lambda;  // absolute error of an operation that underflows
  double depth;   // additions that a product passes at most; < 0: unknown
  double sum_u;
  double exact_u;
  double unit;    // largest factor after the sum of q k
  double stored;  // relative error of a scale that is stored
  int least_exponent;
  bool short_scale;  // it is subnormal
  double blocks;     // what block adders cost in units of the sum
  double floor;      // of products that underflow where they are stored
};

// How far the computed c q k of rank `j` can be from its truth.
double scaled_error(const RowView& row, const PrecisionModel& model,
                    const ScoreTerms& terms, int64_t j, RowScratch& scratch);

// Whether a partial sum of q k may be beyond the type that it is kept in.
bool dot_overflows(const RowView& row, const PrecisionModel& model, int64_t j);

// From the error `e` of c q k of rank `a` to the error of the score.
double option_error(const RowView& row, const PrecisionModel& model, int64_t a,
                    double e, double lambda);

// The part of E from the oracle's own rounding of the options.
double oracle_option_error(const RowView& row, int64_t a);

// How far the sink that a kernel reads is from the given one.
double sink_rounding(const RowView& row, const PrecisionModel& model);

// The error of the sink's score.
double sink_error(const RowView& row, const PrecisionModel& model);

// Whether the model combines scores and biases in no single known way.
inline bool combines_anyhow(const PrecisionModel& model) {
  return model.scale_stage != ScaleStage::kAfterDot;
}

// The largest distance of the sink above the maximum used for its weight; 0
// without a sink.
double sink_gap(const RowView& row, const RowErrors& errors);

// Whether a bias, a cap or a sink may legitimately overflow.
bool options_overflow(const RowView& row, const PrecisionModel& model);

// Below the maximum by more than this, a weight is nothing whatever its score:
// -infinity is as good.
inline double far_below(const PrecisionModel& model) {
  return 2 * model.range.largest_argument;
}

// At most this is 1, in units of the computed maximum, of the computed sum of
// weights.
double unit_share(const RowView& row, const PrecisionModel& model,
                  const RowErrors& errors);

// Fills share_exact, score_error, exponent_error, excess and share.
RowErrors bound_scores(const RowView& row, const PrecisionModel& model,
                       RowScratch& scratch);

// The shares that P v adds.
inline const double* entering_shares(const RowErrors& errors,
                                     const RowScratch& scratch) {
  return errors.r_separate ? scratch.entering.data() : scratch.share.data();
}

// P is rounded on its way into P v: fills rounding and entering, or widens
// excess and share where the denominator adds rounded P.
void round_weights(const RowView& row, const PrecisionModel& model,
                   RowErrors& errors, RowScratch& scratch);

double lse_bound(const RowView& row, const PrecisionModel& model,
                 const RowErrors& errors);

// The bound of the weight of rank `a`, or of the sink's: that of o for a
// one-hot column of V, plus the rounding of storage.
double weight_bound(const RowView& row, const PrecisionModel& model,
                    const RowErrors& errors, const RowScratch& scratch,
                    int64_t a);

// Writes the bound of the dv outputs of the row.
void bound_columns(const RowView& row, const PrecisionModel& model,
                   const RowErrors& errors, RowScratch& scratch, double* bound);

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_BOUND_BOUND_IMPL_H_

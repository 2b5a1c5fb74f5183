// SPDX-License-Identifier: Apache-2.0
// One row of attention in the arithmetic of a row of the table
// (arithmetic.h). Each operation rounds in place, without contraction and
// reassociation, so a control's declaration can be read off the code:
// scores.cpp has dot products and options, sums.cpp numbers and sums over
// keys, engine.cpp the softmax.
#ifndef QKVET_IMPL_CONTROLS_ENGINE_H_
#define QKVET_IMPL_CONTROLS_ENGINE_H_

#include <cmath>
#include <cstdint>
#include <limits>

#include "impl/controls/arithmetic.h"
#include "impl/controls/seeded.h"
#include "impl/skeletons/row_skeleton.h"

namespace qkvet::impl {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
// log2(e) as a float: off by 0.23 units of 2^-24.
inline constexpr float kLog2E = 1.44269504f;
inline constexpr float kLn2 = 0.693147181f;

class RowEngine {
 public:
  RowEngine(const Row& row, const Arithmetic& arithmetic);
  // Writes o, lse and, if requested, weights.
  void run();

 private:
  // The unit of scores.
  enum class Unit : uint8_t {
    kNatural,
    kBase2,
    kProduct  // q.k, times the scale
  };
  // The result of some keys, in units of exp(max) and not divided yet.
  struct Part {
    float max = -kInfinity;
    float sum = 0;
    float keys = 0;  // the sum without the sink
    float* acc = nullptr;
  };
  // Keys that are visited one after the other, numbers [begin, end) of the
  // visit, between the places [first, last).
  struct Group {
    int64_t begin, end, first, last;
    int64_t count() const { return end - begin; }
  };

  // scores.cpp
  void score();
  float dot(const float* k) const;
  float dot_in_blocks(const float* k) const;
  float dot_kept(const float* k) const;
  float option_score(float product, int64_t n) const;
  float natural_score(float product, int64_t n) const;
  float base2_score(float product, int64_t n) const;
  float alibi(int64_t n) const;
  float hyperbolic_tangent(float x) const;
  bool is_hidden(int64_t n) const {
    return walks_ && row_.terms.bias[n] == -kInfinity;
  }

  // sums.cpp
  float stored(float x) const { return round_to(a_.softmax, x); }
  // A product or a partial sum of P v.
  float kept(float x) const {
    return in_half(a_.value_sums, x, Seeded::kTruncatedSums);
  }
  // Rounded, or truncated if that is seeded.
  float in_half(Storage type, float x, Seeded cuts) const;
  float weight(float s, float max) const;
  float factor(float from, float to) const;
  float natural(float s) const;
  float log(float x) const;
  float divided(float x, float sum) const;
  float rounded_p(float p) const;
  void weigh(const Group& tile, float max) const;
  template <class Term>
  float by_halves(const Group& terms, const Term& term) const;
  float sum_in_blocks(const Group& tile, float start) const;
  float sum_of(const Group& tile, float start) const;
  void add_value(int64_t n, float* acc) const;
  void add_kept(float w, const float* v, float* acc) const;
  void add_blocks(const Group& tile, float* acc) const;
  void add_values(const Group& tile, float* acc) const;

  // engine.cpp
  int64_t key(int64_t visit) const {
    return a_.value == Order::kDescending ? keys_ - 1 - visit : visit;
  }
  int64_t place(int64_t visit) const;
  int64_t visits_before(int64_t begin, int64_t end, int64_t limit) const;
  Group group(int64_t begin, int64_t first, int64_t last) const;
  void absorb(Part* part, const Group& keys, bool with_values) const;
  void absorb_tile(Part* part, const Group& tile, bool with_values) const;
  Part nothing(float* acc) const;
  void raise(Part* part, float max) const;
  void absorb_sink(Part* part);
  void fold(Part* all, const Part& part) const;
  Part folded_parts();
  void merge_by_lse();
  void divide_first();
  void finish(const Part& all) const;
  template <class Final>
  void write_output(const Final& finished) const;
  void write_lse(float max, float sum) const;
  void write_lse_of(float lse) const;
  void write_weights(float max, float sum) const;

  const Row& row_;
  const Arithmetic& a_;
  const Deviation off_;
  const bool walks_;
  int64_t keys_;
  int64_t places_;
  float scale_;
  float root_ = 1;  // of the scale, where both sides have one
  bool negative_;
  Unit unit_ = Unit::kNatural;
  float factor_ = 0;  // scale * log2(e)
  bool cap_first_;
  bool options_;         // scores are more than scale * q.k
  float lse_shift_ = 0;  // ALiBi of position 0
  float sink_;           // in units of the scores; -infinity: none
  bool sink_in_lse_;
  float lse_of_keys_ = 0;
  Storage storage_;
  P p_;
  int block_, extra_bits_;
};

// The Arithmetic of row_skeleton.h for the table row at row.user.
struct Controlled {
  static constexpr bool kReturnsWeights = true;
  static void row(const Row& row);
  static void empty_row(const Row& row);
};
struct ControlledOverAll : Controlled {
  static constexpr bool kWalksHiddenKeys = true;
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CONTROLS_ENGINE_H_

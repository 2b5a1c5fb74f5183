// SPDX-License-Identifier: Apache-2.0
// Inside of dropout: each row as a call of its own. A row with dropout is a row
// without it, with the values f_ij v_j.
#ifndef QKVET_REFERENCE_OPTIONS_DROPOUT_ROWS_H_
#define QKVET_REFERENCE_OPTIONS_DROPOUT_ROWS_H_

#include <cstdint>
#include <vector>

#include "reference/options/dropout.h"

namespace qkvet::reference {

// A kernel may round 1 - p, its reciprocal, the product with a weight, and p
// itself on the way into a wider format's f.
inline constexpr double kDropoutRoundings = 4;

class DropoutRow {
 public:
  // `forward` is the oracle's. Both outlive this.
  DropoutRow(const DropoutProblem& problem, const OracleOutput& forward);

  // Row `row` of [B,H,Tq], which sees a key.
  void move_to(int64_t row);
  // One query; keys keep their positions.
  const Problem& problem() const { return problem_; }
  // The oracle's output for it, with this output [dv].
  OracleOutput output() const;
  // 1 / (1 - p) where the key is kept, else 0.
  double factor(int64_t key) const;
  int64_t kv_head() const { return kv_; }  // of [B,Hkv]
  int64_t head() const { return h_; }
  // Errors of |f v| for a kernel of unit roundoff u, [Tk,dv].
  const std::vector<double>& value_errors(const PrecisionModel& model);
  // [dv]: sum of |f v| over the keys that the row sees.
  std::vector<double> value_sums() const;

 private:
  const DropoutProblem& all_;
  const OracleOutput& forward_;
  Problem problem_;
  int64_t row_ = 0, h_ = 0, kv_ = 0;
  int64_t keys_ = 0;            // that count
  std::vector<double> values_;  // [Tk,dv]
  std::vector<double> errors_;  // [Tk,dv]
};

// The decisions of the definition, for seeded faults to replace.
struct PlainDropoutHooks {
  static double factor(double p) { return 1 / (1 - p); }
  static bool keeps(uint8_t kept) { return kept != 0; }
};

template <class Hooks>
OracleOutput plain_dropout_with(const DropoutProblem& problem) {
  OracleOutput out = plain_forward(problem.forward);
  const Shape& s = problem.forward.shape;
  const double factor = Hooks::factor(problem.p);
  for (int64_t row = 0; row < s.lse_elements(); ++row) {
    if (out.visible[row] <= 0) continue;
    const int64_t b = row / (s.H * s.Tq), h = row / s.Tq % s.H;
    const double* v =
        problem.forward.v + (b * s.Hkv + h / s.group()) * s.Tk * s.dv;
    double* o = out.o.data() + row * s.dv;
    std::fill_n(o, s.dv, 0.0);
    for (int64_t j = 0; j < s.Tk; ++j) {
      const int64_t pair = row * s.Tk + j;
      if (out.sees[pair] == 0 || !Hooks::keeps(problem.kept[pair])) continue;
      const double weight = factor * out.weights[pair];
      for (int64_t t = 0; t < s.dv; ++t) o[t] += weight * v[j * s.dv + t];
    }
  }
  return out;
}

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_OPTIONS_DROPOUT_ROWS_H_

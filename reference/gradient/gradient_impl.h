// SPDX-License-Identifier: Apache-2.0
// Inside of the bound of a gradient: what one row hands to the sums over keys
// and rows, and these sums. Symbols and derivations: bounds.md, "Gradients".
#ifndef QKVET_REFERENCE_GRADIENT_GRADIENT_IMPL_H_
#define QKVET_REFERENCE_GRADIENT_GRADIENT_IMPL_H_

#include <cstdint>
#include <vector>

#include "reference/bound/bound_impl.h"
#include "reference/gradient/plain_gradient.h"

namespace qkvet::reference {

// Bounds of 0.
inline GradientBound zero_bound(const Problem& call) {
  const GradientOutput zero = zero_gradient(call);
  return {zero.q, zero.k, zero.v, zero.bias, zero.sink, zero};
}

// The rounding of P and dS to a half format, and the model without it.
struct GradientModel {
  explicit GradientModel(const PrecisionModel& of_case);
  PrecisionModel model;        // P not rounded, nothing stored
  double half_u = 0;           // u_p, 0: nothing is rounded to a half format
  double half_floor = 0;       // a_p
  double half_largest = 0;     // of its format
  bool rounded_first = false;  // everything may use rounded P
  // dP, dS and dZ as they are stored, each once; and dS where that is not what
  // the softmax stores it as anyway.
  Rounding pair;
  Rounding share;
  bool pair_is_operand = false;  // dZ is rounded to one type, once
  double lse_roundings = 0;      // n_lse
  double lambda = 0;
};

// rho(x, a): what rounding x to the half format of `m` costs at most.
double half_rounding(const GradientModel& m, double x, double floor);

// Facts about V that the rows of a kv head share.
struct ValueFacts {
  ValueFacts(const BoundFacts::Impl& facts, int64_t kv);
  // Reads the key only: others may hold anything.
  void look_at(int64_t key);
  const double* v;  // [Tk,dv]
  int64_t dv;
  std::vector<uint8_t> known;  // [Tk]
  std::vector<int> grid;       // [Tk]
  std::vector<double> sum;     // [Tk] sum_t |v_jt|
};

// One row of the call, as the gradient sees it.
struct GradientRow {
  RowView row;
  const double* g = nullptr;        // [dv]
  const double* g_off = nullptr;    // [dv], or null: exact
  const double* o_given = nullptr;  // [dv]
  const double* o_off = nullptr;    // [dv], or null: exact
  double lse_given = 0;
  bool lse_in_base2 = false;
  double z = 0;  // the sink
  bool has_sink = false;
};

// Results of a row for later sums, by rank: exact sizes, computed sizes, and
// errors.
struct GradientPairs {
  explicit GradientPairs(int64_t Tk)
      : p_size(Tk),
        p_off(Tk),
        z(Tk),
        z_size(Tk),
        z_off(Tk),
        s_off(Tk),
        reach(Tk) {}
  bool unjudged = false;
  std::vector<double> p_size;  // p + eP + r
  std::vector<double> p_off;   // eP + r
  std::vector<double> z;       // |dZ|
  std::vector<double> z_size;  // |dZ| + edZ + r
  std::vector<double> z_off;   // edZ + r
  std::vector<double> s_off;   // of dbias: edS, or edZ
  std::vector<double> reach;   // of dbias: |p dP| + |p D|
  // For dsink: |p_z D|, the same as computed, and its distance.
  double sink = 0;
  double sink_size = 0;
  double sink_off = 0;
};

// A dot product in any order.
struct GradientDot {
  double value = 0;
  double size = 0;   // sum of the sizes of its terms, as read
  double drift = 0;  // what uncertain factors move it by
  double floor = 0;  // what underflow does
  double off = 0;    // its error, all in all
};

// Everything a row needs while it runs.
struct GradientScratch {
  GradientScratch(const Shape& shape, const PrecisionModel& model)
      : row(shape, model), p_off(shape.Tk), dP(shape.Tk) {}
  RowScratch row;
  std::vector<double> p_off;    // [Tk] eP
  std::vector<GradientDot> dP;  // [Tk]
};

void gradient_pairs(const GradientRow& at, const GradientModel& m,
                    ValueFacts& values, GradientScratch& scratch,
                    GradientPairs& out);

// The error of a sum in any order: `added` = sum min(u M, t), `largest` its
// largest term, A = sum t over n terms, each of which rounds `per_term` times.
double any_order(double added, double largest, double A, double n,
                 double per_term, double u);

// Sums of `width` columns each, fed row by row in two rounds: measure all
// terms, limit(), add all terms again.
class GradientSums {
 public:
  GradientSums(int64_t rows, int64_t width);
  // A term a x, of which a is off by b, and exactly a_exact x. x may be off by
  // x_off, or by nothing if that is null.
  void measure(int64_t row, double a, double b, double a_exact, const double* x,
               const double* x_off);
  // `truth` [rows,width] is c times the sum.
  void limit(const double* truth, double c, double u);
  void add(int64_t row, double a, const double* x, const double* x_off);
  // Nothing that this row adds up can be judged.
  void spoil(int64_t row) { spoilt_[row] = 1; }
  // `per_term` roundings of each term; c multiplies the sum, off by c_off of
  // itself.
  void finish(const double* truth, double c, double c_off, double per_term,
              const GradientModel& m, double* bound, double* reach) const;

 private:
  int64_t rows_;
  int64_t width_;
  std::vector<uint8_t> spoilt_;  // [rows]
  std::vector<double> count_;    // [rows] terms
  std::vector<double> sizes_;    // [rows] sum (a + max |x|)
  std::vector<double> size_;     // [rows,width] A
  std::vector<double> drift_;
  std::vector<double> exact_;
  std::vector<double> limit_;  // u M
  std::vector<double> added_;
  std::vector<double> largest_;
};

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_GRADIENT_GRADIENT_IMPL_H_

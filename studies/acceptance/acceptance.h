// SPDX-License-Identifier: Apache-2.0
// The study of other suites' acceptance rules and of the bound, on the same
// defects, shapes and storage types (others.md is the result). This file has
// the data, a correct kernel with hooks for defects, and the run of a framework
// in half precision that some rules compare with.
#ifndef QKVET_STUDIES_ACCEPTANCE_ACCEPTANCE_H_
#define QKVET_STUDIES_ACCEPTANCE_ACCEPTANCE_H_

#include <cstdint>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/shape.h"
#include "core/case/recipe.h"
#include "reference/arithmetic/oracle.h"

namespace qkvet::studies {
using namespace reference;
using namespace properties;

// How a suite fills q, k and v.
enum class InputLaw : uint8_t {
  kNormal,          // N(0,1), up to 4.2 standard deviations
  kUniform,         // U(-1,1)
  kPositive,        // U[0,1)
  kIntegers,        // -2 .. 2
  kSparseIntegers,  // the same, four of five are 0
};
const char* law_text(InputLaw law);

// The arguments that a suite calls kernels with.
struct Setting {
  Dtype dtype;
  int64_t d;     // = dv
  int64_t rows;  // query rows of a decode call, all heads and members together
  InputLaw law;

  friend bool operator==(const Setting&, const Setting&) = default;
};

// B is the number of members times heads: each has its own keys and values.
struct Extents {
  int64_t B, Tq, Tk;
  Causal causal = Causal::kNone;
};
// Decode over n keys; fewer rows and heads where n is large, for time and
// memory.
Extents decode_extents(int64_t rows, int64_t n);
Extents square_extents(int64_t heads, int64_t n, Causal causal);

// The recipes of targeted data.
struct Recipes {
  Recipe q, k, v;

  friend bool operator==(const Recipes&, const Recipes&) = default;
};

// The tensors of one call, rounded to storage; H = 1.
class CallData {
 public:
  CallData(const Setting& setting, const Extents& extents);
  CallData(const Setting& setting, const Extents& extents,
           const Recipes& recipes);

  const Shape& shape() const { return shape_; }
  Dtype dtype() const { return dtype_; }
  Causal causal() const { return causal_; }
  // Points into this.
  Problem problem() const;
  // The same numbers; f32 holds all of them.
  const std::vector<float>& q() const { return q32_; }  // [B,1,Tq,d]
  const std::vector<float>& k() const { return k32_; }  // [B,1,Tk,d]
  const std::vector<float>& v() const { return v32_; }  // [B,1,Tk,dv]
  // How many keys the row i sees.
  int64_t visible(int64_t i) const;

 private:
  void store();

  Shape shape_;
  Dtype dtype_;
  Causal causal_;
  std::vector<double> q_, k_, v_;
  std::vector<float> q32_, k32_, v32_;
};

struct Output {
  std::vector<double> o;    // [B,1,Tq,dv], rounded to storage
  std::vector<double> lse;  // [B,1,Tq], rounded to f32
};

// The defect to make. With all defaults the kernel is correct.
struct Hooks {
  double scale_error = 0;        // relative
  int64_t lost_keys = 0;         // at the end of every row
  int64_t first_key_counts = 1;  // times
  int64_t pad_keys = 0;          // of zeros, after the last key, not masked
  int64_t diagonal_shift = 0;    // a causal row sees this many more keys
  bool subtracts_max = true;
  bool ignores_scores = false;  // every key weighs the same
};

// Scores, exponentials and sums in f32, keys in order; P rounded to half
// storage before its normalisation; the output rounded.
class Kernel {
 public:
  // `call` outlives this.
  explicit Kernel(const CallData& call);
  Output run(const Hooks& hooks) const;

 private:
  void run_row(const Hooks& hooks, int64_t row, std::vector<float>& weights,
               std::vector<float>& sums, Output& out) const;

  const CallData& call_;
  std::vector<float> products_;  // [B,1,Tq,Tk], q k^T before the scale
};

// The same by einsum and softmax on half tensors: the scale folded into k;
// k, scores, weights and output rounded to storage.
std::vector<double> framework_run(const CallData& call);

}  // namespace qkvet::studies

#endif  // QKVET_STUDIES_ACCEPTANCE_ACCEPTANCE_H_

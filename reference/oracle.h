// SPDX-License-Identifier: Apache-2.0
// What attention is. Two implementations that share no function:
// plain_forward (reference/plain.cpp) is the definition, in double;
// twin_forward (reference/twin.cpp) is another algorithm, in double-double.
#ifndef QKVET_REFERENCE_ORACLE_H_
#define QKVET_REFERENCE_ORACLE_H_

#include <cstdint>
#include <vector>

#include "core/shape.h"

namespace qkvet {

// One call, every input exact in double, packed row-major.
struct Problem {
  Shape shape;
  Causal causal = Causal::kNone;
  // The factor of q k^T as the kernel has it: the float that the caller gave,
  // or, if the caller left it to the kernel, 1/sqrt(d) in full precision.
  double scale = 1;
  bool scale_given = false;
  const double* q = nullptr;  // [B,H,Tq,d]
  const double* k = nullptr;  // [B,Hkv,Tk,d]
  const double* v = nullptr;  // [B,Hkv,Tk,dv]
};

// 1/sqrt(d), what an absent scale means.
double default_scale(int64_t d);

struct OracleOutput {
  std::vector<double> o;        // [B,H,Tq,dv]; NaN in rows without a key
  std::vector<double> lse;      // [B,H,Tq], natural; -inf in rows without a key
  std::vector<double> weights;  // [B,H,Tq,Tk]; 0 at masked keys
  std::vector<int64_t> visible;  // [B,H,Tq]: how many keys the row sees
};

OracleOutput plain_forward(const Problem& problem);
OracleOutput twin_forward(const Problem& problem);

}  // namespace qkvet

#endif  // QKVET_REFERENCE_ORACLE_H_

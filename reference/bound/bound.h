// SPDX-License-Identifier: Apache-2.0
// How far a correct kernel of declared arithmetic may be from the oracle, for
// every single output element, from its inputs. Derivation: bounds.md.
#ifndef QKVET_REFERENCE_BOUND_BOUND_H_
#define QKVET_REFERENCE_BOUND_BOUND_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "reference/arithmetic/oracle.h"
#include "reference/arithmetic/precision.h"

namespace qkvet::reference {

// How far the q, k and v that a kernel reads may be from those of the problem,
// element by element, in the shapes of Problem; null: not at all. For kernels
// that compute them on their own (bounds.md, "Uncertain inputs").
struct InputErrors {
  const double* q = nullptr;
  const double* k = nullptr;
  const double* v = nullptr;
};

// The facts about a problem that the bound needs for every model: computed once
// per distinct call and shared by all kernels.
class BoundFacts {
 public:
  // Copies what it needs; no argument has to outlive the call. The problem has
  // no rotation: rope.h.
  BoundFacts(const Problem& problem, const OracleOutput& oracle,
             const InputErrors& errors = {});
  ~BoundFacts();
  BoundFacts(BoundFacts&&) noexcept;
  BoundFacts& operator=(BoundFacts&&) noexcept;

  // [B,H,Tq,dv]: the largest |v_j - o| over all keys of the member, masked ones
  // included and a sink as a key of value 0. An element is vacuous if the bound
  // is at least half of it, and uninformative if it is 0. Without the errors of
  // the inputs.
  const std::vector<double>& reach() const;

  struct Impl;
  explicit BoundFacts(std::unique_ptr<Impl> impl);
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// All entries >= 0; +infinity where the row cannot be judged (intermediate
// overflow is legitimate); rows without a visible key and rows that are not
// counted have 0 and are judged by the dialect, or not at all.
struct Bound {
  std::vector<double> o;        // [B,H,Tq,dv]
  std::vector<double> lse;      // [B,H,Tq]
  std::vector<double> weights;  // [B,H,Tq,Tk], if asked for
  // [B,H,Tq]: |sum of returned weights - that of the oracle's|, which is 1
  // unless a sink takes its share.
  std::vector<double> row_sum;
};

// The truth and the bound of a kernel that returns its lse in base 2, from
// those of Bound and OracleOutput.
double lse_in_base2(double lse);
double lse_bound_in_base2(double lse, double bound,
                          const PrecisionModel& model);

Bound compute_bound(const BoundFacts& facts, const PrecisionModel& model,
                    bool want_weights);

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_BOUND_BOUND_H_

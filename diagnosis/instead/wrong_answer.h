// SPDX-License-Identifier: Apache-2.0
// A failing answer, number by number: the wrong elements and the right ones.
#ifndef QKVET_DIAGNOSIS_INSTEAD_WRONG_ANSWER_H_
#define QKVET_DIAGNOSIS_INSTEAD_WRONG_ANSWER_H_

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "diagnosis/evidence/evidence.h"

namespace qkvet::diagnosis {

// One output that has wrong elements, packed.
struct WrongOutput {
  TensorName name = TensorName::kO;
  Dtype dtype = Dtype::kF32;
  std::array<int64_t, 4> extents{};  // those of lse end with 1
  std::vector<double> actual, right, bound;
  // All elements beyond their bound, of those with a known bound.
  std::vector<size_t> wrong;
  // How many of these are so far off that their value is informative.
  int telling = 0;
};

struct WrongAnswer {
  std::unique_ptr<Evidence> evidence;
  // The truth of a call of attention or a merge; null for gradients and layers.
  const Truth* truth = nullptr;
  std::vector<WrongOutput> outputs;
  // o and lse of wrong rows without a visible key, which the dialect defines as
  // 0 and -inf, if all else is right.
  std::vector<WrongOutput> empty_rows;
  // As returned, right or wrong, packed; empty if not returned.
  std::vector<double> lse, weights;
  // In a call with dropout, the weights that were kept according to the kernel,
  // [B,H,Tq,Tk]; empty for other calls. The truth is that without dropout.
  std::vector<uint8_t> kept;

  // The first wrong call, its case and its data: in a story those of a step,
  // with the whole history as keys.
  size_t call = 0;
  const Case* asked = nullptr;
  const Inputs* inputs = nullptr;

  const Case& value() const { return *asked; }
  const CallOutcome& outcome() const { return evidence->outcomes[call]; }
  const WrongOutput* find(TensorName name) const;
  // Whether the call returned it.
  bool has(TensorName name) const;
  // An output as the call returned it, without wrong elements so far.
  WrongOutput returned(TensorName name, Dtype dtype,
                       std::array<int64_t, 4> extents,
                       std::vector<double> right = {},
                       std::vector<double> bound = {}) const;
  // Keeps an output that has wrong elements.
  void keep(WrongOutput output);
};

// The same without wrong elements that are NaN or infinite.
WrongOutput where_finite(const WrongOutput& output);

// The first wrong element of each row that has one.
std::vector<size_t> first_of_wrong_rows(const WrongOutput& output);
// The row of [B,Hkv] with the keys and values of a row of [B,H,Tq].
inline int64_t kv_head_of(const Shape& s, int64_t row) {
  return row / (s.H * s.Tq) * s.Hkv + row / s.Tq % s.H / s.group();
}

// Fills in `wrong` and `telling`, for every element with a known bound.
void find_wrong_elements(WrongOutput& output);

// Null: there is none of that name.
const WrongOutput* find_in(const std::vector<WrongOutput>& outputs,
                           TensorName name);

// Whether the numbers are the same, as far as this can be known: `bound` is
// that of the right function, not of the wrong one.
bool is_near(double actual, double predicted, double bound, Dtype dtype);

// The tensor outside which a failing call accessed memory, or the input that it
// wrote to; nullopt if there is none or it is unknown.
std::optional<TensorName> touched_outside(const Evidence& evidence);

// For a case of agreement, or with dropout of its law, that failed only by its
// numbers or by unwritten elements; else nullopt.
std::optional<WrongAnswer> wrong_answer(std::unique_ptr<Evidence> evidence,
                                        const JudgedKernel& kernel);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_INSTEAD_WRONG_ANSWER_H_

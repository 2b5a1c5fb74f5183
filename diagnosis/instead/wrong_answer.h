// SPDX-License-Identifier: Apache-2.0
// A failing answer, number by number: what is wrong in it, beside what is
// right.
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
  // Elements beyond their bound, all of them, of those that a bound is known
  // of.
  std::vector<size_t> wrong;
  // Of these, how many are so far beyond that what they are can be told.
  int telling = 0;
};

struct WrongAnswer {
  std::unique_ptr<Evidence> evidence;
  // Of a call that attends or merges; null for gradients and layers.
  const Truth* truth = nullptr;
  std::vector<WrongOutput> outputs;
  // o and lse of rows that see no key, which the dialect has be 0 and -inf;
  // where all else is right.
  std::vector<WrongOutput> empty_rows;
  // As they were returned, right or wrong, packed; empty if they were not.
  std::vector<double> lse, weights;
  // Of a call with dropout, which weights it says that it kept, [B,H,Tq,Tk];
  // empty of others. The truth is that without dropout.
  std::vector<uint8_t> kept;

  // Which of the calls it is that went wrong first, what that is about, and the
  // data: of a story those of a step, with the whole history as keys.
  size_t call = 0;
  const Case* asked = nullptr;
  const Inputs* inputs = nullptr;

  const Case& value() const { return *asked; }
  const CallOutcome& outcome() const { return evidence->outcomes[call]; }
  const WrongOutput* find(TensorName name) const;
  // Whether the call returned it.
  bool has(TensorName name) const;
};

// The same without wrong elements that are NaN or infinite.
WrongOutput where_finite(const WrongOutput& output);

// Fills in `wrong` and `telling`, of every element of which a bound is known.
void find_wrong_elements(WrongOutput& output);

// Null: it is none of them.
const WrongOutput* find_in(const std::vector<WrongOutput>& outputs,
                           TensorName name);

// Whether the numbers are the same, as far as wrong numbers can be: `bound` is
// that of the right function, which their rounding is not.
bool is_near(double actual, double predicted, double bound, Dtype dtype);

// The tensor that a failing call went beyond, or wrote to though it is an
// input; nothing where no call did, or nobody knows which.
std::optional<TensorName> touched_outside(const Evidence& evidence);

// Of a case of agreement, or with dropout of the law about that, which failed
// by its numbers alone, or by what is not written; nothing of all others.
std::optional<WrongAnswer> wrong_answer(std::unique_ptr<Evidence> evidence,
                                        const JudgedKernel& kernel);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_INSTEAD_WRONG_ANSWER_H_

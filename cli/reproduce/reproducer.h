// SPDX-License-Identifier: Apache-2.0
// A failure as data: the calls of its law (of attention, of a layer, or the
// commands of stories) with all inputs, the expected outputs of each, and the
// kernel's outputs.
#ifndef QKVET_CLI_REPRODUCE_REPRODUCER_H_
#define QKVET_CLI_REPRODUCE_REPRODUCER_H_

#include <string>
#include <vector>

#include "core/files/call_tensors.h"
#include "properties/judging/law.h"
#include "properties/run/runner.h"

namespace qkvet::cli {

// The expected value of one number of an output. If the value is NaN, it
// requires NaN; an infinite bound requires nothing.
struct Wanted {
  double value = 0;
  double bound = 0;
  double low = 0, high = 0;  // value -+ bound, rounded to storage
};

// Its values are the kernel's: none if the call was refused.
struct WrittenOutput : CallTensor {
  std::vector<double> numbers;  // the same
  std::vector<Wanted> wanted;   // packed, like all below
  // For a layer that returns its stages: the expected values given the kernel's
  // `actual` values of the earlier stages. Empty: the same.
  std::vector<Wanted> staged;

  const std::vector<Wanted>& wanted_here() const {
    return staged.empty() ? wanted : staged;
  }
};

struct WrittenCall {
  Case value;  // shape, causal rule, scale and options of this call
  CallPlan plan;
  std::vector<CallTensor> inputs;
  std::vector<WrittenOutput> outputs;  // the requested ones

  // "call 5, step.a.1"; "" if only its number identifies a call.
  std::string place;
  // "refused with a reason: ..."; "": a result is due.
  std::string refusal;
  // How it ended: "" or "accepted", "refused", "refused without a reason", if
  // that is wrong, and the kernel's text.
  std::string wrong_end, said;
  bool refused = false;
  // For a command: tokens in the sequences after it.
  std::vector<int64_t> lengths, found_lengths;

  const WrittenOutput* output(TensorName name) const;
};

struct Reproducer {
  const Law* law = nullptr;
  std::string text;  // of the case
  uint32_t digest = 0;
  std::string kernel;     // family/variant
  std::string again;      // the arguments of qkvet that name it
  std::string run_again;  // those of run.py
  std::vector<WrittenCall> calls;
  // The comparison of the law, if no number is wrong on its own.
  std::vector<SameBits> same_bits;
  bool shows_failure = false;  // a number, or two that should be the same
};

// Whether the number is outside the allowed range.
bool is_wrong(const Wanted& wanted, double actual);
// Two elements of which one is to be `factor` times the other, bit for bit;
// zeros of both signs are the same, and so are NaNs.
bool differ(double first, double factor, double second);

// Runs the calls of the law once more. "" or one line: why this failure cannot
// be written down.
std::string make_reproducer(const Law& law, const Case& value,
                            const KernelUnderTest& kernel, Executor& executor,
                            TimeUse& time, Reproducer* out);

// "bhic": the letters of an output's indices.
const char* index_letters(Operation operation, TensorName tensor);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_REPRODUCE_REPRODUCER_H_

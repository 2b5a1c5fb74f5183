// SPDX-License-Identifier: Apache-2.0
// Made-up kernels for tests of descriptions: the oracle, with changed questions
// or changed answers.
#ifndef QKVET_DIAGNOSIS_FAKE_FAULTS_H_
#define QKVET_DIAGNOSIS_FAKE_FAULTS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "diagnosis/instead/instead.h"
#include "diagnosis/instead/reading.h"
#include "diagnosis/test_faults.h"
#include "properties/testing/fake_executor.h"

namespace qkvet::diagnosis::instead_test {
struct Fault {
  const char* text;  // of o, or of lse if only lse is wrong
  Stage stage;
  FakeExecutor::Question question = {};
  FakeExecutor::Answer answer = {};
};

// Failures of the law in the made-up kernel that declares every option; at
// least one.
inline std::vector<Failure> failures_of(const char* law,
                                        const FakeExecutor::Question& question,
                                        const FakeExecutor::Answer& answer,
                                        int64_t cases = 4000) {
  std::vector<Failure> failures = failures_for_test(
      FakeExecutor::under_test(), opening<FakeExecutor>(question, answer),
      {find_law(law)}, cases);
  EXPECT_FALSE(failures.empty()) << law;
  return failures;
}

// A fault of answers, and one of questions. Changed numbers of a problem live
// in the room, as long as the fault.
inline Fault answering(const char* text, Stage stage,
                       FakeExecutor::Answer answer) {
  return {text, stage, {}, std::move(answer)};
}
inline Fault answering(FakeExecutor::Answer answer) {
  return answering("", Stage::kUnknown, std::move(answer));
}
template <class Change>
FakeExecutor::Question in_room(Change change) {
  return [change, room = std::make_shared<Room>()](
             KernelCall& call, Problem& p) { change(call, p, *room); };
}
template <class Change>
Fault asking(const char* text, Stage stage, Change change) {
  return {text, stage, in_room(std::move(change))};
}

struct Looked {
  std::optional<Failure> failure;
  Instead instead;
  InsteadScore score;

  // Null: the output is not described.
  const OutputInstead* find(TensorName name) const {
    for (const OutputInstead& one : instead.outputs)
      if (one.output == name) return &one;
    return nullptr;
  }
  // It must be described.
  const OutputInstead& of(TensorName name) const {
    static const OutputInstead kNone = {};
    EXPECT_TRUE(failure);
    EXPECT_NE(find(name), nullptr) << instead.text();
    return find(name) == nullptr ? kNone : *find(name);
  }
  const OutputInstead& o() const { return of(TensorName::kO); }
};

// The faults here change masks and sums, but not masks given as a few numbers.
constexpr uint64_t kMaskFields = QKVET_OPTION_SEGMENTS |
                                 QKVET_OPTION_FULL_RANGES | QKVET_OPTION_CHUNK |
                                 QKVET_OPTION_TREE_MASK;

// `other`: the descriptions are checked against fresh answers of that fault.
// `left_out`: options that the kernel does not declare.
inline Looked look(const Fault& fault, const Fault* other = nullptr,
                   int64_t cases = 4000, const char* law = "agrees_with_oracle",
                   uint64_t left_out = kMaskFields) {
  KernelUnderTest kernel = FakeExecutor::under_test();
  // Ten failing cases decide, and the declared options determine which: in some
  // draws one of them leaves the stage of unmasked padding open. The faults
  // here change masks and sums, but not sparse key indices.
  kernel.judged.info.capabilities.options &=
      ~(left_out |
        uint64_t{QKVET_OPTION_PAGED_CSR | QKVET_OPTION_INT32_LENGTHS |
                 QKVET_OPTION_KEY_LISTS | QKVET_OPTION_KEY_LIST_LENGTHS |
                 QKVET_OPTION_KEY_LIST_BLOCKS |
                 QKVET_OPTION_PAGED_CHANNEL_GROUPS |
                 QKVET_OPTION_VALUES_IN_KEYS});
  RunOptions options;
  options.laws = {find_law(law)};
  options.cases = cases;
  Looked out;
  const RunResult result = run_plan(
      {kernel}, opening<FakeExecutor>(fault.question, fault.answer), options);
  out.failure = result.kernels[0].cells[0].failure;
  if (!out.failure) return out;
  TimeUse time;
  FakeExecutor executor(fault.question, fault.answer);
  const FailsWhere nowhere;
  out.instead =
      look_what_it_is_instead(*out.failure, nowhere, {kernel, executor, time});
  EXPECT_LE(out.instead.calls, kMostInsteadCalls);
  const Fault& judged = other != nullptr ? *other : fault;
  FakeExecutor fresh(judged.question, judged.answer);
  out.score = score_instead(out.instead, *out.failure, nowhere,
                            {kernel, fresh, time}, /*seed=*/77, /*count=*/60);
  return out;
}

inline FakeExecutor::Answer each_o(double (*of)(double right)) {
  return [of](const KernelCall&, OracleOutput& out, CallOutcome&) {
    for (double& o : out.o) o = of(o);
  };
}

// For a row: its first output, its weights, and how many keys there are.
using OfRow = void (*)(const KernelCall& call, int64_t row, double* o,
                       const double* weights);
inline FakeExecutor::Answer each_row(OfRow of) {
  return [of](const KernelCall& call, OracleOutput& out, CallOutcome&) {
    const Shape& s = call.shape;
    if (s.Tk == 0) return;  // rows have no weights
    for (int64_t row = 0; row < s.lse_elements(); ++row)
      of(call, row, out.o.data() + row * s.dv, out.weights.data() + row * s.Tk);
  };
}

inline double largest(const KernelCall& call, const double* weights) {
  return *std::max_element(weights, weights + call.shape.Tk);
}

// Its text and its stage are reported, and they hold for fresh answers.
inline void expect_said(const Fault& fault, const Looked& looked) {
  EXPECT_EQ(looked.o().text, fault.text) << looked.instead.text();
  EXPECT_STREQ(stage_name(looked.instead.stage), stage_name(fault.stage))
      << fault.text;
  EXPECT_GT(looked.score.all, 3) << fault.text;
  EXPECT_EQ(looked.score.right, looked.score.all) << fault.text;
}
inline void expect_said(const Fault& fault) { expect_said(fault, look(fault)); }

}  // namespace qkvet::diagnosis::instead_test

#endif  // QKVET_DIAGNOSIS_FAKE_FAULTS_H_

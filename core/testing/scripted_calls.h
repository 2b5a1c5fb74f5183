// SPDX-License-Identifier: Apache-2.0
// For tests: calls of cases to the kernels of testdata/scripted_plugin.cpp, and
// what these say that they were given.
#ifndef QKVET_CORE_TESTING_SCRIPTED_CALLS_H_
#define QKVET_CORE_TESTING_SCRIPTED_CALLS_H_

#include <memory>
#include <string>
#include <vector>

#include "core/testing/bad_plugin_calls.h"
#include "core/testing/case_calls.h"

namespace qkvet {

inline std::unique_ptr<Executor> scripted() {
  return sandbox(patient_options(), "scripted");
}

// The kernels that take the case.
inline std::string family_of(const Case& value) {
  const bool is_layer = value.subject() == Subject::kLayerBackward;
  return is_layer ? "layer_backward" : value.backward ? "backward" : "options";
}

inline void prepare_gradient(CaseCall& one) {
  if (one.value.subject() == Subject::kLayerBackward) {
    one.call = call_of(one.value, one.inputs, Operation::kLayerBackward);
    return;
  }
  // Laws fill these in; here ones for o, twos for lse.
  const Shape& s = one.value.shape;
  one.inputs.given_o.assign(one.inputs.d_o.size(), 1);
  one.inputs.given_lse.assign(static_cast<size_t>(s.B * s.H * s.Tq), 2);
  store_inputs(one.value, one.inputs);
  one.call = call_of(one.value, one.inputs, Operation::kBackward);
  one.call.want_d_bias = one.call.bias != nullptr;
  one.call.want_d_sink = one.call.sink != nullptr;
}

inline CallOutcome run_case(Executor& executor, const std::string& kernel,
                            const std::string& text,
                            Placement placement = Placement::kEnd,
                            bool more_outputs = false) {
  CaseCall one(text);
  if (one.value.backward) prepare_gradient(one);
  one.call.placement = placement;
  one.call.want_lse |= more_outputs;
  one.call.want_weights |= more_outputs;
  return run_call(executor, kernel, one.call, family_of(one.value));
}

inline std::string shown(Executor& executor, const std::string& tensor,
                         const std::string& text,
                         Placement placement = Placement::kEnd) {
  const std::string family = family_of(parsed(text));
  return refusal_of(run_case(executor, "show_" + tensor, text, placement),
                    (family == "options" ? "forward" : family) + "()");
}

// The expected text for a tensor of a case, in every placement.
struct Shown {
  std::string text, tensor, expected;
};
inline void expect_shown(Executor& executor, const std::vector<Shown>& rows) {
  for (const Shown& row : rows)
    for (const Placement placement : kPlacements)
      EXPECT_EQ(shown(executor, row.tensor, row.text, placement), row.expected)
          << row.text << " " << row.tensor;
}

// Only its type, extents and strides, for a case that begins with `lead`.
inline std::string without_values(const std::string& text) {
  return text.substr(0, text.find(':'));
}
inline void expect_strides(Executor& executor, const std::string& lead,
                           const std::vector<Shown>& rows) {
  for (const Shown& row : rows)
    for (const Placement placement : kPlacements)
      EXPECT_EQ(without_values(
                    shown(executor, row.tensor, lead + row.text, placement)),
                "float32 " + row.expected)
          << row.text << " " << row.tensor;
}

struct EndRow {
  std::string text, kernel;
  CallStatus status;
  std::string expected;
};
inline void expect_ends(Executor& executor, const std::vector<EndRow>& rows) {
  for (const EndRow& row : rows)
    expect_outcome(run_case(executor, row.kernel, row.text), row.status,
                   row.expected);
}

}  // namespace qkvet

#endif  // QKVET_CORE_TESTING_SCRIPTED_CALLS_H_

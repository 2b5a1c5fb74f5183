// SPDX-License-Identifier: Apache-2.0
// Correct kernels of many arithmetics, as controls of the bound: those of the
// family `controls`, linked and entered through the C ABI. They share nothing
// with the references, and what their authors declare is read as it is of any
// kernel.
//
// Tensors are f32 whatever storage a kernel is run for: P is rounded to that,
// and what is stored is left to the judge of the test.
#ifndef QKVET_REFERENCE_TESTING_TEST_CONTROLS_H_
#define QKVET_REFERENCE_TESTING_TEST_CONTROLS_H_

#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "qkvet/kernel.h"
#include "reference/arithmetic/oracle.h"
#include "reference/arithmetic/precision.h"

namespace qkvet::reference {

struct TestControl {
  const qkvet_kernel* kernel = nullptr;
  Dtype storage = Dtype::kF32;

  std::string name() const;  // without the family
};

// "naive" is controls/naive.
TestControl control_named(std::string_view name, Dtype storage = Dtype::kF32);

// Those that take f32, those that are for half storage, and of all of these the
// ones that take every option.
std::vector<TestControl> f32_controls();
std::vector<TestControl> half_controls();
std::vector<TestControl> option_controls();

struct TestOutput {
  // In rows that see no key what the definition has, which is no matter of
  // arithmetic; NaN as lse of rows that are not counted; weights as they are
  // stored.
  std::vector<double> o, lse, weights;
};

// In the dialect of the problem, with one of the faults that the family can be
// configured for.
TestOutput run_control(const TestControl& control, const Problem& problem,
                       std::string_view seeded = "none");

PrecisionModel declared_precision(const TestControl& control);
// Whether the declaration allows no more than an undeclared kernel may do: it
// is neither looser nor unmeasured.
bool within_generic(const TestControl& control);

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_TESTING_TEST_CONTROLS_H_

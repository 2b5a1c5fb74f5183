// SPDX-License-Identifier: Apache-2.0
// Correct projections and layers of many arithmetics, as controls of their
// bounds; as in test_controls.h they share nothing with the references.
#ifndef QKVET_REFERENCE_TESTING_TEST_LAYER_KERNELS_H_
#define QKVET_REFERENCE_TESTING_TEST_LAYER_KERNELS_H_

#include <string>
#include <vector>

#include "core/base/half.h"
#include "reference/layer/layer.h"
#include "reference/testing/test_controls.h"
#include "reference/testing/test_sums.h"

namespace qkvet::reference {

enum class TestLinearFault : uint8_t {
  kNone,
  kWrongIndex,       // the last column reads its neighbour's weights
  kHalfAccumulator,  // partial sums are rounded to the storage type
};

struct TestLinearKernel {
  std::string name = "unnamed";
  TestOrder order = TestOrder::kAscending;
  bool fma = false;
  bool bias_first = false;
  bool ftz = false;
  TestLinearFault fault = TestLinearFault::kNone;
  Dtype storage = Dtype::kF32;  // of the inputs; results are f32
};

// [rows,out], in f32.
std::vector<double> run_test_linear(const TestLinearKernel& kernel,
                                    const LinearProblem& problem);

std::vector<TestLinearKernel> test_linear_kernels();

// Layouts are written out once more: row (b, t) of [B T,heads width] holds head
// h in the columns h width ... These are the heads [B,heads,T,width] of such
// rows, and the rows of heads.
std::vector<double> test_heads(const Shape& shape,
                               const std::vector<double>& rows, int64_t heads,
                               int64_t width);
std::vector<double> test_rows(const Shape& shape,
                              const std::vector<double>& all, int64_t heads,
                              int64_t width);

// Heads after the rotation, in f32, rounded to `stage`; with -1 turned back.
std::vector<double> test_turned(const LayerProblem& problem, int64_t heads,
                                float direction, Dtype stage,
                                std::vector<double> all);

// The inputs of a layer's attention, rounded to `stage`.
struct TestProjections {
  TestProjections(const TestLinearKernel& linear, Dtype stage,
                  const LayerProblem& problem);
  TestProjections(const TestProjections&) = delete;
  TestProjections& operator=(const TestProjections&) = delete;

  std::vector<double> q, k, v;
  Problem attention;
};

struct TestLayerKernel {
  TestLinearKernel linear;
  TestControl attention = control_named("naive");
  Dtype stage = Dtype::kF32;  // type of q, k, v and the heads
  bool wrong_index = false;   // one element of the merged heads is a neighbour
};

// y [B,T,D], in f32.
std::vector<double> run_test_layer(const TestLayerKernel& kernel,
                                   const LayerProblem& problem);

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_TESTING_TEST_LAYER_KERNELS_H_

// SPDX-License-Identifier: Apache-2.0
// Each fault against the laws that it names: they fail, the case they shrink
// to is nearly the smallest there is, and its spelling fails again.
#include <gtest/gtest.h>

#include <algorithm>

#include "properties/generate.h"
#include "properties/shrink.h"
#include "tools/kernels.h"
#include "tools/report.h"

namespace qkvet {
namespace {

constexpr int64_t kWalk = 4;   // extents of the exhaustive walk
constexpr int64_t kSlack = 2;  // the shrunk case may be this much larger

const SelectedKernels& faults() {
  static const SelectedKernels selected =
      select_kernels({{"faulty/*"}, {}, false});
  return selected;
}

std::vector<std::string> fault_names() {
  std::vector<std::string> names;
  for (const KernelUnderTest& kernel : faults().kernels)
    names.push_back(kernel.judged.info.name.substr(7));
  return names;
}

// Every shape of the walk, smallest sum first.
std::vector<Shape> walk_shapes() {
  std::vector<Shape> shapes;
  for (int64_t B = 1; B <= kWalk; ++B)
    for (int64_t H = 1; H <= kWalk; ++H)
      for (int64_t Hkv = 1; Hkv <= H; ++Hkv)
        for (int64_t Tq = 1; Tq <= kWalk; ++Tq)
          for (int64_t Tk = 1; Tk <= kWalk; ++Tk)
            for (int64_t d = 1; d <= kWalk; ++d)
              for (int64_t dv = 1; dv <= kWalk; ++dv)
                if (H % Hkv == 0) shapes.push_back({B, H, Hkv, Tq, Tk, d, dv});
  std::stable_sort(shapes.begin(), shapes.end(),
                   [](const Shape& a, const Shape& b) {
                     return sum_of_extents(a) < sum_of_extents(b);
                   });
  return shapes;
}

class Kill : public testing::TestWithParam<std::string> {
 protected:
  const KernelUnderTest& kernel() const {
    for (const KernelUnderTest& kernel : faults().kernels)
      if (kernel.judged.info.name == "faulty/" + GetParam()) return kernel;
    ADD_FAILURE() << "no fault " << GetParam();
    return faults().kernels[0];
  }

  bool fails(const Law& law, const Case& value) {
    TimeUse time;
    return check_case(law, value, kernel().judged, kernel().index, *executor(),
                      /*with_twin=*/false, time)
               .verdict == Verdict::kFailed;
  }

  // Whether the law fails in this shape for any storage type, data preset,
  // mask and three seeds.
  bool fails_in(const Law& law, const Shape& shape) {
    for (const Dtype dtype : declared_dtypes({kernel()}))
      for (const Causal causal :
           {Causal::kNone, Causal::kTopLeft, Causal::kBottomRight})
        for (const DataPreset& preset : data_presets())
          for (uint64_t seed = 1; seed <= 3; ++seed) {
            Case value;
            value.q_dtype = value.kv_dtype = value.o_dtype = dtype;
            value.shape = shape;
            value.causal = causal;
            value.seed = seed;
            value.q = make_recipe(preset.q);
            value.k = make_recipe(preset.k);
            value.v = make_recipe(preset.v);
            if (!(law.fit(value).shape == shape)) continue;
            if (fails(law, law.fit(value))) return true;
          }
    return false;
  }

  // The least sum of extents at which the law fails; -1 if it fails nowhere in
  // the walk.
  int64_t smallest_failing_sum(const Law& law) {
    for (const Shape& shape : walk_shapes())
      if (fails_in(law, shape)) return sum_of_extents(shape);
    return -1;
  }

  Executor* executor() {
    if (executor_ == nullptr)
      executor_ = executor_factory(faults(), false)(kernel().library).executor;
    return executor_.get();
  }

 private:
  std::unique_ptr<Executor> executor_;
};

TEST_P(Kill, NamedLawsFailAndShrinkToNearlyTheSmallestCase) {
  RunOptions options;
  options.laws = {all_laws().begin(), all_laws().end()};
  options.cases = 3200;
  options.scope.dtypes = declared_dtypes({kernel()});
  const RunResult result =
      run_plan({kernel()}, executor_factory(faults(), false), options);
  ASSERT_EQ(result.error, "");
  const ReportInput report{result, options, faults(), false};
  EXPECT_EQ(exit_code_of(report), kLawFailed);
  const FaultInfo& fault = *kernel().judged.info.fault;
  ASSERT_FALSE(fault.killed_by.empty());
  for (const std::string& id : fault.killed_by) {
    const Law* law = find_law(id);
    ASSERT_NE(law, nullptr) << id;
    const auto at = static_cast<size_t>(
        std::find(options.laws.begin(), options.laws.end(), law) -
        options.laws.begin());
    const Cell& cell = result.kernels[0].cells[at];
    ASSERT_TRUE(cell.failure) << id << " does not kill it";
    const Case& smallest = cell.failure->smallest;
    const int64_t least = smallest_failing_sum(*law);
    ASSERT_GT(least, 0) << id << " fails nowhere up to " << kWalk;
    EXPECT_LE(sum_of_extents(smallest.shape), least + kSlack)
        << id << ": " << to_string(smallest);
    const ParsedCase again = parse_case(to_string(smallest));
    ASSERT_TRUE(again.value) << again.error;
    EXPECT_TRUE(fails(*law, *again.value)) << id << to_string(smallest);
    RecordProperty(id, to_string(smallest));
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, Kill, testing::ValuesIn(fault_names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace qkvet

// SPDX-License-Identifier: Apache-2.0
// The bound under attack. A climber changes single values of small cases to
// drive error/bound up. It must never pass 1 for a correct kernel, and it must
// get far enough to show that the bound is not padded.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "cli/kernels/kernels.h"
#include "core/base/at_night.h"
#include "core/base/philox.h"
#include "properties/cases/generate.h"
#include "properties/run/shrink.h"

namespace qkvet::cli::hill_climb_test {
namespace {

// The error/bound to reach: with random adversarial data, and at all.
constexpr double kRandomAtLeast = 0.3;
constexpr double kClimbAtLeast = 0.6;
// A half output hides the preceding f32 arithmetic under its own rounding
// unless the two add up.
constexpr double kRandomHalfAtLeast = 0.2;
// If parts are merged by their lse, o meets several worst roundings at once
// only by rare luck; the lse of the same calls comes nearer.
constexpr double kMergedAtLeast = 0.45;
// The bound of a block adder covers every place where blocks may begin, and the
// few keys of a climb fill one or two. bound_half_test comes nearer with more.
constexpr double kBlocksAtLeast = 0.45;
// For f64 storage the bound includes the references' own roundings, which are
// as large as the kernel's (reference/bounds.md, "f64").
constexpr double kShareOfF64 = 0.5;

// As declared: each test is a separate process and probes only its kernel.
SelectedKernels correct_kernels() {
  KernelSelection all{
      {"scalar/*", "eigen/*", "avx2/*", "serving/*", "controls/*"}};
  all.calls = false;
  return select_kernels(all);
}

bool takes_plain_calls(const KernelUnderTest& kernel) {
  const uint64_t layouts = kernel.judged.info.capabilities.layouts;
  return layouts == 0 ||
         (layouts & (QKVET_LAYOUT_BHTD | QKVET_LAYOUT_ANY_STRIDES)) != 0;
}

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  const SelectedKernels selected = correct_kernels();
  for (const KernelUnderTest& kernel : selected.kernels)
    // A kernel that takes one of two paths is declared as the looser of them;
    // the climb goes through plain calls.
    if (kernel.judged.info.has_forward && takes_plain_calls(kernel) &&
        !kernel.judged.info.source_file.ends_with("controls/paths.cpp"))
      names.push_back(kernel.judged.info.name);
  // There are many controls, and reference_test attacks their bounds, too.
  size_t controls = 0;
  std::erase_if(names, [&controls](const std::string& name) {
    return name.starts_with("controls/") && !is_sampled(controls++, 6);
  });
  return names;
}

// A separate counter for every choice: the climb is the same on every machine
// with the same kernel.
class Dice {
 public:
  explicit Dice(uint64_t seed) : seed_(seed) {}
  uint64_t below(uint64_t n) { return philox_u64(seed_, ++count_, 7, 0) % n; }
  double normal() {
    return recipe_value({}, seed_, TensorName::kQ, 1, 1, ++count_, 0);
  }

 private:
  uint64_t seed_;
  uint32_t count_ = 0;
};

class HillClimb : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const SelectedKernels selected = select_kernels({{GetParam()}});
    kernel_ = selected.kernels.at(0);
    options_ = kernel_.judged.info.capabilities.options;
    executor_ = executor_factory(selected, false)(kernel_.library).executor;
    ASSERT_NE(executor_, nullptr);
    const std::string reason = unavailable_reason(*executor_, kernel_.index);
    if (!reason.empty()) GTEST_SKIP() << reason;
  }

  // One row, every value written out.
  Case start(Dice& dice) {
    const std::span<const DataPreset> presets = data_presets();
    const DataPreset& preset = presets[dice.below(presets.size())];
    Case value;
    const KernelInfo& info = kernel_.judged.info;
    if (info.has_flag(QKVET_FLAG_PAGES_ONLY)) {
      value.paging.size = info.capabilities.page_size_count > 0
                              ? info.capabilities.page_sizes[0]
                              : 4;
      if (!info.has_option(QKVET_OPTION_PAGED))
        value.paging.table = PageTable::kCsr;
    }
    store_as(declared_dtypes({kernel_})[0], value);
    const auto d = 1 + static_cast<int64_t>(dice.below(4));
    const auto dv = 1 + static_cast<int64_t>(dice.below(2));
    // All values are written out; kernels that split need many keys.
    const auto most = (static_cast<int64_t>(kMaxSetValues) - d) / (d + dv);
    value.shape.d = d;
    value.shape.dv = dv;
    value.shape.Tk = std::min(
        1 + static_cast<int64_t>(dice.below(static_cast<uint64_t>(most))),
        1 + static_cast<int64_t>(dice.below(static_cast<uint64_t>(most))));
    value.seed = dice.below(1u << 20);
    value.q = make_recipe(preset.q);
    value.k = make_recipe(preset.k);
    if (value.k.kind == RecipeKind::kOffsetN)
      value.k.parameter = static_cast<int64_t>(dice.below(11));
    value.v = make_recipe(preset.v);
    const Inputs inputs = make_inputs(value);
    write_out(value, TensorName::kQ, inputs.q, value.shape.d);
    write_out(value, TensorName::kK, inputs.k, value.shape.d);
    write_out(value, TensorName::kV, inputs.v, value.shape.dv);
    return value;
  }

  static void write_out(Case& value, TensorName tensor,
                        const std::vector<double>& values, int64_t width) {
    for (size_t n = 0; n < values.size(); ++n)
      value.set.push_back({tensor,
                           {0, 0, static_cast<int64_t>(n) / width,
                            static_cast<int64_t>(n) % width},
                           values[n]});
  }

  static void mutate(Case& value, Dice& dice) {
    constexpr double kLargest = 2048;  // far from overflow
    double& x = value.set[dice.below(value.set.size())].value;
    switch (dice.below(7)) {
      case 0:
        x = -x;
        break;
      case 1:
        x *= 2;
        break;
      case 2:
        x /= 2;
        break;
      case 3:
        x *= 1 + 0.1 * dice.normal();
        break;
      case 4:  // one bit of the float's significand
        x = static_cast<double>(std::bit_cast<float>(
            std::bit_cast<uint32_t>(static_cast<float>(x)) ^
            (1u << dice.below(23))));
        break;
      case 5:
        x = value.set[dice.below(value.set.size())].value;
        break;
      default:
        x = dice.normal();
    }
    if (!(std::fabs(x) <= kLargest)) x = 1;
    x = static_cast<double>(static_cast<float>(x));
  }

  // Weights are left out, and lse unless `extra` has it: each output has its
  // own bound.
  void judge_only(uint64_t extra) {
    kernel_.judged.info.capabilities.options =
        options_ & ~((QKVET_OPTION_LSE | QKVET_OPTION_WEIGHTS) & ~extra);
  }

  // A dialect may refuse a pair of options that it has one by one.
  bool declared_as_refused(const Case& value) const {
    return kernel_.judged.info.dialect.mask_and_causal ==
               QKVET_MASK_AND_CAUSAL_REFUSED &&
           value.mask.kind != MaskKind::kNone && value.causal != Causal::kNone;
  }

  // The ratios of several cases, in one batch of calls.
  std::vector<double> ratios(const std::vector<Case>& values) {
    std::vector<CaseWork> works;
    std::vector<KernelCall> calls;
    works.reserve(values.size());
    for (const Case& value : values) {
      works.emplace_back(law_, value, /*with_twin=*/false, time_);
      calls.push_back(works.back().calls_for(kernel_.judged).at(0));
    }
    const std::vector<CallOutcome> outcomes =
        executor_->run(kernel_.index, calls);
    std::vector<double> out;
    for (size_t i = 0; i < works.size(); ++i) {
      const Judgement judgement =
          works[i].judge(kernel_.judged, {&outcomes[i], 1});
      EXPECT_EQ(judgement.verdict, declared_as_refused(values[i])
                                       ? Verdict::kUnsupported
                                       : Verdict::kPassed)
          << to_string(values[i]) << " " << judgement.reason;
      out.push_back(judgement.worst_ratio);
    }
    return out;
  }

  double highest_of_random(const Scope& scope, int64_t cases) {
    constexpr int64_t kTogether = 100;
    double highest = 0;
    for (int64_t n = 1; n <= cases; n += kTogether) {
      std::vector<Case> batch;
      for (int64_t i = n; i < n + kTogether; ++i)
        batch.push_back(planned_case(law_, 1, i, scope));
      for (const double height : ratios(batch))
        highest = std::max(highest, height);
    }
    return highest;
  }

  double climb(uint64_t seed, int steps) {
    constexpr size_t kBrood = 16;
    Dice dice(seed);
    Case best = start(dice);
    double height = ratios({best})[0];
    for (int step = 0; step < steps; ++step) {
      std::vector<Case> brood(kBrood, best);
      for (Case& next : brood)
        for (uint64_t n = 1 + dice.below(3); n > 0; --n) mutate(next, dice);
      const std::vector<double> heights = ratios(brood);
      const auto highest = std::max_element(heights.begin(), heights.end());
      if (*highest < height) continue;
      height = *highest;
      best = brood[static_cast<size_t>(highest - heights.begin())];
    }
    return height;
  }

  double nearest_at_least(bool in_f64) const {
    const PrecisionModel& model = kernel_.judged.model;
    if (model.block_u > 0) return kBlocksAtLeast;
    const double share = in_f64 ? kShareOfF64 : 1;
    return share *
           (model.merge == Merge::kLse ? kMergedAtLeast : kClimbAtLeast);
  }

  const Law& law_ = *find_law("agrees_with_oracle");
  KernelUnderTest kernel_;
  uint64_t options_ = 0;
  std::unique_ptr<Executor> executor_;
  TimeUse time_;
};

TEST_P(HillClimb, TheBoundHoldsAndIsNotPadded) {
  // Each kernel is attacked so often,
  const uint64_t kClimbs = at_night() ? 8 : 2;
  constexpr uint64_t kMostClimbs = 24;  // and more until it has come near
  constexpr int kSteps = 400;
  Scope scope;
  scope.dtypes = declared_dtypes({kernel_});
  keep_scope_to({kernel_}, scope);
  const bool in_f64 = scope.dtypes[0] == Dtype::kF64;
  const bool in_f32 = scope.dtypes[0] == Dtype::kF32;
  const double enough = nearest_at_least(in_f64);

  judge_only(0);
  const double random = highest_of_random(scope, 1500);
  if (kernel_.judged.model.block_u == 0) {
    EXPECT_GT(random, in_f32 ? kRandomAtLeast : kRandomHalfAtLeast);
  }
  double climbed = 0, with_lse = 0;
  const auto nearest = [&] { return std::max({random, climbed, with_lse}); };
  const auto attack = [&](double& highest) {
    for (uint64_t seed = 1; seed <= kMostClimbs; ++seed)
      if (seed <= kClimbs || nearest() <= enough)
        highest = std::max(highest, climb(seed, kSteps));
  };
  attack(climbed);
  judge_only(QKVET_OPTION_LSE);
  attack(with_lse);
  EXPECT_GT(nearest(), enough);
  RecordProperty("random", std::to_string(random));
  RecordProperty("climbed", std::to_string(climbed));
  RecordProperty("with_lse", std::to_string(with_lse));
  std::printf("%-24s o: random %.2f, climbed %.2f; o and lse: %.2f\n",
              GetParam().c_str(), random, climbed, with_lse);
}

INSTANTIATE_TEST_SUITE_P(Kernels, HillClimb, testing::ValuesIn(kernel_names()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '/', '_');
                           return name;
                         });

}  // namespace
}  // namespace qkvet::cli::hill_climb_test

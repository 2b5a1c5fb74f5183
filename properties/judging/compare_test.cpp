// SPDX-License-Identifier: Apache-2.0
// The comparer itself: values that must pass, must fail, and must not count.
#include "properties/judging/compare.h"

#include <gtest/gtest.h>

#include <cmath>

#include "properties/run/tally.h"
#include "properties/testing/fake_executor.h"

namespace qkvet::properties::compare_test {
namespace {

// One row of one output with truth 1 and the given bound.
class OneElement {
 public:
  OneElement(double truth, double bound, double reach) {
    truth_.oracle.o = {truth};
    truth_.oracle.visible = {1};
    bound_.o = {bound};
    reach_ = {reach};
    truth_.bound = &bound_;
    truth_.reach = &reach_;
  }
  Judgement judge(double actual) {
    outcome_.o = doubles_as_floats({actual});
    CallView view{nullptr, nullptr, &outcome_, &truth_};
    Judgement judgement;
    compare_with_truth({value_, info_, model_, {&view, 1}}, view,
                       TensorName::kO, judgement);
    return judgement;
  }
  Truth truth_;
  KernelInfo info_ = FakeExecutor::info();
  PrecisionModel model_ = generic_precision();
  Case value_;

 private:
  Bound bound_;
  std::vector<double> reach_;
  CallOutcome outcome_;
};

TEST(Compare, InsideTheBoundPassesAndReportsTheRatio) {
  OneElement element(1, 0x1p-20, 4);
  const Judgement judgement = element.judge(1 + 0x1p-21);
  EXPECT_EQ(judgement.verdict, Verdict::kPassed);
  EXPECT_DOUBLE_EQ(judgement.worst_ratio, 0.5);
  EXPECT_EQ(judgement.compared, 1);
}

TEST(Compare, TheIntervalIsRoundedToTheStorageType) {
  // 0.1 is no float: its nearest float is right even with a bound of 0.
  OneElement element(0.1, 0, 4);
  EXPECT_EQ(element.judge(static_cast<double>(0.1f)).verdict, Verdict::kPassed);
  EXPECT_EQ(element.judge(std::nextafter(0.1f, 1.0f)).verdict,
            Verdict::kFailed);
}

TEST(Compare, OutsideFailsOnEitherSide) {
  OneElement element(1, 0x1p-20, 4);
  EXPECT_EQ(element.judge(1 + 0x1p-19).verdict, Verdict::kFailed);
  EXPECT_EQ(element.judge(1 - 0x1p-19).verdict, Verdict::kFailed);
  EXPECT_EQ(element.judge(-1).verdict, Verdict::kFailed);
}

TEST(Compare, NaNAndInfinityFail) {
  OneElement element(1, 1e30, 4);
  for (const double bad : {std::nan(""), double{INFINITY}, -double{INFINITY}}) {
    const Judgement judgement = element.judge(bad);
    EXPECT_EQ(judgement.verdict, Verdict::kFailed);
    EXPECT_TRUE(std::isinf(judgement.finding->ratio));
  }
}

TEST(Compare, ABoundAsWideAsTheValuesIsVacuous) {
  OneElement wide(1, 2, 4);
  EXPECT_EQ(wide.judge(1).vacuous, 1);
  EXPECT_EQ(wide.judge(1).compared, 0);
  OneElement infinite(1, INFINITY, 4);
  EXPECT_EQ(infinite.judge(INFINITY).verdict, Verdict::kPassed);
  EXPECT_EQ(infinite.judge(1).compared, 0);
}

TEST(Compare, ANaNBoundIsADefectOfOurs) {
  OneElement element(1, std::nan(""), 4);
  EXPECT_EQ(element.judge(1).verdict, Verdict::kGaveUp);
}

TEST(Compare, EmptyRowsFollowTheDialect) {
  OneElement element(std::nan(""), 0, 0);
  element.truth_.oracle.visible = {0};
  EXPECT_EQ(element.judge(7).compared, 0);  // nothing declared
  element.info_.dialect.empty_row = QKVET_EMPTY_ROW_ZERO;
  EXPECT_EQ(element.judge(0).verdict, Verdict::kPassed);
  EXPECT_EQ(element.judge(7).verdict, Verdict::kFailed);
  EXPECT_EQ(element.judge(std::nan("")).verdict, Verdict::kFailed);
  element.info_.dialect.empty_row = QKVET_EMPTY_ROW_NAN;
  EXPECT_EQ(element.judge(std::nan("")).verdict, Verdict::kPassed);
  EXPECT_EQ(element.judge(0).verdict, Verdict::kFailed);
}

// With a sink the formula's value is right as well, and no other value.
TEST(Compare, EmptyRowsMayBeTheirSinkAlone) {
  OneElement element(0, 0, 0);
  element.truth_.oracle.visible = {0};
  element.info_.dialect.empty_row = QKVET_EMPTY_ROW_NAN;
  EXPECT_EQ(element.judge(0).verdict, Verdict::kFailed);  // no sink
  element.value_.sink = make_recipe(RecipeKind::kOne);
  EXPECT_EQ(element.judge(0).verdict, Verdict::kPassed);
  EXPECT_EQ(element.judge(std::nan("")).verdict, Verdict::kPassed);
  EXPECT_EQ(element.judge(1).verdict, Verdict::kFailed);
}

// Each reason follows its own declaration, and several follow what they share.
TEST(Compare, EmptyRowsFollowTheDialectOfTheirReason) {
  OneElement element(std::nan(""), 0, 0);
  element.truth_.oracle.visible = {0};
  qkvet_dialect& dialect = element.info_.dialect;
  dialect.empty_row = QKVET_EMPTY_ROW_ZERO;
  dialect.empty_row_by_mask = QKVET_EMPTY_ROW_NAN;
  element.value_.causal = Causal::kBottomRight;
  EXPECT_EQ(element.judge(0).verdict, Verdict::kPassed);
  EXPECT_EQ(element.judge(std::nan("")).verdict, Verdict::kFailed);
  element.value_.mask = {MaskKind::kEmptyRowN, 0, kOwnAll};
  EXPECT_EQ(element.judge(7).compared, 0);
  element.value_.causal = Causal::kNone;
  EXPECT_EQ(element.judge(0).verdict, Verdict::kFailed);
  EXPECT_EQ(element.judge(std::nan("")).verdict, Verdict::kPassed);
  element.value_.shape.Tk = 0;
  EXPECT_EQ(element.judge(7).compared, 0);
  element.value_.mask = {};
  EXPECT_EQ(element.judge(0).verdict, Verdict::kPassed);
  EXPECT_EQ(element.judge(7).verdict, Verdict::kFailed);
}

// The number within its bound that is nearest to it is kept, with its place. A
// number outside is a finding, and no neighbour takes its place.
TEST(Compare, TheNearestOfThoseWithinIsKept) {
  Judgement judgement;
  const auto compare = [&](double actual, int64_t element) {
    return compare_with_bound({actual,
                               1,
                               0x1p-10,
                               0,
                               Dtype::kF64,
                               /*before_rounding=*/false,
                               {TensorName::kLse, element, 2}},
                              judgement);
  };
  EXPECT_FALSE(compare(1, 0));
  ASSERT_TRUE(judgement.nearest);
  EXPECT_EQ(judgement.nearest->at.element, 0);
  EXPECT_FALSE(compare(1 - 0x1p-11, 1));
  EXPECT_FALSE(compare(1 + 0x1p-12, 2));
  EXPECT_EQ(judgement.nearest->at.element, 1);
  EXPECT_EQ(judgement.nearest->at.tensor, TensorName::kLse);
  EXPECT_EQ(judgement.nearest->at.call, 2);
  EXPECT_EQ(judgement.nearest->actual, 1 - 0x1p-11);
  EXPECT_EQ(judgement.nearest->low, 1 - 0x1p-10);
  EXPECT_DOUBLE_EQ(judgement.worst_ratio, 0.5);
  const auto finding = compare(1.5, 3);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->planned, 2);
  EXPECT_EQ(judgement.nearest->at.element, 1);
  // A sum has no place, and one that is further off has none to keep.
  keep_ratio(judgement, 0.25);
  EXPECT_TRUE(judgement.nearest);
  keep_ratio(judgement, 0.75);
  EXPECT_FALSE(judgement.nearest);
}

// One number in two ways: no number is near NaN, and the printed limit stays a
// readable number.
TEST(Compare, TwoWaysFailBeyondBothBoundsAndWithNaN) {
  TwoWays pair{1, 1 + 0x1p-10, 0x1p-9, 0, Dtype::kF32, "here", "there"};
  Judgement judgement;
  EXPECT_FALSE(compare_two_ways(pair, judgement));
  pair.bounds = 0x1p-12;
  EXPECT_TRUE(compare_two_ways(pair, judgement));
  pair.first = std::nan("");
  const auto finding = compare_two_ways(pair, judgement);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->allowed.find("nan"), std::string::npos)
      << finding->allowed;
  EXPECT_EQ(judgement.compared, 3);
}

// NaN in both is no difference, and an infinity is near only to a number that
// may round to it.
TEST(Compare, TwoWaysOfNaNAndInfinity) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::nan("");
  const auto differs = [](double first, double second, double bounds,
                          Dtype dtype = Dtype::kF32) {
    Judgement judgement;
    const bool found =
        compare_two_ways({first, second, bounds, 0, dtype, "", ""}, judgement)
            .has_value();
    EXPECT_EQ(judgement.compared,
              std::isnan(first) && std::isnan(second) ? 0 : 1);
    EXPECT_TRUE(std::isfinite(judgement.worst_ratio));
    return found;
  };
  EXPECT_FALSE(differs(nan, nan, 1));
  EXPECT_TRUE(differs(nan, 1, 1));
  EXPECT_TRUE(differs(1, nan, 1));
  EXPECT_TRUE(differs(inf, 1, 1));
  EXPECT_TRUE(differs(1, inf, 1));
  EXPECT_TRUE(differs(inf, -inf, 1));
  EXPECT_TRUE(differs(inf, nan, 1));
  EXPECT_FALSE(differs(inf, inf, 1));
  EXPECT_FALSE(differs(inf, 65504, 16, Dtype::kF16));
  EXPECT_TRUE(differs(inf, 65504, 16));
  EXPECT_TRUE(differs(-inf, 65504, 16, Dtype::kF16));
  EXPECT_TRUE(differs(inf, 60000, 16, Dtype::kF16));
}

// If both bounds together reach as far as any choice of keys, the comparison
// could not have failed.
TEST(Compare, TwoWaysCountWhatCouldNotFail) {
  Judgement judgement;
  compare_two_ways({1, 1, 0.5, 0.4, Dtype::kF32, "", ""}, judgement);
  EXPECT_EQ(judgement.compared, 0);
  EXPECT_EQ(judgement.vacuous, 1);
  compare_two_ways({1, 1, 0.5, 0.6, Dtype::kF32, "", ""}, judgement);
  EXPECT_EQ(judgement.compared, 1);
}

// No bound is to blame where neither call gave a number.
TEST(Compare, NaNInBothCallsIsCalledThat) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto reason_of = [](double number, double bounds) {
    Judgement judgement;
    compare_two_ways({number, number, bounds, 1, Dtype::kF32, "", ""},
                     judgement);
    // A number of another case, so that the law was checked at all.
    Judgement checked;
    compare_two_ways({1, 1, 0.5, 1, Dtype::kF32, "", ""}, checked);
    Tally tally;
    for (int n = 0; n < 9; ++n) add_judgement(tally, n, Case{}, judgement, 0);
    add_judgement(tally, 9, Case{}, checked, 0);
    const Cell cell = cell_of(tally, {}, "");
    EXPECT_EQ(cell.verdict, Verdict::kMistrusted);
    return cell.reason;
  };
  EXPECT_EQ(reason_of(kNaN, 0.5), "both calls answer NaN for 9 of 10 elements");
  EXPECT_EQ(reason_of(1, kInfinity),
            "the bound is uninformative for 9 of 10 elements");
}

// Elements of every kind of tensor, and their numbers again.
TEST(Compare, ElementsAreNamedByTheirIndices) {
  const Shape shape{2, 6, 3, 4, 5, 6, 7, 8};
  const std::tuple<TensorName, size_t, const char*> rows[] = {
      {TensorName::kO, ((1 * 6 + 2) * 4 + 3) * 7 + 6, "o[b=1,h=2,i=3,c=6]"},
      {TensorName::kLse, (1 * 6 + 2) * 4 + 3, "lse[b=1,h=2,i=3]"},
      {TensorName::kWeights, 4, "weights[b=0,h=0,i=0,j=4]"},
      {TensorName::kDropoutMask, 5, "dropout_mask[b=0,h=0,i=1,j=0]"},
      {TensorName::kY, (1 * 4 + 2) * 8 + 7, "y[b=1,t=2,c=7]"},
      {TensorName::kStageK, (2 * 4 + 3) * 6 + 5, "k[b=0,h=2,t=3,c=5]"},
      {TensorName::kAttended, 7, "attended[b=0,h=0,t=1,c=0]"},
      {TensorName::kK, 6, "k[b=0,h=0,j=1,c=0]"},
      {TensorName::kDQ, 6, "dq[b=0,h=0,i=1,c=0]"},
      {TensorName::kDK, (1 * 3 + 2) * 5 * 6, "dk[b=1,h=2,j=0,c=0]"},
      {TensorName::kDBias, 6, "dbias[b=0,h=0,i=1,j=1]"},
      {TensorName::kDSink, 3, "dsink[h=3]"},
      {TensorName::kDX, 9, "dx[b=0,t=1,c=1]"},
      {TensorName::kDWk, 19, "dw_k[row=1,column=1]"},
      {TensorName::kDBo, 3, "db_o[column=3]"}};
  for (const auto& [tensor, n, name] : rows) {
    const Grid grid(shape, tensor);
    EXPECT_EQ(grid.name(n), name);
    EXPECT_EQ(grid.index(grid.at(n)), n) << name;
  }
}

TEST(Compare, NumbersReadBack) {
  EXPECT_EQ(number_text(0.1f, Dtype::kF32), "0.1");
  EXPECT_EQ(number_text(1.0 / 3, Dtype::kF64), "0.3333333333333333");
}

}  // namespace
}  // namespace qkvet::properties::compare_test

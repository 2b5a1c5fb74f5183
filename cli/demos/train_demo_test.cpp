// SPDX-License-Identifier: Apache-2.0
// The training demonstration: its gradients against differences of the loss,
// its curve, and the program.
#include "cli/demos/train_demo.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "cli/base/program_run.h"
#include "cli/demos/loss_curve.h"
#include "cli/kernels/kernels.h"

namespace qkvet::cli::train_demo_test {
namespace {

struct Trained {
  Trained() {
    KernelSelection selection;
    selection.kernels = {"scalar/plain"};
    selected = select_kernels(selection);
    opened = executor_factory(selected, /*in_process=*/true)(0);
  }
  AttentionCalls attention() {
    return {*opened.executor, selected.kernels[0].index};
  }
  SelectedKernels selected;
  Opened opened;
};

// Moved along its own gradient, the loss changes by the square of its length.
TEST(TrainModel, GradientsAreTheSlopesOfTheLoss) {
  Trained kernel;
  ASSERT_NE(kernel.opened.executor, nullptr) << kernel.selected.error;
  AttentionCalls attention = kernel.attention();
  TrainShape shape;
  for (const bool causal : {true, false}) {
    TrainModel model(shape, causal, 3, attention);
    const auto rows = train_rows(TrainTask::kCount, 64, 13, 0, 4, 9);
    std::vector<int> ids, targets;
    for (size_t n = 0; n < rows.size(); ++n) {
      if (n % 13 < 12) ids.push_back(rows[n]);
      if (n % 13 > 0) targets.push_back(rows[n]);
    }
    ASSERT_TRUE(model.gradients(ids, targets)) << attention.error();
    for (size_t which = 0; which < model.learned().size(); ++which) {
      Learned& one = model.learned()[which];
      double square = 0;
      for (const float g : one.gradient) square += double{g} * double{g};
      ASSERT_GT(square, 0) << which;
      const std::vector<float> value = one.value;
      const double step = 2e-3 / std::sqrt(square);
      const auto moved = [&](double by) {
        for (size_t i = 0; i < value.size(); ++i)
          one.value[i] = static_cast<float>(value[i] + by * one.gradient[i]);
        return model.loss(ids, targets).value_or(0);
      };
      const double slope = (moved(step) - moved(-step)) / (2 * step);
      one.value = value;
      EXPECT_NEAR(slope / square, 1, 0.02) << "parameter " << which;
    }
  }
}

TEST(TrainModel, RowsAreAFunctionOfTheSeedAndCount) {
  const auto rows = train_rows(TrainTask::kCount, 64, 13, 0, 500, 1);
  EXPECT_EQ(rows, train_rows(TrainTask::kCount, 64, 13, 0, 500, 1));
  EXPECT_NE(rows, train_rows(TrainTask::kCount, 64, 13, 0, 500, 2));
  int jumps = 0, steps = 0;
  for (size_t n = 0; n + 1 < rows.size(); ++n) {
    if (n % 13 == 12) continue;
    ++steps;
    jumps += rows[n + 1] != (rows[n] + 1) % 64;
  }
  EXPECT_NEAR(static_cast<double>(jumps) / steps, 0.1, 0.015);
  for (const int token : train_rows(TrainTask::kRepeat, 64, 13, 7, 1, 1))
    EXPECT_EQ(token, train_rows(TrainTask::kRepeat, 64, 13, 7, 1, 1)[0]);
  EXPECT_NEAR(least_loss(TrainTask::kCount, 64), 0.73, 0.02);
}

TEST(LossCurve, FallsFromLeftToRight) {
  const std::string text = curve_text({{"falls", '*', {4, 3, 2, 1, 0}}}, 5, 5);
  EXPECT_EQ(text,
            "   4.00 |*\n   3.00 | *\n   2.00 |  *\n   1.00 |   *\n"
            "   0.00 |    *\n        +-----\n        *  falls\n");
  const std::string svg =
      curve_svg("t", {{"falls", '*', {4, 0}}, {"stays < 2", 'o', {2, 2}}});
  // The loss from 0 to 4 over 300 pixels, step 2 of 2 at the right end.
  for (const char* part :
       {"points=\"380.0,56.0 690.0,356.0 \"",
        "points=\"380.0,206.0 690.0,206.0 "
        "\"",
        ">4</text>", ">step</text>", ">loss (nats a token)</text>",
        ">stays &lt; 2</text>"})
    EXPECT_TRUE(has(svg, part)) << part;
}

double number_behind(const std::string& text, const std::string& words,
                     size_t from = 0) {
  const size_t at = text.find(words, from);
  EXPECT_NE(at, std::string::npos) << words << "\n" << text;
  return at == std::string::npos ? -1
                                 : std::stod(text.substr(at + words.size()));
}

TEST(TrainDemo, TheLossFallsBelowOneInThreeEpochs) {
  const std::string folder = scratch();
  const Ran ran = exits(0, run_qkvet("demo train --out curve.svg", folder));
  EXPECT_LT(number_behind(ran.out, "epoch 3   loss "), 1.0);
  EXPECT_GT(number_behind(ran.out, "right     "), 95);
  EXPECT_TRUE(has(ran.out, "ln 64 = 4.16"));
  EXPECT_TRUE(has(ran.out, "head 3"));
  const Ran again = exits(2, run_qkvet("demo train --out curve.svg", folder));
  EXPECT_TRUE(has(again.error, "curve.svg"));
}

TEST(TrainDemo, WithoutAMaskTheLossIsBetterAndWhatIsGeneratedIsNot) {
  const Ran ran = exits(0, run_qkvet("demo train --task no_mask"));
  const size_t second = ran.out.find("without a causal mask");
  ASSERT_NE(second, std::string::npos) << ran.out;
  const double with = number_behind(ran.out, "epoch 3   loss ");
  const double without = number_behind(ran.out, "epoch 3   loss ", second);
  EXPECT_LT(without, with / 2);
  EXPECT_LT(with, 1.0);
  EXPECT_GT(number_behind(ran.out, "right     "), 90);
  EXPECT_LT(number_behind(ran.out, "right     ", second), 30);
}

TEST(TrainDemo, BadInputIsNamed) {
  const struct {
    const char* arguments;
    const char* part;
  } rows[] = {{"--task sort", "--task"},
              {"--task no_scale", "--task"},
              {"--repeat 0", "--repeat 0: allowed 1 .. 100"},
              {"--sample 100", "--sample 100: allowed 32 .. 65536, a multiple"},
              {"--kernel controls/naive", "controls/naive: declares no "},
              {"--kernel 'scalar/*'", "takes one"}};
  for (const auto& row : rows) {
    const Ran ran = run_qkvet(std::string("demo train ") + row.arguments);
    EXPECT_EQ(ran.exit, 2) << row.arguments;
    EXPECT_TRUE(has(ran.error, row.part)) << row.arguments;
    EXPECT_EQ(ran.out, "");
  }
}

}  // namespace
}  // namespace qkvet::cli::train_demo_test

// SPDX-License-Identifier: Apache-2.0
// qkvet demo train: a small model learns on the CPU, with a kernel's attention
// and gradient; with a mask, or without one to see the difference.
#include <fmt/core.h>

#include <cmath>
#include <cstdio>

#include "cli/base/arguments.h"
#include "cli/commands/groups.h"
#include "cli/demos/loss_curve.h"
#include "cli/demos/train_demo.h"
#include "cli/inspect/screen.h"
#include "cli/kernels/write_new.h"
#include "cli/pictures/heat_map.h"
#include "cli/terminal/select.h"

namespace qkvet::cli {
namespace {

struct TrainDemoOptions {
  KernelSelection selection;    // nothing named: scalar/plain
  std::string task = "repeat";  // "count", "no_mask": both with and without
  int64_t epochs = 3;
  int64_t rows = 2048;
  std::string seed = "1";
  PictureFile picture;  // of the curves

  bool without_mask() const { return task == "no_mask"; }
};

constexpr int64_t kMostEpochs = 100, kMostRows = int64_t{1} << 16;
constexpr size_t kCurveWidth = 64, kCurveHeight = 12;

// "" or one line.
std::string read_plan(const TrainDemoOptions& options, TrainPlan* plan) {
  if (options.epochs < 1 || options.epochs > kMostEpochs)
    return fmt::format("--repeat {}: allowed 1 .. {}", options.epochs,
                       kMostEpochs);
  if (options.rows < plan->batch || options.rows > kMostRows ||
      options.rows % plan->batch != 0)
    return fmt::format("--sample {}: allowed {} .. {}, a multiple of {}",
                       options.rows, plan->batch, kMostRows, plan->batch);
  if (std::string reason = misuse_of(options.picture); !reason.empty())
    return reason;
  std::string error;
  const auto seed = parse_seed(options.seed, &error);
  if (!seed) return error;
  // Rows of one token look the same in both directions: a mask shows the
  // direction in which they continue.
  const bool counts = options.task != "repeat";
  plan->task = counts ? TrainTask::kCount : TrainTask::kRepeat;
  plan->epochs = options.epochs;
  plan->rows = options.rows;
  plan->seed = *seed;
  return "";
}

// "" or one line.
std::string read_kernel(const TrainDemoOptions& options,
                        SelectedKernels* selected) {
  KernelSelection selection = options.selection;
  if (selection.names_nothing()) selection.kernels = {"scalar/plain"};
  *selected = select_kernels(selection);
  if (!selected->error.empty()) return selected->error;
  if (selected->kernels.size() != 1)
    return fmt::format(
        "{} kernels are named; demo train takes one, --kernel "
        "names it",
        selected->kernels.size());
  const KernelInfo& info = selected->kernels[0].judged.info;
  if (!info.has_forward || !info.has_backward ||
      !info.has_option(QKVET_OPTION_LSE) ||
      !info.has_option(QKVET_OPTION_WEIGHTS) ||
      !info.has_option(QKVET_OPTION_CAUSAL_TOP_LEFT))
    return info.name +
           ": declares no gradient, lse, weights or causal mask, all of which "
           "training takes; scalar/plain has them";
  return "";
}

std::string maps_text(const TrainPlan& plan,
                      const std::vector<float>& weights) {
  const auto cells = static_cast<size_t>(plan.shape.T * plan.shape.T);
  std::vector<uint8_t> sees(cells, 1);
  for (int64_t i = 0; plan.causal && i < plan.shape.T; ++i)
    for (int64_t j = i + 1; j < plan.shape.T; ++j)
      sees[static_cast<size_t>(i * plan.shape.T + j)] = 0;
  std::vector<TextBlock> blocks;
  for (int64_t h = 0; h < plan.shape.H; ++h) {
    const auto first = weights.begin() + static_cast<std::ptrdiff_t>(cells) * h;
    const std::vector<double> head(first,
                                   first + static_cast<std::ptrdiff_t>(cells));
    blocks.push_back(
        heat_text(weights_map(fmt::format("head {}", h), plan.shape.T,
                              plan.shape.T, head, sees),
                  screen_ink()));
  }
  return side_by_side(blocks, screen_width());
}

std::string tokens_text(const std::vector<int>& tokens) {
  std::string out;
  for (const int token : tokens) out += fmt::format(" {}", token);
  return out;
}

TrainResult train_aloud(const TrainPlan& plan, AttentionCalls& attention) {
  fmt::print("\n{} a causal mask\n", plan.causal ? "with" : "without");
  const TrainResult result =
      train(plan, attention, [](int64_t epoch, double loss) {
        fmt::print("  epoch {}   loss {:.3f}\n", epoch, loss);
        std::fflush(stdout);
      });
  if (!result.error.empty()) return result;
  fmt::print("  generated{}\n", tokens_text(result.generated));
  fmt::print("  right     {:.0f} % of the generated tokens\n",
             100 * result.right);
  return result;
}

std::string told(const TrainResult& with, const TrainResult& without,
                 const TrainPlan& plan) {
  return fmt::format(
      "\nThe loss without a mask is {:.2f}, with it {:.2f}; {:.2f} is the "
      "least "
      "that is\npossible without seeing the next token. Of what is generated "
      "{:.0f} % and {:.0f} % is right.\n",
      without.epochs.back(), with.epochs.back(),
      least_loss(plan.task, plan.shape.vocabulary), 100 * without.right,
      100 * with.right);
}

void print_head(const TrainPlan& plan, const std::string& kernel) {
  const char* task = plan.task == TrainTask::kRepeat
                         ? "repeat: one random token, again and again"
                         : "count: the next token is one larger, one in ten is "
                           "random";
  fmt::print(
      "{}\nvocabulary {}, D = {}, H = {}, T = {}; {} rows, {} epochs of {} "
      "steps, seed {}; ln {} = {:.2f}\nattention and its gradient by {}\n",
      task, plan.shape.vocabulary, plan.shape.D, plan.shape.H, plan.shape.T,
      plan.rows, plan.epochs, plan.steps_per_epoch(), plan.seed,
      plan.shape.vocabulary,
      std::log(static_cast<double>(plan.shape.vocabulary)), kernel);
}

ExitCode run(const TrainDemoOptions& options) {
  TrainPlan plan;
  if (std::string error = read_plan(options, &plan); !error.empty())
    return wrong_use(error);
  SelectedKernels selected;
  if (std::string error = read_kernel(options, &selected); !error.empty())
    return wrong_use(error);
  const Opened opened =
      executor_factory(selected, options.selection.in_process)(0);
  if (opened.executor == nullptr) return wrong_use(opened.error);
  AttentionCalls attention(*opened.executor, selected.kernels[0].index);
  print_head(plan, selected.kernels[0].judged.info.name);
  const TrainResult with = train_aloud(plan, attention);
  if (!with.error.empty()) return wrong_use(with.error);
  std::vector<LossCurve> curves = {{"with a causal mask", '*', with.losses}};
  TrainPlan other = plan;
  other.causal = false;
  TrainResult without;
  if (options.without_mask()) {
    without = train_aloud(other, attention);
    if (!without.error.empty()) return wrong_use(without.error);
    curves.push_back({"without a mask", 'o', without.losses});
  }
  fmt::print("\nloss\n{}", curve_text(curves, kCurveWidth, kCurveHeight));
  const bool faulty = options.without_mask();
  const TrainResult& shown = faulty ? without : with;
  const TrainPlan& seen = faulty ? other : plan;
  fmt::print("\nweights of a new row{}, before\n{}\nand after\n{}",
             faulty ? ", without a mask" : "",
             maps_text(seen, shown.weights_before),
             maps_text(seen, shown.weights_after));
  fmt::print("{}\n", legend_text(screen_ink(), false));
  if (faulty) std::fputs(told(with, without, plan).c_str(), stdout);
  if (options.picture.svg.empty()) return kConforms;
  const std::string error = write_new(
      options.picture.svg, curve_svg("Loss of qkvet demo train", curves),
      options.picture.force);
  return error.empty() ? kConforms : wrong_use(error);
}

void add_flags(CLI::App& command, TrainDemoOptions& options) {
  add_specs(command, options.selection);
  add_kernels(command, options.selection);
  command
      .add_option("--task", options.task,
                  "repeat one token, count up, or count without mask: no_mask")
      ->check(CLI::IsMember({"repeat", "count", "no_mask"}))
      ->capture_default_str();
  command
      .add_option("--repeat", options.epochs, "Number of passes over the rows")
      ->capture_default_str();
  command
      .add_option("--sample", options.rows,
                  "Training rows of 12 tokens, a multiple of 32")
      ->capture_default_str();
  add_seed(command, options.seed,
           "Seed of the rows and the initial weights, or random");
  add_picture(command, options.picture, "Write the loss curves as SVG");
  add_footer(
      command,
      "Attention and its gradient are a kernel's, scalar/plain unless one is "
      "named.\nExit: 0 shown; 2 wrong use, or a kernel that does not answer.");
}

}  // namespace

void add_train(CLI::App& demo, Chosen& chosen) {
  add_command<TrainDemoOptions>(
      demo, chosen, "train",
      "Train a small model, with and without a causal mask", add_flags, run);
}

}  // namespace qkvet::cli

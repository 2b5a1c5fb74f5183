// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/main_inspect.h"

#include <CLI/CLI.hpp>

#include "tools/base/load_data.h"
#include "tools/commands/main_kernels.h"

namespace qkvet::tools {
namespace {

void add_pictures(CLI::App& command, PictureFiles& files, const char* what) {
  command.add_option("--svg", files.svg, what)->type_name("FILE");
  command.add_option("--png", files.png, "The same in pixels")
      ->type_name("FILE");
  command.add_flag("--force", files.force, "Replace pictures that are there");
}

CLI::App& add_inspect(CLI::App& app, InspectOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "inspect",
      "Show a call tensor by tensor, what its heads look at, and where a "
      "kernel parts from the definition");
  command
      .add_option("case", options.value,
                  "A case of attention or of a layer, as reports print it: "
                  "f32,B1,H4,T12,D32,causal")
      ->required();
  command.add_option("source", options.selection.sources,
                     "A kernel to compile: .c, .cpp, .cc, .cxx, .rs");
  add_selection(command, options.selection);
  command
      .add_option("--head", options.head,
                  "The one head to be drawn; its values are shown")
      ->type_name("H");
  command
      .add_option("--member", options.member, "The batch member that is shown")
      ->type_name("B")
      ->capture_default_str();
  add_pictures(command, options.pictures, "Write the heat maps as a picture");
  command.add_flag("--json", options.json, "JSON Lines instead of text");
  command
      .add_option("--data", options.data,
                  "File that the case takes its data from; may be repeated")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command.footer(
      "Exit: 0 shown, and the kernel agrees if one is named; 1 it parts; 2 "
      "wrong use; 3 it was not judged; 4 it died.");
  return command;
}

CLI::App& add_trace(CLI::App& app, TraceOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "trace",
      "Walk a small GPT from token ids to logits: shapes, bytes, ranges, and "
      "what it takes");
  add_kernels(command, options.selection);
  const struct {
    const char* name;
    int64_t* number;
    const char* what;
  } rows[] = {{"--layers", &options.layers, "Blocks"},
              {"--heads", &options.heads, "H"},
              {"--width", &options.width, "D, a multiple of H"},
              {"--context", &options.context, "Positions that have embeddings"},
              {"--vocab", &options.vocab, "Tokens that there are"},
              {"--batch", &options.batch, "Sequences, where tokens are drawn"}};
  for (const auto& row : rows)
    command.add_option(row.name, *row.number, row.what)
        ->type_name("N")
        ->capture_default_str();
  command
      .add_option("--tokens", options.tokens,
                  "A sequence of ids; may be repeated; none: as many as the "
                  "context has are drawn")
      ->type_name("ID,ID,...")
      ->allow_extra_args(false);
  command
      .add_option("--seed", options.seed, "Of the weights; number, or random")
      ->capture_default_str();
  command.add_flag("--shapes", options.shapes,
                   "Compute nothing: for models of any size");
  command.add_flag("--json", options.json, "JSON Lines instead of text");
  command.footer(
      "Weights are normal numbers / sqrt(inputs), embeddings normal numbers / "
      "2, biases 0.\nWith --kernel attention is the kernel's, and judged. "
      "Exit: 0 shown; "
      "1 the kernel\nparts; 2 wrong use; 3 it was not judged; 4 it died.");
  return command;
}

CLI::App& add_train_demo(CLI::App& app, TrainDemoOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "train-demo",
      "Train a small model on the CPU: its loss, what its heads look at before "
      "and after, and what becomes of it without a causal mask");
  add_kernels(command, options.selection);
  command
      .add_option("--task", options.task,
                  "repeat: rows of one token; count: rows that count up")
      ->capture_default_str();
  command
      .add_option("--fault", options.fault,
                  "no_mask: train without a causal mask as well, on rows that "
                  "count up")
      ->type_name("FAULT");
  command.add_option("--epochs", options.epochs, "Passes over the rows")
      ->capture_default_str();
  command.add_option("--rows", options.rows, "Rows of 12 tokens, in 32s")
      ->capture_default_str();
  command
      .add_option("--seed", options.seed,
                  "Of the rows and the first weights; number, or random")
      ->capture_default_str();
  add_pictures(command, options.pictures, "Draw the curves of the loss");
  command.footer(
      "Attention and its gradient are a kernel's, scalar/plain unless one is "
      "named.\nExit: 0 shown; 2 wrong use, or a kernel that does not answer.");
  return command;
}

}  // namespace

InspectCommands::InspectCommands(CLI::App& app)
    : inspect_command_(&add_inspect(app, inspect_)),
      trace_command_(&add_trace(app, trace_)),
      train_command_(&add_train_demo(app, train_)) {}

std::optional<ExitCode> InspectCommands::run() const {
  if (inspect_command_->parsed()) {
    const std::string error = load_data(inspect_.data);
    return error.empty() ? run_inspect(inspect_) : wrong_use(error);
  }
  if (trace_command_->parsed()) return run_trace(trace_);
  if (train_command_->parsed()) return run_train_demo(train_);
  return std::nullopt;
}

}  // namespace qkvet::tools

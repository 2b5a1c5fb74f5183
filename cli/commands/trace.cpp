// SPDX-License-Identifier: Apache-2.0
// qkvet demo trace: the shapes of a small GPT from token ids to logits.
#include <fmt/core.h>

#include <charconv>
#include <cstdio>

#include "cli/base/arguments.h"
#include "cli/base/model_text.h"
#include "cli/commands/groups.h"
#include "cli/demos/gpt.h"
#include "cli/terminal/select.h"
#include "core/base/philox.h"

namespace qkvet::cli {
namespace {

struct TraceOptions {
  KernelSelection selection;  // nothing named: the definition
  std::string model;          // "L2,H4"; "" for the one below
  int64_t layers = 2;
  int64_t heads = 4;
  int64_t width = 32;
  int64_t context = 12;
  int64_t vocab = 64;
  int64_t batch = 1;
  std::vector<std::string> tokens;  // "3,1,4", a sequence each; none: drawn
  std::string seed = "1";
  bool json = false;
};

// Below these, no product in the report exceeds 2^63 - 1.
constexpr int64_t kMostLayers = 4096, kMostHeads = 1024, kMostWidth = 65536;
constexpr int64_t kMostContext = int64_t{1} << 20;
constexpr int64_t kMostVocab = int64_t{1} << 24;
constexpr int64_t kMostBatch = 1024;

// "" or one line; appends the ids of one sequence.
std::string read_tokens(const std::string& text, const Gpt& gpt,
                        std::vector<int64_t>* tokens) {
  const std::string lead = "--tokens " + text + ": ";
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    int64_t id = -1;
    const auto [next, code] = std::from_chars(at, end, id);
    if (code != std::errc() || (next != end && *next != ','))
      return lead + "token ids with commas between them";
    if (id < 0 || id >= gpt.vocab)
      return lead +
             fmt::format("{} is no token; allowed: 0 .. {}", id, gpt.vocab - 1);
    tokens->push_back(id);
    if (next == end) return "";
    at = next + 1;
  }
}

std::string read_sequences(const TraceOptions& options, Gpt* gpt) {
  if (options.tokens.empty()) {
    gpt->T = gpt->context;
    return "";
  }
  if (options.batch != 1)
    return fmt::format("B{}: the sequences of --tokens are the batch",
                       options.batch);
  for (const std::string& text : options.tokens) {
    const size_t before = gpt->tokens.size();
    if (std::string error = read_tokens(text, *gpt, &gpt->tokens);
        !error.empty())
      return error;
    const auto T = static_cast<int64_t>(gpt->tokens.size() - before);
    if (T > gpt->context)
      return fmt::format("--tokens {}: {} tokens; allowed: {}, the context T",
                         text, T, gpt->context);
    if (before > 0 && T != gpt->T)
      return fmt::format("--tokens {}: {} tokens, the sequences before have {}",
                         text, T, gpt->T);
    gpt->T = T;
  }
  gpt->B = static_cast<int64_t>(options.tokens.size());
  return gpt->B <= kMostBatch
             ? ""
             : fmt::format("--tokens: {} sequences, at most {} are allowed",
                           gpt->B, kMostBatch);
}

// "" or one line.
std::string read_options(TraceOptions options, Gpt* gpt) {
  std::vector<ModelExtent> extents = {{"L", kMostLayers, &options.layers},
                                      {"H", kMostHeads, &options.heads},
                                      {"D", kMostWidth, &options.width},
                                      {"T", kMostContext, &options.context},
                                      {"V", kMostVocab, &options.vocab},
                                      {"B", kMostBatch, &options.batch}};
  if (!options.model.empty())
    if (std::string wrong = read_model_text(options.model, extents);
        !wrong.empty())
      return wrong;
  if (options.width % options.heads != 0)
    return fmt::format(
        "D{}: {} heads do not divide it; allowed is a multiple of {}",
        options.width, options.heads, options.heads);
  std::string error;
  const auto seed = parse_seed(options.seed, &error);
  if (!seed) return error;
  *gpt = {.layers = options.layers,
          .heads = options.heads,
          .width = options.width,
          .context = options.context,
          .vocab = options.vocab,
          .seed = *seed,
          .B = options.batch,
          .T = 0,
          .tokens = {}};
  return read_sequences(options, gpt);
}

void draw_tokens(Gpt* gpt) {
  constexpr uint32_t kIds = 0x676f7074;  // a separate stream
  for (int64_t n = 0; n < gpt->B * gpt->T; ++n)
    gpt->tokens.push_back(static_cast<int64_t>(
        philox_u64(gpt->seed, static_cast<uint32_t>(n / gpt->T),
                   static_cast<uint32_t>(n % gpt->T), kIds) %
        static_cast<uint64_t>(gpt->vocab)));
}

// 4 > 1 > 3 > 0.
ExitCode code_of(const std::vector<KernelView>& views) {
  ExitCode worst = kConforms;
  for (const ExitCode code : {kNothingChecked, kLawFailed, kKernelDied})
    for (const KernelView& view : views)
      if (view.exit_code() == code) worst = code;
  return worst;
}

bool names_kernel(const KernelSelection& selection) {
  return !selection.names_nothing();
}

// "" or one line.
std::string read_kernel(const TraceOptions& options,
                        SelectedKernels* selected) {
  if (!names_kernel(options.selection)) return "";
  *selected = select_kernels(options.selection);
  if (!selected->error.empty()) return selected->error;
  if (selected->kernels.size() != 1)
    return fmt::format(
        "{} kernels are named; trace takes one, --kernel names it",
        selected->kernels.size());
  const KernelInfo& info = selected->kernels[0].judged.info;
  return info.has_layer || info.has_forward
             ? ""
             : info.name + ": has neither a layer nor attention";
}

ExitCode run(const TraceOptions& options) {
  Gpt gpt;
  if (std::string error = read_options(options, &gpt); !error.empty())
    return wrong_use(error);
  SelectedKernels selected;
  if (std::string error = read_kernel(options, &selected); !error.empty())
    return wrong_use(error);
  const std::string too_much = too_much_for(gpt);
  if (!too_much.empty() && !selected.kernels.empty())
    return wrong_use(too_much);
  GptRun run;
  std::string name;
  if (!too_much.empty()) {
    run.stages = gpt_shapes(gpt);
    if (!options.json) fmt::print("shapes only: {}\n", too_much);
  } else {
    if (gpt.tokens.empty()) draw_tokens(&gpt);
    Opened opened;
    std::optional<GptKernel> kernel;
    if (!selected.kernels.empty()) {
      opened = executor_factory(selected, options.selection.in_process)(0);
      if (opened.executor == nullptr) return wrong_use(opened.error);
      kernel.emplace(GptKernel{selected.kernels[0], *opened.executor});
      name = selected.kernels[0].judged.info.name;
    }
    run = run_gpt(gpt, kernel ? &*kernel : nullptr);
  }
  const auto say = options.json ? gpt_json : gpt_text;
  std::fputs(say(gpt, run.stages, run.views, name).c_str(), stdout);
  return code_of(run.views);
}

void add_flags(CLI::App& command, TraceOptions& options) {
  add_model(command, options.model, options.selection,
            "Model [L2,H4,D32,T12,V64,B1], and a kernel");
  add_kernels(command, options.selection);
  command
      .add_option("--tokens", options.tokens,
                  "Token ids of one sequence; may be repeated [random]")
      ->type_name("ID,ID,...")
      ->allow_extra_args(false);
  add_seed(command, options.seed, "Seed of the weights, or random");
  command.add_flag("--json", options.json, "Print JSON Lines instead of text");
  add_footer(
      command,
      "Weights are normal numbers / sqrt(inputs), embeddings normal numbers / "
      "2, biases 0.\nWith --kernel attention is the kernel's, and judged. "
      "Exit: 0 shown; "
      "1 the kernel\nparts; 2 wrong use; 3 it was not judged; 4 it died.");
}

}  // namespace

void add_trace(CLI::App& demo, Chosen& chosen) {
  add_command<TraceOptions>(
      demo, chosen, "trace",
      "Show a forward pass of a small GPT, from token ids to logits", add_flags,
      run);
}

}  // namespace qkvet::cli

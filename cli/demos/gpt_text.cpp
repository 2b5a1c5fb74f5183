// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/demos/gpt.h"
#include "cli/inspect/inspection.h"
#include "core/base/json.h"
#include "core/base/verdict.h"
#include "report/json_lines.h"

namespace qkvet::cli {
namespace {

// Exact as far as doubles are.
std::string operations(double flops) {
  constexpr double kExact = 9007199254740992;  // 2^53
  return flops <= kExact ? grouped(std::llround(flops))
                         : fmt::format("{:.4g}", flops);
}

std::string values_range(const StageSummary& stage) {
  if (stage.values.empty()) return "";  // no numbers were computed
  return fmt::format("{:.4g} .. {:.4g}", stage.least, stage.most);
}

std::string stages_text(const Gpt& gpt, const std::vector<GptStage>& stages) {
  size_t how = 0, shape = 5, elements = 8, bytes = 5;
  for (const GptStage& stage : stages) {
    how = std::max(how, stage.summary.how.size());
    shape = std::max(shape, shape_text(stage.summary.shape).size());
    elements = std::max(elements, grouped(stage.summary.elements).size());
    bytes = std::max(bytes, grouped(stage.bytes).size());
  }
  std::string out = fmt::format("  {:<8} {:<{}} {:<{}} {:>{}} {:>{}}   {}\n",
                                "stage", "", how, "shape", shape, "elements",
                                elements, "bytes", bytes, "range");
  int64_t block = -1;
  for (const GptStage& stage : stages) {
    if (stage.block != block && stage.block >= 0)
      out += stage.summary.values.empty() && gpt.layers > 1
                 ? fmt::format("block 1, and {} more like it\n", gpt.layers - 1)
                 : fmt::format("block {}\n", stage.block + 1);
    if (stage.block != block && stage.block < 0) out += "after the blocks\n";
    block = stage.block;
    std::string line = fmt::format(
        "  {:<8} {:<{}} {:<{}} {:>{}} {:>{}}   {}", stage.summary.name,
        stage.summary.how, how, shape_text(stage.summary.shape), shape,
        grouped(stage.summary.elements), elements, grouped(stage.bytes), bytes,
        values_range(stage.summary));
    line.resize(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string totals_text(const Gpt& gpt) {
  const int64_t D = gpt.width;
  std::string out = fmt::format(
      "\nparameters  (V + context) D + layers (12 D^2 + 13 D) + 2 D\n"
      "            ({} + {}) x {} + {} x (12 x {} + 13 x {}) + 2 x {} = {}\n",
      gpt.vocab, gpt.context, D, gpt.layers, D * D, D, D,
      grouped(parameters_of(gpt)));
  out += fmt::format(
      "FLOPs       layers (24 B T D^2 + 4 B T^2 D) + 2 B T D V, a pass, all "
      "pairs\n"
      "            {} x (24 x {} x {} x {} + 4 x {} x {} x {}) + 2 x {} x {} x "
      "{} x {} = {}\n",
      gpt.layers, gpt.B, gpt.T, D * D, gpt.B, gpt.T * gpt.T, D, gpt.B, gpt.T, D,
      gpt.vocab, operations(flops_of(gpt)));
  out += fmt::format(
      "KV cache    2 x layers x heads x d x tokens x B x 4 bytes of f32\n"
      "            2 x {} x {} x {} x {} x {} x 4 = {} bytes\n",
      gpt.layers, gpt.heads, gpt.d(), gpt.T, gpt.B,
      grouped(cache_bytes_of(gpt, gpt.T)));
  if (gpt.T < gpt.context)
    out += fmt::format("            with a full context of {}: {} bytes\n",
                       gpt.context, grouped(cache_bytes_of(gpt, gpt.context)));
  return out;
}

}  // namespace

std::string gpt_text(const Gpt& gpt, const std::vector<GptStage>& stages,
                     const std::vector<KernelView>& views,
                     const std::string& kernel) {
  const bool computed = !stages[0].summary.values.empty();
  std::string out = fmt::format(
      "GPT: {} block{}, H = {}, D = {}, d = {}, context {}, vocabulary {}; B = "
      "{}, T = {}{}\n",
      gpt.layers, gpt.layers == 1 ? "" : "s", gpt.heads, gpt.width, gpt.d(),
      gpt.context, gpt.vocab, gpt.B, gpt.T,
      computed ? fmt::format("\nWeights of seed {}, biases 0, gains of norms 1",
                             gpt.seed)
               : "");
  out += stages_text(gpt, stages);
  for (size_t n = 0; n < views.size(); ++n) {
    out += fmt::format("\n{}, block {}\n", kernel, n + 1);
    out += views[n].ended ? ended_text(*views[n].ended)
                          : kernel_stages_text(views[n]);
  }
  return out + totals_text(gpt);
}

std::string gpt_json(const Gpt& gpt, const std::vector<GptStage>& stages,
                     const std::vector<KernelView>& views,
                     const std::string& kernel) {
  Json start = json_line("trace", {{"layers", gpt.layers},
                                   {"H", gpt.heads},
                                   {"D", gpt.width},
                                   {"context", gpt.context},
                                   {"vocab", gpt.vocab},
                                   {"B", gpt.B},
                                   {"T", gpt.T},
                                   {"seed", gpt.seed}});
  if (!kernel.empty()) start["kernel"] = kernel;
  std::string out = line_of(start);
  for (const GptStage& stage : stages) {
    Json line = json_line("trace_stage");
    if (stage.block >= 0) line["block"] = stage.block + 1;
    line.update({{"name", stage.summary.name},
                 {"how", stage.summary.how},
                 {"shape", stage.summary.shape},
                 {"elements", stage.summary.elements},
                 {"bytes", stage.bytes}});
    if (!stage.summary.values.empty())
      line.update({{"least", json_number(stage.summary.least)},
                   {"most", json_number(stage.summary.most)}});
    out += line_of(line);
  }
  for (size_t n = 0; n < views.size(); ++n)
    for (const Json& stage : kernel_stages_json(views[n])) {
      Json line = json_line("trace_kernel_stage",
                            {{"block", n + 1}, {"kernel", kernel}});
      line.update(stage);
      out += line_of(line);
    }
  return out +
         line_of(json_line("trace_end",
                           {{"parameters", parameters_of(gpt)},
                            {"flops", flops_of(gpt)},
                            {"kv_cache_bytes", cache_bytes_of(gpt, gpt.T)}}));
}

}  // namespace qkvet::cli

// SPDX-License-Identifier: Apache-2.0
// One Python file: the tables of templates/reproducer.py,
// reproducer_backward.py, reproducer_layer.py or reproducer_story.py.
#include <fmt/core.h>

#include "core/call/option_numbers.h"
#include "core/door/abi_call.h"
#include "tools/reproduce/python_text.h"
#include "tools/reproduce/reproducer_story.h"

namespace qkvet::tools {
namespace {

constexpr std::string_view kAttention =
#include "reproducer.py.inc"
    ;
constexpr std::string_view kBackward =
#include "reproducer_backward.py.inc"
    ;
constexpr std::string_view kLayer =
#include "reproducer_layer.py.inc"
    ;
constexpr std::string_view kStory =
#include "reproducer_story.py.inc"
    ;
// What they have in common.
constexpr std::string_view kNumbers =
#include "reproducer_numbers.py.inc"
    ;
constexpr std::string_view kScores =
#include "reproducer_scores.py.inc"
    ;
constexpr std::string_view kPairs =
#include "reproducer_pairs.py.inc"
    ;
constexpr std::string_view kStored =
#include "reproducer_stored.py.inc"
    ;
constexpr std::string_view kVerdict =
#include "reproducer_verdict.py.inc"
    ;

const char* causal_py(int32_t causal) {
  return causal == QKVET_CAUSAL_NONE       ? "\"none\""
         : causal == QKVET_CAUSAL_TOP_LEFT ? "\"top-left\""
                                           : "\"bottom-right\"";
}

std::string scale_py(const CallPlan& plan) {
  if (!plan.scale) return "";
  return entry_py("scale", float_py(static_cast<double>(*plan.scale)));
}

std::string rope_py(RopeStyle rope) {
  if (rope == RopeStyle::kNone) return "";
  return entry_py("rope",
                  rope == RopeStyle::kHalf ? "\"half\"" : "\"interleaved\"");
}

std::string options_py(const CallPlan& plan, const qkvet_dialect& dialect) {
  const AbiCall abi(plan, {});
  const qkvet_forward_args& args = abi.forward();
  std::string text = entry_py("causal", causal_py(args.causal));
  if (args.scale_given != 0)
    text += entry_py("scale", float_py(static_cast<double>(args.scale)));
  if (args.has_window != 0)
    text += entry_py(
        "window", fmt::format("({}, {})", args.window_left, args.window_right));
  for (const OptionNumber& number : kOptionNumbers)
    if (args.*number.in_abi != 0)
      text += entry_py(number.name,
                       float_py(static_cast<double>(args.*number.in_abi)));
  if (args.rope != QKVET_ROPE_NONE)
    text += entry_py(
        "rope", args.rope == QKVET_ROPE_HALF ? "\"half\"" : "\"interleaved\"");
  if (args.page_size > 0)
    text += entry_py("page_size", std::to_string(args.page_size));
  if (args.channel_group > 0)
    text += entry_py("channel_group", std::to_string(args.channel_group));
  if (args.key_block_size > 0)
    text += entry_py("key_block_size", std::to_string(args.key_block_size));
  if (args.chunk > 0) text += entry_py("chunk", std::to_string(args.chunk));
  if (args.full_ranges.ndim > 0)
    text += entry_py("ranges_in_window", truth_py(dialect.ranges_and_window ==
                                                  QKVET_RANGES_IN_WINDOW));
  text += entry_py("softcap_after_bias",
                   truth_py(dialect.softcap_order == QKVET_SOFTCAP_AFTER_MASK));
  text += entry_py("sink_in_lse",
                   truth_py(dialect.sink_in_lse != QKVET_SINK_NOT_IN_LSE));
  text += entry_py("lse_base2", truth_py(dialect.lse_base == QKVET_LSE_BASE2));
  return text;
}

std::string inputs_py(const WrittenCall& call) {
  std::string text;
  for (const CallTensor& input : call.inputs)
    text += entry_py(input.name, tensor_py(input.values));
  return text;
}

std::string attention_py(const WrittenCall& call, const Reproducer& from) {
  return options_py(call.plan, from.dialect) + inputs_py(call);
}

std::string layer_py(const WrittenCall& call, const Reproducer&) {
  const CallPlan& plan = call.plan;
  return entry_py("place", string_py(call.place)) +
         entry_py("refusal", string_py(call.refusal)) +
         entry_py("heads", std::to_string(plan.heads)) +
         entry_py("kv_heads", std::to_string(plan.kv_heads)) +
         entry_py("causal", truth_py(plan.causal != Causal::kNone)) +
         scale_py(plan) + rope_py(plan.rope) + inputs_py(call);
}

std::string command_py(const WrittenCall& call, const Reproducer& from) {
  const CallPlan& plan = call.plan;
  std::string text =
      entry_py("place", string_py(call.place)) +
      entry_py("refusal", string_py(call.refusal)) +
      entry_py("command", string_py(command_name(plan.operation)));
  for (const auto& [name, number] : command_numbers(plan))
    text += entry_py(name, std::to_string(number));
  const std::vector<int64_t> parents =
      command_parents(plan, from.created.sequences);
  if (!parents.empty()) text += entry_py("parents", list_py(parents));
  return text + entry_py("lengths", list_py(call.lengths)) +
         entry_py("found_lengths", list_py(call.found_lengths)) +
         inputs_py(call);
}

std::string config_py(const Reproducer& from) {
  const CallPlan& made = from.created;
  std::string text = "CONFIG = {\n";
  for (const auto& [name, number] : config_numbers(made))
    text += entry_py(name, std::to_string(number));
  if (made.softcap > 0)
    text += entry_py("softcap", float_py(static_cast<double>(made.softcap)));
  return text + scale_py(made) + entry_py("grows", truth_py(from.grows)) +
         entry_py("stored", string_py(stored_codes(made.cache))) +
         entry_py("scales", string_py(stored_scales(made.cache))) +
         rope_py(story_rope(from)) +
         entry_py("lse_base2",
                  truth_py(from.dialect.lse_base == QKVET_LSE_BASE2)) +
         inputs_py(from.calls[0]) + "}\n\n";
}

// Rows of (output, call, call, factor, elements, elements).
std::string same_bits_py(const std::vector<SameBits>& pairs) {
  std::string text = "SAME_BITS = [\n";
  for (size_t n = 0; n < pairs.size();) {
    const SameBits& head = pairs[n];
    std::string first, second;
    for (; n < pairs.size(); ++n) {
      const SameBits& pair = pairs[n];
      if (pair.tensor != head.tensor || pair.first_call != head.first_call ||
          pair.second_call != head.second_call || pair.factor != head.factor)
        break;
      first += std::to_string(pair.first) + " ";
      second += std::to_string(pair.second) + " ";
    }
    text += fmt::format(
        "    (\"{}\", {}, {}, {},\n"
        "     integers(\"int64\", -1, \"{}\"),\n"
        "     integers(\"int64\", -1, \"{}\")),\n",
        tensor_name(head.tensor), head.first_call, head.second_call,
        head.factor, first, second);
  }
  return text + "]";
}

struct ProgramPy {
  Subject subject;
  std::string_view text;
  std::string (*call)(const WrittenCall& call, const Reproducer& from);
  // In front of the calls and behind them; null: nothing.
  std::string (*before)(const Reproducer& from);
  std::string (*behind)(const Reproducer& from);
  // Parts: of attention and its gradient; of what stores and refuses.
  bool has_scores, has_stored;
};

std::string pairs_py(const Reproducer& from) {
  return "\n\n" + same_bits_py(from.same_bits);
}

constexpr ProgramPy kPrograms[] = {
    {Subject::kAttention, kAttention, attention_py, nullptr, pairs_py, true,
     false},
    {Subject::kBackward, kBackward, attention_py, nullptr, pairs_py, true,
     true},
    {Subject::kLayer, kLayer, layer_py, nullptr, nullptr, false, true},
    {Subject::kCache, kStory, command_py, config_py, nullptr, false, true}};

}  // namespace

std::string reproducer_py(const Reproducer& from) {
  const ProgramPy& program = row_about(from.subject, kPrograms);
  std::string data = program.before != nullptr ? program.before(from) : "";
  data += "CALLS = [";
  for (size_t i = 0; i < from.calls.size(); ++i) {
    const WrittenCall& call = from.calls[i];
    data += (i > 0 ? ", {\n" : "{\n") + program.call(call, from) +
            outputs_py(call) + "}";
  }
  data += "]";
  if (program.behind != nullptr) data += program.behind(from);
  std::vector<std::pair<std::string_view, std::string>> parts = {
      {"HEAD", quoted_py(reproducer_head(from))},
      {"# NUMBERS", plain_part(kNumbers)},
      {"# DATA", data},
      {"# VERDICT", plain_part(kVerdict)}};
  if (program.has_stored) parts.push_back({"# STORED", plain_part(kStored)});
  if (program.has_scores) {
    parts.push_back({"# SCORES", plain_part(kScores)});
    parts.push_back({"# PAIRS", plain_part(kPairs)});
  }
  return filled_in(program.text, parts);
}

}  // namespace qkvet::tools

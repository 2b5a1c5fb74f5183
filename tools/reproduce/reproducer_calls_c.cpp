// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/reproducer_calls_c.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/call/option_numbers.h"
#include "core/door/abi_call.h"
#include "tools/base/lines.h"
#include "tools/reproduce/c_text.h"
#include "tools/reproduce/reproducer_story.h"

namespace qkvet::tools {
namespace {

// The length of the arrays in templates/reproducer_story.c.
constexpr size_t kSequences = 8;
static_assert(kSequences == static_cast<size_t>(kMostSequences));

std::string numbers_c(std::array<int64_t, kSequences> numbers) {
  return fmt::format("{{{}}}", joined(numbers));
}

std::string text_or_null(const std::string& text) {
  return text.empty() ? "NULL" : string_c(text);
}

// CREATE, STEP, ...
std::string command_c(Operation operation) {
  std::string text = command_name(operation);
  for (char& c : text)
    if (c != '_') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

// The constants of templates/reproducer.c.
const char* plan_use_c(PlanUse use) {
  switch (use) {
    case PlanUse::kNone:
      return "plan_none";
    case PlanUse::kMake:
      return "plan_make";
    case PlanUse::kUpdate:
      return "plan_update";
    case PlanUse::kRun:
      return "plan_run";
  }
  return "plan_none";
}

bool has_values_in_keys(const CallPlan& plan) {
  return plan.places[static_cast<size_t>(TensorName::kV)].within ==
         static_cast<int32_t>(TensorName::kK);
}

}  // namespace

std::string forward_row_c(const WrittenCall& call) {
  const CallPlan& plan = call.plan;
  const AbiCall abi(plan, {});
  const qkvet_forward_args& args = abi.forward();
  std::vector<std::string> numbers;
  for (const OptionNumber& number : kOptionNumbers)
    numbers.push_back(number_c(static_cast<double>(args.*number.in_abi)));
  return fmt::format(
      "{{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {{{}}}}}",
      plan.threads, plan_use_c(plan.plan_use), plan.plan_slot, args.causal,
      args.scale_given, number_c(static_cast<double>(args.scale)),
      args.has_window, args.window_left, args.window_right, args.page_size,
      args.key_block_size, args.channel_group, args.chunk,
      has_values_in_keys(plan) ? 1 : 0, args.rope, joined(numbers));
}

std::string layer_row_c(const WrittenCall& call) {
  const AbiCall abi(call.plan, {});
  const qkvet_layer_args& args = abi.layer();
  return fmt::format("{{{}, {}, {}, {}, {}, {}, {}, {}, {}}}",
                     string_c(call.place), text_or_null(call.refusal),
                     call.plan.threads, args.causal, args.scale_given,
                     number_c(static_cast<double>(args.scale)), args.heads,
                     args.kv_heads, args.rope);
}

std::string story_row_c(const WrittenCall& call) {
  const CallPlan& plan = call.plan;
  const AbiCall abi(plan, {});
  std::array<int64_t, kSequences> parents{}, lengths;
  std::copy_n(plan.parents.begin(), kSequences, parents.begin());
  lengths.fill(-1);
  std::copy(call.lengths.begin(), call.lengths.end(), lengths.begin());
  return fmt::format("{{{}, {}, {}, {}, {}, {}, {}, {}, {},\n     {}, {}}}",
                     string_c(call.place), command_c(plan.operation),
                     text_or_null(call.refusal), plan.threads, abi.step().rope,
                     plan.sequence, plan.tokens, plan.first, plan.other,
                     numbers_c(parents), numbers_c(lengths));
}

std::string config_row_c(const CallPlan& created) {
  const AbiCall abi(created, {});
  const qkvet_cache_config& config = abi.create();
  const auto type = [](const qkvet_dtype& dtype) {
    return fmt::format("{{{}, {}, {}}}", dtype.code, dtype.bits, dtype.lanes);
  };
  return fmt::format(
      "{{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {},\n    {}, {}, {}, {}, {}, "
      "{}}}",
      config.sequences, config.heads, config.kv_heads, config.d, config.dv,
      config.capacity, type(config.q), type(config.kv), type(config.o),
      number_c(static_cast<double>(config.scale)), config.scale_given,
      config.window, config.first_tokens, config.rollback, type(config.stored),
      config.scales, number_c(static_cast<double>(config.softcap)));
}

const char* arguments_c(Operation operation) {
  switch (operation) {
    case Operation::kForward:
      return "qkvet_forward_args";
    case Operation::kBackward:
      return "gradient_args";
    case Operation::kLayer:
      return "qkvet_layer_args";
    case Operation::kCacheCreate:
      return "qkvet_cache_config";
    case Operation::kCacheReadBack:
      return "read_args";
    default:
      return "qkvet_cache_args";
  }
}

std::string field_c(Operation operation, TensorName tensor) {
  const std::string name = abi_name(operation, tensor);
  if (operation != Operation::kBackward) return name;
  const bool of_gradient = tensor == TensorName::kDO || is_output(tensor);
  return (of_gradient ? "backward." : "forward.") + name;
}

}  // namespace qkvet::tools

// SPDX-License-Identifier: Apache-2.0
#include "core/capability.h"

#include <algorithm>

namespace qkvet {
namespace {

// "" if the extent keeps the rule.
std::string broken_rule(const char* name, int64_t extent,
                        const qkvet_extent_rule& rule) {
  const std::string lead =
      std::string(name) + " = " + std::to_string(extent) + " is ";
  if (extent == 0) return "";  // the business of EMPTY_EXTENTS
  if (extent < rule.min)
    return lead + "below the declared " + std::to_string(rule.min);
  if (rule.max > 0 && extent > rule.max)
    return lead + "above the declared " + std::to_string(rule.max);
  if (rule.multiple > 0 && extent % rule.multiple != 0)
    return lead + "not a multiple of " + std::to_string(rule.multiple);
  return "";
}

// "" if the extents belong together.
std::string contradiction(const ForwardCall& call) {
  const Shape& s = call.shape;
  if (std::min({s.B, s.H, s.Hkv, s.Tq, s.Tk, s.d, s.dv}) < 0)
    return "an extent is negative";
  if (s.Hkv == 0 ? s.H != 0 : s.H % s.Hkv != 0)
    return "H is not a multiple of Hkv";
  const bool keys = std::min({s.B, s.Hkv, s.Tk}) > 0;
  if ((call.q == nullptr && std::min({s.B, s.H, s.Tq, s.d}) > 0) ||
      (call.k == nullptr && keys && s.d > 0) ||
      (call.v == nullptr && keys && s.dv > 0))
    return "an input is missing";
  return "";
}

std::string missing_option(const KernelInfo& kernel, const ForwardCall& call) {
  const Shape& s = call.shape;
  const struct {
    bool wanted;
    uint64_t option;
    const char* text;
  } rows[] = {
      {call.causal == Causal::kTopLeft, QKVET_OPTION_CAUSAL_TOP_LEFT,
       "causal from the top left"},
      {call.causal == Causal::kBottomRight, QKVET_OPTION_CAUSAL_BOTTOM_RIGHT,
       "causal from the bottom right"},
      {call.scale.has_value(), QKVET_OPTION_SCALE, "a given scale"},
      {!call.scale.has_value(), QKVET_OPTION_DEFAULT_SCALE,
       "the default scale"},
      {call.want_lse, QKVET_OPTION_LSE, "lse"},
      {call.want_weights, QKVET_OPTION_WEIGHTS, "weights"},
      {s.Hkv < s.H, QKVET_OPTION_GROUPED_HEADS, "grouped heads (Hkv < H)"},
      {s.dv != s.d, QKVET_OPTION_VALUE_WIDTH, "a value width (dv != d)"},
      {s.Tq != s.Tk, QKVET_OPTION_CROSS_LENGTHS, "cross lengths (Tq != Tk)"},
      {std::min({s.B, s.H, s.Hkv, s.Tq, s.Tk, s.d, s.dv}) == 0,
       QKVET_OPTION_EMPTY_EXTENTS, "empty extents"},
  };
  for (const auto& row : rows)
    if (row.wanted && !kernel.has_option(row.option))
      return std::string(row.text) + " is not declared";
  return "";
}

std::string missing_dtypes(const qkvet_capabilities& capabilities,
                           const ForwardCall& call) {
  constexpr qkvet_dtype kF32Abi = {QKVET_DTYPE_FLOAT, 32, 1};
  constexpr qkvet_dtype_rule kDefaultRule = {kF32Abi, kF32Abi, kF32Abi};
  const bool listed = capabilities.dtype_count > 0;
  const auto* rules = listed ? capabilities.dtypes : &kDefaultRule;
  const int count = listed ? std::min(capabilities.dtype_count, 16) : 1;
  const bool found = std::any_of(rules, rules + count, [&](const auto& rule) {
    return same_dtype(rule.q, dtype_to_abi(call.q_dtype)) &&
           same_dtype(rule.kv, dtype_to_abi(call.kv_dtype)) &&
           same_dtype(rule.o, dtype_to_abi(call.o_dtype));
  });
  if (found) return "";
  return "q " + std::string(dtype_name(call.q_dtype)) + ", kv " +
         std::string(dtype_name(call.kv_dtype)) + ", o " +
         std::string(dtype_name(call.o_dtype)) + " is not declared";
}

std::string broken_extent(const qkvet_capabilities& capabilities,
                          const Shape& s) {
  const struct {
    const char* name;
    int64_t extent;
    const qkvet_extent_rule& rule;
  } rows[] = {
      {"d", s.d, capabilities.d},
      {"dv", s.dv, capabilities.dv},
      {"H / Hkv", s.Hkv == 0 ? 0 : s.group(), capabilities.group},
      {"Tq", s.Tq, capabilities.tq},
      {"Tk", s.Tk, capabilities.tk},
  };
  for (const auto& row : rows) {
    std::string broken = broken_rule(row.name, row.extent, row.rule);
    if (!broken.empty()) return broken;
  }
  return "";
}

// Calls come in CPU memory, contiguous [B, H, T, d].
std::string foreign_memory(const qkvet_capabilities& capabilities) {
  if (capabilities.devices != 0 &&
      (capabilities.devices >> QKVET_DEVICE_CPU & 1) == 0)
    return "CPU memory is not declared";
  if (capabilities.layouts != 0 &&
      (capabilities.layouts & (QKVET_LAYOUT_BHTD | QKVET_LAYOUT_ANY_STRIDES)) ==
          0)
    return "contiguous [B, H, T, d] is not declared";
  return "";
}

}  // namespace

bool capability_allows(const KernelInfo& kernel, const ForwardCall& call,
                       std::string* why) {
  *why = contradiction(call);
  if (why->empty()) *why = foreign_memory(kernel.capabilities);
  if (why->empty()) *why = missing_dtypes(kernel.capabilities, call);
  if (why->empty()) *why = missing_option(kernel, call);
  if (why->empty()) *why = broken_extent(kernel.capabilities, call.shape);
  return why->empty();
}

}  // namespace qkvet

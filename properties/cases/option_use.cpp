// SPDX-License-Identifier: Apache-2.0
#include "properties/cases/option_use.h"

#include <algorithm>
#include <bit>
#include <initializer_list>

#include "core/case/paging.h"
#include "properties/cases/scope.h"

namespace qkvet::properties {
namespace {

struct NamedOption {
  const char* name;
  uint64_t option;  // QKVET_OPTION_*
  bool (*used)(const KernelCall& call);
};

bool is_forward(const KernelCall& call) {
  return takes_options(call.operation);
}

constexpr NamedOption kNamed[] = {
    {"causal from the top left", QKVET_OPTION_CAUSAL_TOP_LEFT,
     [](const KernelCall& c) { return c.causal == Causal::kTopLeft; }},
    {"causal from the bottom right", QKVET_OPTION_CAUSAL_BOTTOM_RIGHT,
     [](const KernelCall& c) { return c.causal == Causal::kBottomRight; }},
    {"a given scale", QKVET_OPTION_SCALE,
     [](const KernelCall& c) { return c.scale.has_value(); }},
    {"the default scale", QKVET_OPTION_DEFAULT_SCALE,
     [](const KernelCall& c) { return !c.scale.has_value(); }},
    {"lse", QKVET_OPTION_LSE, [](const KernelCall& c) { return c.want_lse; }},
    {"weights", QKVET_OPTION_WEIGHTS,
     [](const KernelCall& c) { return c.want_weights; }},
    {"grouped heads", QKVET_OPTION_GROUPED_HEADS,
     [](const KernelCall& c) { return c.shape.Hkv != c.shape.H; }},
    {"value width", QKVET_OPTION_VALUE_WIDTH,
     [](const KernelCall& c) { return c.shape.dv != c.shape.d; }},
    {"cross lengths", QKVET_OPTION_CROSS_LENGTHS,
     [](const KernelCall& c) {
       return is_forward(c) && c.shape.Tq != c.shape.Tk;
     }},
    {"a window", QKVET_OPTION_WINDOW,
     [](const KernelCall& c) { return c.window.has_value(); }},
    {"a mask", QKVET_OPTION_MASK,
     [](const KernelCall& c) { return c.mask != nullptr; }},
    {"a bias", QKVET_OPTION_BIAS,
     [](const KernelCall& c) { return c.bias != nullptr; }},
    {"a softcap", QKVET_OPTION_SOFTCAP,
     [](const KernelCall& c) { return c.softcap > 0; }},
    {"a sink", QKVET_OPTION_SINK,
     [](const KernelCall& c) { return c.sink != nullptr; }},
    {"ALiBi", QKVET_OPTION_ALIBI,
     [](const KernelCall& c) { return c.slopes != nullptr; }},
    {"lengths", QKVET_OPTION_LENGTHS,
     [](const KernelCall& c) {
       return c.q_len != nullptr || (c.kv_len != nullptr && !is_served(c));
     }},
    {"a packed batch", QKVET_OPTION_PACKED,
     [](const KernelCall& c) { return c.members > 0; }},
    {"RoPE", QKVET_OPTION_ROPE,
     [](const KernelCall& c) { return c.rope != RopeStyle::kNone; }},
    {"pages", QKVET_OPTION_PAGED,
     [](const KernelCall& c) { return c.page_size > 0; }},
    {"new tokens", QKVET_OPTION_APPEND,
     [](const KernelCall& c) { return c.new_tokens > 0; }},
    {"empty extents", QKVET_OPTION_EMPTY_EXTENTS,
     [](const KernelCall& c) {
       return is_forward(c) &&
              std::min({c.shape.B, c.shape.Tq, c.shape.Tk}) == 0;
     }},
    {"dropout", QKVET_OPTION_DROPOUT,
     [](const KernelCall& c) { return c.dropout.has_value(); }},
    {"a dropout mask", QKVET_OPTION_DROPOUT_MASK,
     [](const KernelCall& c) { return c.want_dropout_mask; }},
    // No case has them: what is declared is not judged.
    {"scales of quantised storage", QKVET_OPTION_QUANT_SCALES,
     [](const KernelCall&) { return false; }}};

struct NamedLayout {
  const char* name;
  uint64_t layouts;  // QKVET_LAYOUT_*: declared by one of these
  std::initializer_list<Layout> drawn;
};

// What is declared as any strides is met in gaps between rows or channels.
constexpr NamedLayout kLayouts[] = {
    {"layout [B, H, T, d]", QKVET_LAYOUT_BHTD, {Layout::kBhtd}},
    {"layout [B, T, H, d]", QKVET_LAYOUT_BTHD, {Layout::kBthd}},
    {"packed q, k and v", QKVET_LAYOUT_PACKED_QKV, {Layout::kPacked}},
    {"any strides", QKVET_LAYOUT_ANY_STRIDES, {Layout::kGaps, Layout::kApart}}};

template <class Key>
int64_t at_or_zero(const std::map<Key, int64_t>& counts, const Key& key) {
  const auto found = counts.find(key);
  return found == counts.end() ? 0 : found->second;
}

std::string storage_name(qkvet_dtype q, qkvet_dtype kv, qkvet_dtype o) {
  const auto types = {dtype_from_abi(q), dtype_from_abi(kv), dtype_from_abi(o)};
  if (std::find(types.begin(), types.end(), std::nullopt) != types.end())
    return "a type that no case names";
  return to_string(
      StorageTypes(*types.begin()[0], *types.begin()[1], *types.begin()[2]));
}

}  // namespace

void OptionUse::count(const KernelCall& call, const CallOutcome& outcome) {
  const bool refused = outcome.status == CallStatus::kUnsupported;
  // What the declaration itself rules out says nothing about it.
  if (refused && !outcome.asked_kernel) return;
  static_assert(std::size(kNamed) == kOptions);
  for (size_t i = 0; i < kOptions; ++i) {
    const bool used = kNamed[i].used(call);
    uses_[i].asked += used;
    uses_[i].refused += used && refused;
  }
  if (refused) return;
  ++storage_[to_string(
      StorageTypes(call.q_dtype, call.kv_dtype, call.o_dtype))];
  ++layouts_[call.layout];
  if (call.page_size > 0) ++page_sizes_[call.page_size];
}

void OptionUse::add(const OptionUse& other) {
  for (size_t i = 0; i < uses_.size(); ++i) {
    uses_[i].asked += other.uses_[i].asked;
    uses_[i].refused += other.uses_[i].refused;
  }
  for (const auto& [name, count] : other.storage_) storage_[name] += count;
  for (const auto& [layout, count] : other.layouts_) layouts_[layout] += count;
  for (const auto& [size, count] : other.page_sizes_)
    page_sizes_[size] += count;
}

std::vector<std::string> OptionUse::hollow() const {
  std::vector<std::string> lines;
  for (size_t i = 0; i < uses_.size(); ++i)
    if (2 * uses_[i].refused > uses_[i].asked)
      lines.push_back(std::string(kNamed[i].name) + ": refused in " +
                      std::to_string(uses_[i].refused) + " of " +
                      std::to_string(uses_[i].asked) + " calls");
  return lines;
}

std::vector<OptionUse::Declared> OptionUse::declared(
    const KernelInfo& kernel) const {
  const qkvet_capabilities& can = kernel.capabilities;
  std::vector<Declared> out;
  const int types = std::clamp<int32_t>(can.dtype_count, 0, 16);
  for (int n = 0; n < types; ++n) {
    const std::string name =
        storage_name(can.dtypes[n].q, can.dtypes[n].kv, can.dtypes[n].o);
    out.push_back({"storage " + name, at_or_zero(storage_, name)});
  }
  if (types == 0)
    out.push_back(
        {"storage f32", at_or_zero(storage_, to_string(StorageTypes()))});
  for (size_t i = 0; i < kOptions; ++i)
    if ((can.options & kNamed[i].option) != 0)
      out.push_back({kNamed[i].name, uses_[i].asked - uses_[i].refused});
  const uint64_t layouts = can.layouts != 0 ? can.layouts : QKVET_LAYOUT_BHTD;
  for (const NamedLayout& row : kLayouts) {
    if ((layouts & row.layouts) == 0) continue;
    int64_t answered = 0;
    for (const Layout layout : row.drawn)
      answered += at_or_zero(layouts_, layout);
    out.push_back({row.name, answered});
  }
  for (int n = 0; n < std::clamp<int32_t>(can.page_size_count, 0, 16); ++n)
    if (kernel.has_option(QKVET_OPTION_PAGED))
      out.push_back({"pages of " + std::to_string(can.page_sizes[n]),
                     at_or_zero(page_sizes_, can.page_sizes[n])});
  // Kernels are called on one device: kernel.device().
  if (std::popcount(can.devices) > 1) out.push_back({"a second device", 0});
  return out;
}

void OptionUse::tell(const KernelInfo& kernel, std::vector<std::string>& drawn,
                     std::vector<std::string>& never_drawn) const {
  for (const auto& [what, answered] : declared(kernel))
    if (answered > 0)
      drawn.push_back(what + " " + std::to_string(answered));
    else
      never_drawn.push_back(what);
}

}  // namespace qkvet::properties

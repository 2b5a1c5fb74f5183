// SPDX-License-Identifier: Apache-2.0
#include "properties/cases/option_use.h"

#include <algorithm>
#include <bit>
#include <initializer_list>

#include "core/capability/option_table.h"
#include "core/capability/paths.h"
#include "properties/cases/scope.h"
#include "properties/sequences/played_story.h"

namespace qkvet::properties {
namespace {

struct NamedLayout {
  const char* name;
  uint64_t layouts;  // QKVET_LAYOUT_*: declared by one of these
  std::initializer_list<Layout> drawn;
};

// Any strides count as drawn if there were gaps between rows or channels, and
// strides that need 64 bits.
constexpr NamedLayout kLayouts[] = {
    {"layout [B, H, T, d]", QKVET_LAYOUT_BHTD, {Layout::kBhtd}},
    {"layout [B, T, H, d]", QKVET_LAYOUT_BTHD, {Layout::kBthd}},
    {"packed q, k and v", QKVET_LAYOUT_PACKED_QKV, {Layout::kPacked}},
    {"any strides",
     QKVET_LAYOUT_ANY_STRIDES,
     {Layout::kGaps, Layout::kApart, Layout::kFar, Layout::kTurned}},
    {"offsets to 2^32 elements", QKVET_LAYOUT_ANY_STRIDES, {Layout::kFar}}};

template <class Key>
int64_t at_or_zero(const std::map<Key, int64_t>& counts, const Key& key) {
  const auto found = counts.find(key);
  return found == counts.end() ? 0 : found->second;
}

bool is_of_cache(Operation operation) {
  return Operation::kCacheCreate <= operation &&
         operation <= Operation::kCacheReadBack;
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
  // Calls that the declaration itself rules out do not count, nor do calls that
  // no kernel is to take.
  if (refused && !outcome.asked_kernel) return;
  if (call.mistake != Mistake::kNone) return;
  for (const OptionRow& row : option_rows()) {
    if (!row.in(call)) continue;
    Use& use = uses_[row.option];
    ++use.asked;
    use.refused += refused;
  }
  if (refused) return;
  repeats_ = std::max(repeats_, outcome.repeated.made);
  ++storage_[to_string(
      StorageTypes(call.q_dtype, call.kv_dtype, call.o_dtype))];
  ++layouts_[call.layout];
  if (call.page_size > 0) ++page_sizes_[call.page_size];
  // The shape of a step has only its own tokens; the story adds those before
  // them.
  if (!is_of_cache(call.operation)) count_extents(call.shape);
}

void OptionUse::count_extents(const Shape& s) {
  for (const auto& [axis, extent] : {std::pair{QKVET_AXIS_TQ, s.Tq},
                                     {QKVET_AXIS_TK, s.Tk},
                                     {QKVET_AXIS_D, s.d},
                                     {QKVET_AXIS_DV, s.dv},
                                     {QKVET_AXIS_B, s.B},
                                     {QKVET_AXIS_H, s.H}})
    ++extents_[axis][extent];
}

void OptionUse::count_story(const Case& value) {
  for (const Snapshot& snapshot : snapshots_of(value)) {
    if (!snapshot.illegal.empty() || snapshot.queries == 0) continue;
    Shape step = value.shape;
    step.Tq = snapshot.queries;
    step.Tk = static_cast<int64_t>(snapshot.history.size());
    count_extents(step);
  }
}

int64_t OptionUse::near(const qkvet_path& path) const {
  const auto found = extents_.find(path.axis);
  int64_t calls = 0;
  for (int64_t beside = -1; beside <= 1 && found != extents_.end(); ++beside)
    calls += at_or_zero(found->second, path.at + beside);
  return calls;
}

void OptionUse::add(const OptionUse& other) {
  repeats_ = std::max(repeats_, other.repeats_);
  for (const auto& [option, use] : other.uses_) {
    uses_[option].asked += use.asked;
    uses_[option].refused += use.refused;
  }
  for (const auto& [name, count] : other.storage_) storage_[name] += count;
  for (const auto& [layout, count] : other.layouts_) layouts_[layout] += count;
  for (const auto& [size, count] : other.page_sizes_)
    page_sizes_[size] += count;
  for (const auto& [axis, counts] : other.extents_)
    for (const auto& [extent, count] : counts) extents_[axis][extent] += count;
}

OptionUse::Use OptionUse::use_of(uint64_t option) const {
  const auto found = uses_.find(option);
  return found == uses_.end() ? Use{} : found->second;
}

std::vector<std::string> OptionUse::hollow() const {
  std::vector<std::string> lines;
  for (const OptionRow& row : option_rows()) {
    const Use use = use_of(row.option);
    if (2 * use.refused > use.asked)
      lines.push_back(std::string(row.many) + ": refused in " +
                      std::to_string(use.refused) + " of " +
                      std::to_string(use.asked) + " calls");
  }
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
  for (const OptionRow& row : option_rows())
    if ((can.options & row.option) != 0)
      out.push_back({std::string(row.many), use_of(row.option).answered()});
  const uint64_t layouts = can.layouts != 0 ? can.layouts : QKVET_LAYOUT_BHTD;
  for (const NamedLayout& row : kLayouts) {
    if ((layouts & row.layouts) == 0) continue;
    int64_t answered = 0;
    for (const Layout layout : row.drawn)
      answered += at_or_zero(layouts_, layout);
    out.push_back({row.name, answered});
  }
  for (int n = 0; n < std::clamp<int32_t>(can.page_size_count, 0, 16); ++n)
    if (kernel.has_option(QKVET_OPTION_PAGED | QKVET_OPTION_PAGED_CSR))
      out.push_back({"pages of " + std::to_string(can.page_sizes[n]),
                     at_or_zero(page_sizes_, can.page_sizes[n])});
  for (Declared& path : paths(kernel, "")) out.push_back(std::move(path));
  // Kernels are called on one device: kernel.device().
  if (std::popcount(can.devices) > 1) out.push_back({"a second device", 0});
  return out;
}

std::vector<OptionUse::Declared> OptionUse::paths(
    const KernelInfo& kernel, const std::string& where) const {
  std::vector<Declared> out;
  for (const qkvet_path& path : paths_of(kernel.capabilities))
    out.push_back({"around " + path_text(path) + where, near(path),
                   int64_t{path.at} - 1});
  return out;
}

namespace {

void tell_lines(const std::vector<OptionUse::Declared>& declared,
                SizeClass largest, std::vector<std::string>& drawn,
                std::vector<std::string>& never_drawn) {
  for (const OptionUse::Declared& one : declared)
    if (one.answered > 0)
      drawn.push_back(one.what + " " + std::to_string(one.answered));
    else if (one.smallest_extent <= largest_extent(largest))
      never_drawn.push_back(one.what);
}

}  // namespace

void OptionUse::tell(const KernelInfo& kernel, SizeClass largest,
                     std::vector<std::string>& drawn,
                     std::vector<std::string>& never_drawn) const {
  tell_lines(declared(kernel), largest, drawn, never_drawn);
  if (repeats_ > 0)
    drawn.push_back("equal calls in a row " + std::to_string(repeats_));
}

void OptionUse::tell_paths(const KernelInfo& kernel, const std::string& where,
                           SizeClass largest, std::vector<std::string>& drawn,
                           std::vector<std::string>& never_drawn) const {
  tell_lines(paths(kernel, where), largest, drawn, never_drawn);
}

}  // namespace qkvet::properties

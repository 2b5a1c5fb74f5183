// SPDX-License-Identifier: Apache-2.0
#include "core/case/exclusions.h"

#include <algorithm>
#include <array>

#include "core/case/case_options.h"
#include "core/case/paging.h"

namespace qkvet {
namespace {

std::string token_of(std::string_view key, const Case& c) {
  return find_option(key)->text(c);
}

bool sets_v(const SetValue& set) { return set.tensor == TensorName::kV; }

void drop_layout(Case& c) { c.layout = Layout::kBthd; }

std::string layout_token(const Case& c) { return token_of("layout", c); }
std::string share_token(const Case& c) { return token_of("share", c); }

constexpr auto kParts = std::to_array<CallPartRow>({
    {CallPart::kPackedBatch, "a packed batch", QKVET_OPTION_PACKED,
     [](const Case& c) { return !c.cu_q.empty() || !c.cu_k.empty(); },
     [](const Case&) -> std::string { return "cuq=, cuk="; }, nullptr,
     [](const KernelCall& c) { return c.members > 0; }},
    // A mistake puts both forms into one call.
    {CallPart::kLengths, "q_len or kv_len", QKVET_OPTION_LENGTHS,
     [](const Case& c) { return !c.q_len.empty() || !c.kv_len.empty(); },
     [](const Case&) -> std::string { return "qlen=, kvlen="; }, nullptr,
     [](const KernelCall& c) {
       return (c.q_len != nullptr || (c.kv_len != nullptr && !is_served(c))) &&
              c.mistake != Mistake::kBothForms;
     }},
    {CallPart::kPages, "pages", QKVET_OPTION_PAGED,
     [](const Case& c) { return c.paging.size > 0; }, page_text, nullptr,
     [](const KernelCall& c) { return c.page_size > 0; }},
    {CallPart::kChannelGroups, "pages of keys in groups of channels",
     QKVET_OPTION_PAGED_CHANNEL_GROUPS,
     [](const Case& c) { return c.paging.pool == PageForm::kGroups; },
     page_pool_text, [](Case& c) { c.paging.pool = PageForm::kRows; },
     [](const KernelCall& c) { return c.channel_group > 0; }},
    {CallPart::kNewTokens, "new tokens", QKVET_OPTION_APPEND,
     [](const Case& c) { return c.append > 0; }, append_text,
     [](Case& c) { c.append = 0; },
     [](const KernelCall& c) { return c.new_tokens > 0; }},
    {CallPart::kShared, "shared k and v", kOptionShare,
     [](const Case& c) { return c.share != 0; }, share_token,
     [](Case& c) { c.share = 0; },
     [](const KernelCall& c) { return c.share != 0; }},
    {CallPart::kSharedHeads, "heads that share k and v", 0,
     [](const Case& c) { return (c.share & kShareH) != 0; }, share_token,
     [](Case& c) { c.share = static_cast<uint8_t>(c.share & ~kShareH); },
     [](const KernelCall& c) { return (c.share & kShareH) != 0; }},
    {CallPart::kOneBlock, "packed q, k and v", 0,
     [](const Case& c) { return c.layout == Layout::kPacked; }, layout_token,
     drop_layout,
     [](const KernelCall& c) { return c.layout == Layout::kPacked; }},
    {CallPart::kFar, "members far apart", 0,
     [](const Case& c) { return c.layout == Layout::kFar; }, layout_token,
     drop_layout, [](const KernelCall& c) { return c.layout == Layout::kFar; }},
    {CallPart::kValuesInKeys, "values in the keys", QKVET_OPTION_VALUES_IN_KEYS,
     [](const Case& c) { return c.values_in_keys; },
     [](const Case& c) { return token_of("values", c); }, nullptr,
     [](const KernelCall& c) { return c.values_in_keys; }},
    {CallPart::kOwnValues, "data of v alone", 0,
     [](const Case& c) {
       return c.v != Recipe{} ||
              std::any_of(c.set.begin(), c.set.end(), sets_v);
     },
     [](const Case&) -> std::string { return "v="; },
     [](Case& c) {
       c.v = {};
       std::erase_if(c.set, sets_v);
     },
     nullptr},
    {CallPart::kSegments, "segments", QKVET_OPTION_SEGMENTS,
     [](const Case& c) { return c.fields.segments; },
     [](const Case& c) { return token_of("segments", c); },
     [](Case& c) { find_option("segments")->drop(c); },
     [](const KernelCall& c) { return c.fields.segments; }},
    {CallPart::kRanges, "ranges that are seen both ways",
     QKVET_OPTION_FULL_RANGES,
     [](const Case& c) { return c.fields.ranges > 0; },
     [](const Case& c) { return token_of("ranges", c); },
     [](Case& c) { find_option("ranges")->drop(c); },
     [](const KernelCall& c) { return c.fields.ranges > 0; }},
    {CallPart::kChunk, "chunks", QKVET_OPTION_CHUNK,
     [](const Case& c) { return c.chunk > 0; },
     [](const Case& c) { return token_of("chunk", c); },
     [](Case& c) { c.chunk = 0; },
     [](const KernelCall& c) { return c.chunk > 0; }},
    {CallPart::kTree, "a tree of drafts", QKVET_OPTION_TREE_MASK,
     [](const Case& c) { return c.fields.tree; },
     [](const Case& c) { return token_of("tree", c); },
     [](Case& c) { find_option("tree")->drop(c); },
     [](const KernelCall& c) { return c.fields.tree; }},
});

constexpr bool in_order_of_parts() {
  for (size_t i = 0; i < kParts.size(); ++i)
    if (kParts[i].part != static_cast<CallPart>(i + 1)) return false;
  return true;
}
static_assert(in_order_of_parts());

using enum CallPart;
constexpr auto kTable = std::to_array<Exclusion>({
    {kPackedBatch, kLengths, kNone,
     "a packed batch has no qlen= and kvlen=, these two say how long its "
     "members are"},
    {kOneBlock, kShared, kOneBlock,
     "k and v are parts of one buffer; share= needs another layout"},
    {kPages, kSharedHeads, kSharedHeads,
     "members share pages (share=b), heads do not"},
    {kNewTokens, kShared, kNewTokens,
     "tokens are appended to k and v of a member's own, not to shared ones "
     "(share=)"},
    {kPages, kOneBlock, kOneBlock,
     "pages are a buffer of their own; layout=packed has one for all"},
    {kNewTokens, kOneBlock, kOneBlock,
     "layout=packed has no room for new tokens"},
    {kValuesInKeys, kOwnValues, kOwnValues,
     "they are those of k; v= and set=v have no place beside them"},
    {kValuesInKeys, kNewTokens, kNewTokens,
     "new tokens (append=) bring values of their own"},
    {kValuesInKeys, kChannelGroups, kChannelGroups,
     "pool=x has keys and values in two orders, and one memory has one"},
    {kValuesInKeys, kShared, kShared,
     "share= is said of k and v, and v is no tensor of its own here"},
    {kValuesInKeys, kOneBlock, kOneBlock,
     "they are in k; layout=packed puts them elsewhere"},
    {kValuesInKeys, kFar, kFar,
     "they are in k; layout=far puts them elsewhere"},
    {kSegments, kPackedBatch, kSegments,
     "a packed batch (cuq=, cuk=) keeps its members apart already"},
    {kSegments, kPages, kSegments,
     "keys in pages (page=) have no row of segments"},
    {kRanges, kPackedBatch, kRanges,
     "they are those of members of a batch, not of a packed one (cuq=)"},
    {kRanges, kChunk, kRanges, "ranges= together with chunk= is not specified"},
    {kTree, kPackedBatch, kTree,
     "it is that of a member of a batch, not of a packed one (cuq=)"},
});

constexpr const CallPartRow& row_of(CallPart part) {
  return kParts[static_cast<size_t>(part) - 1];
}

// Every part that a repair removes can be dropped.
constexpr bool all_can_go() {
  for (const Exclusion& pair : kTable)
    if (pair.goes != kNone &&
        ((pair.goes != pair.one && pair.goes != pair.other) ||
         row_of(pair.goes).drop == nullptr))
      return false;
  return true;
}
static_assert(all_can_go());

}  // namespace

std::span<const CallPartRow> call_parts() { return kParts; }
std::span<const Exclusion> exclusions() { return kTable; }

std::string exclusion_reason(const Case& c) {
  for (const Exclusion& pair : kTable)
    if (row_of(pair.one).in_case(c) && row_of(pair.other).in_case(c))
      return row_of(pair.one).token(c) + ": " + std::string(pair.because);
  return "";
}

std::string exclusion_contradiction(const KernelCall& call) {
  const auto has = [&call](const CallPartRow& row) {
    return row.in_call != nullptr && row.in_call(call);
  };
  for (const Exclusion& pair : kTable)
    if (has(row_of(pair.one)) && has(row_of(pair.other)))
      return std::string(row_of(pair.one).name) + " and " +
             std::string(row_of(pair.other).name) + " exclude each other";
  return "";
}

void repair_exclusions(Case& c) {
  for (const Exclusion& pair : kTable)
    if (pair.goes != kNone && row_of(pair.one).in_case(c) &&
        row_of(pair.other).in_case(c))
      row_of(pair.goes).drop(c);
}

uint64_t options_beside_no(CallPart part) {
  uint64_t options = 0;
  for (const Exclusion& pair : kTable)
    if (pair.one == part || pair.other == part)
      options |= row_of(pair.one == part ? pair.other : pair.one).option;
  return options;
}

}  // namespace qkvet

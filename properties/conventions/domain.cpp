// SPDX-License-Identifier: Apache-2.0
#include "properties/conventions/domain.h"

#include <algorithm>

#include "core/call/layout.h"
#include "core/capability/option_table.h"
#include "core/case/case_options.h"
#include "core/case/exclusions.h"
#include "core/case/file_data.h"
#include "core/case/paging.h"

namespace qkvet::properties {
namespace {

// A rotation turns pairs of channels; the tokens of a story are in order.
void repair_rope(Case& value) {
  Rope& rope = value.rope;
  if (rope.channels >= value.shape.d || rope.channels % 2 != 0)
    rope.channels = 0;
  if (rope_channels(value) % 2 != 0) rope = {};
  if (value.subject() == Subject::kCache)
    rope = {rope.style, false, 0, rope.channels};
}

// Removes pages and appended tokens that the other options exclude.
void repair_served(Case& value) {
  if (value.paging.size == 0) {
    value.paging = {};
    if (!value.cu_q.empty()) value.append = 0;
  }
  if (const int64_t group = channel_group_of(value);
      group > 0 && value.shape.d % group != 0)
    value.paging.pool = PageForm::kRows;
  value.append = new_tokens(value);
  if (value.values_in_keys)
    value.shape.dv = std::min(value.shape.dv, value.shape.d);
  repair_exclusions(value);
  if (!gives_lengths(value)) value.int32_lengths = false;
}

// Removes leftovers of changed extents: lengths of members that are gone or
// shorter, and values of tensors that are gone.
void repair(Case& value) {
  const Shape& s = value.shape;
  const auto clamp = [&](std::vector<int64_t>& lengths, int64_t most) {
    if (static_cast<int64_t>(lengths.size()) != s.B) lengths.clear();
    for (int64_t& length : lengths) length = std::min(length, most);
  };
  clamp(value.q_len, s.Tq);
  clamp(value.kv_len, s.Tk);
  const bool fits =
      s.B == 1 && !value.cu_q.empty() && value.cu_q.size() == value.cu_k.size();
  for (auto* starts : {&value.cu_q, &value.cu_k}) {
    if (!fits) starts->clear();
    for (int64_t& start : *starts)
      start = std::min(start, starts == &value.cu_q ? s.Tq : s.Tk);
  }
  // One buffer holds q, k and v only if they have rows of one width and type.
  if (value.layout == Layout::kPacked &&
      !fit_one_block(s, value.q_dtype, value.kv_dtype))
    value.layout = Layout::kBthd;
  repair_served(value);
  if (value.mask.kind == MaskKind::kNone) value.mask = {};
  repair_rope(value);
  if (!value.score_bias) value.score_bias_own = kOwnAll;
  if (!value.slopes) value.member_slopes = false;
  if (value.score_bias && is_of_bias_alone(value.score_bias->kind) &&
      value.backward)
    value.score_bias = Recipe{};
  std::erase_if(value.set, [&](const SetValue& set) {
    const auto extents = tensor_extents(value, set.tensor);
    for (int i = 0; i < tensor_rank(set.tensor); ++i) {
      const auto at = static_cast<size_t>(i);
      if (set.index[at] >= extents[at]) return true;
    }
    return false;
  });
}

std::string_view name_of(uint64_t option) {
  if (option == kOptionCalls) return "sequences of calls";
  if (option == kOptionLayout) return "layouts";
  if (option == kOptionShare) return "shared k and v";
  if (option == kOptionStored) return "quantised storage";
  for (const OptionRow& row : option_rows())
    if (row.option == option) return row.many;
  return "";
}

}  // namespace

std::vector<uint64_t> single_options(uint64_t options) {
  std::vector<uint64_t> out;
  for (const uint64_t option : kCaseOptions)
    if ((options & option) != 0) out.push_back(option);
  return out;
}

uint64_t allowed_in(const Domain& domain) {
  constexpr uint64_t kBoth = QKVET_OPTION_PACKED | QKVET_OPTION_PAGED;
  constexpr uint64_t kLists =
      QKVET_OPTION_LENGTHS | QKVET_OPTION_PACKED | kAllowServing;
  uint64_t allows = domain.allows;
  if ((allows & kBoth) == kBoth) allows |= QKVET_OPTION_PACKED_PAGES;
  if ((allows & QKVET_OPTION_PAGED) != 0)
    allows |= QKVET_OPTION_PAGED_CSR | QKVET_OPTION_PAGED_CHANNEL_GROUPS;
  if ((allows & kLists) != 0) allows |= QKVET_OPTION_INT32_LENGTHS;
  if ((allows & QKVET_OPTION_ALIBI) != 0)
    allows |= QKVET_OPTION_ALIBI_PER_MEMBER;
  if ((allows & QKVET_OPTION_ROPE) != 0) allows |= QKVET_OPTION_ROPE_PART;
  // A law about options that values in keys exclude never has values in keys.
  static const uint64_t not_beside_them =
      options_beside_no(CallPart::kValuesInKeys);
  if (domain.subject == Subject::kAttention && domain.free_v &&
      domain.free_data && !domain.own_values && (allows & kOptionLayout) != 0 &&
      (domain.about & not_beside_them) == 0)
    allows |= QKVET_OPTION_VALUES_IN_KEYS;
  if ((allows & QKVET_OPTION_KEY_LISTS) != 0)
    allows |= QKVET_OPTION_KEY_LIST_LENGTHS | QKVET_OPTION_KEY_LIST_BLOCKS;
  return allows;
}

uint64_t about_in(const Domain& domain) {
  return (domain.about & QKVET_OPTION_PAGED) != 0
             ? domain.about | QKVET_OPTION_PAGED_CSR
             : domain.about;
}

std::string undeclared_options(uint64_t declared) {
  return option_names(kAllCaseOptions &
                      ~(declared | kOptionCalls | kOptionLayout | kOptionShare |
                        kOptionStored));
}

std::string option_names(uint64_t options) {
  std::string out;
  for (const uint64_t option : single_options(options))
    out += (out.empty() ? "" : ", ") + std::string(name_of(option));
  return out;
}

uint64_t options_of(const Case& value) {
  uint64_t options = 0;
  for (const CaseOption& row : case_options())
    if (row.given(value)) options |= row.option;
  constexpr uint64_t kBoth = QKVET_OPTION_PACKED | QKVET_OPTION_PAGED;
  if ((options & kBoth) == kBoth)
    options ^= QKVET_OPTION_PACKED | QKVET_OPTION_PACKED_PAGES;
  if ((options & QKVET_OPTION_PAGED_CSR) != 0) options &= ~QKVET_OPTION_PAGED;
  const Shape& s = value.shape;
  if (value.has_options() && std::min({s.B, s.Tq, s.Tk}) < 1)
    options |= QKVET_OPTION_EMPTY_EXTENTS;
  return options;
}

void drop_options(uint64_t surplus, Case& value) {
  for (const CaseOption& row : case_options())
    if ((surplus & row.option) != 0) row.drop(value);
  if ((surplus & QKVET_OPTION_EMPTY_EXTENTS) != 0)
    for (int64_t* extent : {&value.shape.B, &value.shape.Tq, &value.shape.Tk})
      *extent = std::max<int64_t>(*extent, 1);
}

void keep_table_allowed(uint64_t allows, Case& value) {
  if (value.paging.size == 0) return;
  const bool blocks = (allows & QKVET_OPTION_PAGED) != 0;
  const bool csr = (allows & QKVET_OPTION_PAGED_CSR) != 0;
  if (blocks != csr)
    value.paging.table = blocks ? PageTable::kBlocks : PageTable::kCsr;
}

Case keep_allowed(Case value, uint64_t allows) {
  const auto surplus = [&] { return options_of(value) & ~allows; };
  keep_table_allowed(allows, value);
  // If a packed batch over pages is not allowed, the pages stay, if they may.
  if (const uint64_t both = QKVET_OPTION_PACKED_PAGES | QKVET_OPTION_PAGED |
                            QKVET_OPTION_PAGED_CSR;
      (surplus() & both) == QKVET_OPTION_PACKED_PAGES)
    drop_options(QKVET_OPTION_PACKED, value);
  drop_options(surplus(), value);
  drop_options(surplus(), value);  // a packed batch without its pages
  repair(value);
  return value;
}

bool move_set_values(Case& value) {
  bool moved = false;
  std::vector<SetValue> kept;
  for (SetValue one : value.set) {
    const auto extents = tensor_extents(value, one.tensor);
    const auto rank = static_cast<size_t>(tensor_rank(one.tensor));
    bool there = true;
    for (size_t i = 0; i < rank; ++i) {
      there &= extents[i] > 0;
      if (!there || one.index[i] < extents[i]) continue;
      one.index[i] %= extents[i];
      moved = true;
    }
    const auto same_place = [&](const SetValue& other) {
      return other.tensor == one.tensor && other.index == one.index;
    };
    if (there && std::none_of(kept.begin(), kept.end(), same_place))
      kept.push_back(one);
  }
  if (moved) value.set = std::move(kept);
  return moved;
}

namespace {

Case with_law(const Law& law, Case value) {
  if (!value.has_options() || law.domain.subject != value.subject()) {
    drop_options(kStoryOptions & ~allowed_in(law.domain), value);
    if ((law.domain.allows & QKVET_OPTION_WINDOW) == 0)
      value.cache = {0, 0, 0, value.cache.stored};
    if ((law.domain.allows & kOptionStored) == 0)
      value.cache.stored = StoredAs::kAsGiven;
    value = law.constrain(std::move(value));
    repair_rope(value);
    return value;
  }
  value = law.constrain(keep_allowed(std::move(value), allowed_in(law.domain)));
  repair(value);
  return value;
}

}  // namespace

Case constrained(const Law& law, Case value) {
  value = with_law(law, std::move(value));
  // The law may have replaced the last data from a file.
  if (value.file != 0 && !uses_file(value)) value.file = 0;
  return value;
}

}  // namespace qkvet::properties

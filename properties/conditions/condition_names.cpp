// SPDX-License-Identifier: Apache-2.0
#include "properties/conditions/condition_names.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/case/option_fields.h"

namespace qkvet::properties {
namespace {

using At = const ConditionPlace&;
using In = ConditionScope;

template <class Enum>
constexpr ConditionWord word(std::string_view name, Enum value) {
  return {name, static_cast<int64_t>(value)};
}

constexpr ConditionWord kTypes[] = {
    word("f64", Dtype::kF64), word("f32", Dtype::kF32),
    word("f16", Dtype::kF16), word("bf16", Dtype::kBf16)};
constexpr ConditionWord kLayouts[] = {
    word("bhtd", Layout::kBhtd),    word("bthd", Layout::kBthd),
    word("qkv", Layout::kPacked),   word("gaps", Layout::kGaps),
    word("apart", Layout::kApart),  word("far", Layout::kFar),
    word("turned", Layout::kTurned)};
constexpr ConditionWord kStored[] = {
    word("as_given", StoredAs::kAsGiven),
    word("int8token", StoredAs::kInt8PerToken),
    word("int8channel", StoredAs::kInt8PerChannel),
    word("fp8token", StoredAs::kFp8PerToken),
    word("fp8channel", StoredAs::kFp8PerChannel)};
constexpr ConditionWord kVerbs[] = {
    word("append", StoryVerb::kAppend), word("attend", StoryVerb::kAttend),
    word("step", StoryVerb::kStep),     word("truncate", StoryVerb::kTruncate),
    word("evict", StoryVerb::kEvict),   word("reset", StoryVerb::kReset),
    word("fork", StoryVerb::kFork),     word("reorder", StoryVerb::kReorder)};
constexpr ConditionWord kMistakes[] = {
    word("none", Mistake::kNone),
    word("key_width", Mistake::kKeyWidth),
    word("value_absent", Mistake::kValueAbsent),
    word("heads", Mistake::kHeads),
    word("input_rows", Mistake::kInputRows),
    word("output_rows", Mistake::kOutputRows),
    word("bias_extent", Mistake::kBiasExtent),
    word("fused_width", Mistake::kFusedWidth),
    word("mask_extent", Mistake::kMaskExtent),
    word("lengths_extent", Mistake::kLengthsExtent),
    word("unknown_field", Mistake::kUnknownField),
    word("offsets_fall", Mistake::kOffsetsFall),
    word("offsets_start", Mistake::kOffsetsStart),
    word("offsets_end", Mistake::kOffsetsEnd),
    word("length_negative", Mistake::kLengthNegative),
    word("length_beyond", Mistake::kLengthBeyond),
    word("lengths_type", Mistake::kLengthsType),
    word("lengths_rank", Mistake::kLengthsRank),
    word("both_forms", Mistake::kBothForms),
    word("pages_fall", Mistake::kPagesFall),
    word("pages_start", Mistake::kPagesStart),
    word("pages_end", Mistake::kPagesEnd),
    word("last_page_empty", Mistake::kLastPageEmpty),
    word("last_page_beyond", Mistake::kLastPageBeyond),
    word("both_tables", Mistake::kBothTables),
    word("slopes_extent", Mistake::kSlopesExtent),
    word("key_lists_extent", Mistake::kKeyListsExtent),
    word("topk_length_extent", Mistake::kTopkLengthExtent),
    word("segments_extent", Mistake::kSegmentsExtent),
    word("segments_absent", Mistake::kSegmentsAbsent),
    word("full_ranges_extent", Mistake::kFullRangesExtent),
    word("tree_mask_extent", Mistake::kTreeMaskExtent)};
static_assert(std::size(kMistakes) ==
              static_cast<size_t>(Mistake::kTreeMaskExtent) + 1);
constexpr ConditionWord kFused[] = {
    word("none", FusedOrder::kNone), word("qkv", FusedOrder::kQkv),
    word("qvk", FusedOrder::kQvk),   word("kqv", FusedOrder::kKqv),
    word("kvq", FusedOrder::kKvq),   word("vqk", FusedOrder::kVqk),
    word("vkq", FusedOrder::kVkq)};

const Case& the_case(At at) { return at.situation->value(); }
const Shape& shape(At at) { return the_case(at).shape; }

template <int64_t Shape::*extent>
int64_t extent_of(At at) {
  return shape(at).*extent;
}
template <Causal causal>
int64_t is_causal(At at) {
  return the_case(at).causal == causal;
}
template <uint8_t bias>
int64_t has_bias(At at) {
  return (the_case(at).biases & bias) != 0;
}

// Bits of the significand of the factor, as the f32 that kernels get.
int64_t scale_bits(At at) {
  int exponent = 0;
  auto left = std::fabs(static_cast<float>(scale_of(the_case(at))));
  left = std::isfinite(left) ? std::frexp(left, &exponent) : 0;
  int64_t bits = 0;
  for (; left != 0; left = 2 * left - std::floor(2 * left)) ++bits;
  return bits;
}

// The largest score of the row, rounded down; 0 if it sees no key, and if all
// are small and need not be computed.
int64_t score_of_row(At at) {
  constexpr double kMost = 1e6;
  if (at.situation->has_plain_scores()) return 0;
  if (at.situation->visibility().keys(at.b, at.h, at.row) == 0) return 0;
  const double score =
      std::floor(at.situation->largest_score(at.b, at.h, at.row));
  if (std::isnan(score)) return 0;
  return static_cast<int64_t>(std::clamp(score, -kMost, kMost));
}

int64_t hidden_keys(At at) {
  return at.keys - at.situation->visibility().keys(at.b, at.h, at.row);
}

// The first and the last key that a row sees; -1: none.
std::pair<int64_t, int64_t> ends_of_seen(At at) {
  const Visibility& visibility = at.situation->visibility();
  std::pair<int64_t, int64_t> ends(-1, -1);
  for (int64_t j = 0; j < shape(at).Tk; ++j) {
    if (!visibility.sees(at.b, at.h, at.row, j)) continue;
    if (ends.first < 0) ends.first = j;
    ends.second = j;
  }
  return ends;
}

FieldFacts facts(At at) { return at.situation->facts_of(at.b, at.row); }

// Commands before this one that need this care.
template <PageCare kCare>
int64_t needs(At at) {
  return int64_t{at.command->needs_care[static_cast<size_t>(kCare)]};
}

template <StoryVerb verb>
int64_t after(At at) {
  int64_t count = 0;
  for (const CommandAt& one : at.situation->commands()) {
    if (&one == at.command) break;
    count += one.snapshot.command.verb == verb;
  }
  return count;
}

// In the order of the manual; the fields of options are between them.
constexpr ConditionName kOfShape[] = {
    {"B", In::kCase, extent_of<&Shape::B>},
    {"H", In::kCase, extent_of<&Shape::H>},
    {"Hkv", In::kCase, extent_of<&Shape::Hkv>},
    {"Tq", In::kCase, extent_of<&Shape::Tq>},
    {"Tk", In::kCase, extent_of<&Shape::Tk>},
    {"d", In::kCase, extent_of<&Shape::d>},
    {"dv", In::kCase, extent_of<&Shape::dv>},
    {"D", In::kCase, extent_of<&Shape::D>},

    {"dtype", In::kCase,
     [](At at) { return static_cast<int64_t>(the_case(at).q_dtype); }, kTypes},
    {"dtype.kv", In::kCase,
     [](At at) { return static_cast<int64_t>(the_case(at).kv_dtype); }, kTypes},
    {"layout", In::kCase,
     [](At at) { return static_cast<int64_t>(the_case(at).layout); }, kLayouts},
    {"share.members", In::kCase,
     [](At at) { return int64_t{(the_case(at).share & kShareB) != 0}; }},
    {"share.heads", In::kCase,
     [](At at) { return int64_t{(the_case(at).share & kShareH) != 0}; }},

    {"causal", In::kCase,
     [](At at) { return int64_t{the_case(at).causal != Causal::kNone}; }},
    {"top_left", In::kCase, is_causal<Causal::kTopLeft>},
    {"bottom_right", In::kCase, is_causal<Causal::kBottomRight>}};

constexpr ConditionName kOfScores[] = {
    {"scale.given", In::kCase,
     [](At at) { return int64_t{the_case(at).scale.has_value()}; }},
    {"scale.is_one", In::kCase,
     [](At at) { return int64_t{scale_of(the_case(at)) == 1}; }},
    {"scale.negative", In::kCase,
     [](At at) { return int64_t{scale_of(the_case(at)) < 0}; }},
    {"scale.bits", In::kCase, scale_bits},
#define QKVET_OPTION_NUMBER(name, ...) \
  {#name, In::kCase, [](At at) { return int64_t{the_case(at).name > 0}; }},
#include "core/call/option_numbers.def"
    {"dropout", In::kCase,
     [](At at) { return int64_t{the_case(at).dropout.value_or(0) > 0}; }},
    {"dropout.is_zero", In::kCase,
     [](At at) { return int64_t{the_case(at).dropout == 0.0F}; }},
#define QKVET_OPTION_NUMBER(name, ...)                    \
  {#name ".over_one", In::kCase,                          \
   [](At at) { return int64_t{the_case(at).name > 1}; }}, \
      {#name ".is_one", In::kCase,                        \
       [](At at) { return int64_t{the_case(at).name == 1}; }},
#include "core/call/option_numbers.def"
};

constexpr ConditionName kOfLayers[] = {
    {"b_q", In::kCase, has_bias<kBiasQ>},
    {"b_k", In::kCase, has_bias<kBiasK>},
    {"b_v", In::kCase, has_bias<kBiasV>},
    {"b_o", In::kCase, has_bias<kBiasO>},
    {"fused", In::kCase,
     [](At at) { return static_cast<int64_t>(the_case(at).fused); }, kFused},
    {"context", In::kCase, [](At at) { return the_case(at).context; }},

    {"capacity", In::kCase, [](At at) { return the_case(at).capacity; }}};

constexpr ConditionName kOfCalls[] = {
    {"stored", In::kCase,
     [](At at) { return static_cast<int64_t>(the_case(at).cache.stored); },
     kStored},

    {"threads", In::kCase,
     [](At at) { return int64_t{at.situation->threads()}; }},
    {"lse", In::kCase,
     [](At at) { return int64_t{at.situation->wants_lse()}; }},
    {"mistake", In::kCase,
     [](At at) { return static_cast<int64_t>(at.situation->mistake()); },
     kMistakes},

    {"row", In::kRow, [](At at) { return at.row; }},
    {"seen", In::kRow,
     [](At at) { return at.situation->visibility().keys(at.b, at.h, at.row); }},
    {"score", In::kRow, score_of_row},
    {"hidden", In::kRow, hidden_keys},
    {"gaps", In::kRow,
     [](At at) {
       // All other rules leave contiguous keys.
       const Case& value = the_case(at);
       if (value.mask.kind == MaskKind::kNone && value.listed.entries == 0 &&
           value.fields == MaskFields{})
         return int64_t{0};
       const auto [first, last] = ends_of_seen(at);
       return first < 0
                  ? 0
                  : last + 1 - first -
                        at.situation->visibility().keys(at.b, at.h, at.row);
     }},
    {"diagonal", In::kRow,
     [](At at) {
       return at.situation->visibility().diagonal(at.b, at.row) - at.first_key;
     }},
    {"padding", In::kRow, [](At at) { return int64_t{facts(at).padding}; }},
    {"alike", In::kRow, [](At at) { return facts(at).alike; }},
    {"border", In::kRow, [](At at) { return facts(at).border; }},
    {"taken_back", In::kRow, [](At at) { return facts(at).taken_back; }},
    {"aside", In::kRow, [](At at) { return facts(at).aside; }},
    {"queries", In::kRow, [](At at) { return at.queries; }},
    {"keys", In::kRow, [](At at) { return at.keys; }},

    {"member", In::kMember, [](At at) { return at.b; }},
    {"queries", In::kMember, [](At at) { return at.queries; }},
    {"keys", In::kMember, [](At at) { return at.keys; }},

    {"verb", In::kCommand,
     [](At at) {
       return static_cast<int64_t>(at.command->snapshot.command.verb);
     },
     kVerbs},
    {"sequence", In::kCommand,
     [](At at) { return at.command->snapshot.command.sequence; }},
    {"first", In::kCommand,
     [](At at) { return at.command->snapshot.command.first; }},
    {"new", In::kCommand,
     [](At at) { return at.command->snapshot.new_tokens; }},
    {"queries", In::kCommand,
     [](At at) { return at.command->snapshot.queries; }},
    {"before", In::kCommand, [](At at) { return at.command->before; }},
    {"held", In::kCommand, [](At at) { return at.command->held; }},
    {"shared", In::kCommand, [](At at) { return at.command->shared; }},
    {"disturbed", In::kCommand, [](At at) { return at.command->disturbed; }},
    {"pages.taken", In::kCommand, [](At at) { return at.command->pages.all; }},
    {"pages.copied", In::kCommand,
     [](At at) { return at.command->pages.copies; }},
    {"pages.made", In::kCommand, [](At at) { return at.command->pages.made; }},
    {"pages.copied_for_appended", In::kCommand,
     needs<PageCare::kCopyForAppended>},
    {"pages.copied_for_evicted", In::kCommand,
     needs<PageCare::kCopyForEvicted>},
    {"pages.kept_until_last", In::kCommand, needs<PageCare::kKeepUntilLast>},
    {"pages.kept_while_held", In::kCommand, needs<PageCare::kKeepWhileHeld>},
    {"pages.counted_for_taker", In::kCommand, needs<PageCare::kCountTaker>},
    {"pages.copy_stored", In::kCommand, needs<PageCare::kStoreCopy>},
    {"after.truncate", In::kCommand, after<StoryVerb::kTruncate>},
    {"after.evict", In::kCommand, after<StoryVerb::kEvict>},
    {"after.reset", In::kCommand, after<StoryVerb::kReset>},
    {"after.fork", In::kCommand, after<StoryVerb::kFork>},
    {"after.reorder", In::kCommand, after<StoryVerb::kReorder>},
    {"illegal", In::kCommand,
     [](At at) { return int64_t{!at.command->snapshot.illegal.empty()}; }}};

struct Section {
  std::span<const ConditionName> names;
  std::string_view last_field;  // of those after them; "": all the rest
};
constexpr Section kSections[] = {{kOfShape, "bias.keys"},
                                 {kOfScores, "new_tokens"},
                                 {kOfLayers, ""},
                                 {kOfCalls, ""}};

std::vector<ConditionName> all_names() {
  std::vector<ConditionName> all;
  std::span<const OptionField> fields = option_fields();
  for (const Section& section : kSections) {
    all.insert(all.end(), section.names.begin(), section.names.end());
    for (bool last = false; !last && !fields.empty();
         fields = fields.subspan(1)) {
      const OptionField& field = fields.front();
      last = field.word == section.last_field && !field.word.empty();
      if (!field.word.empty())
        all.push_back({.name = field.word, .of_case = field.get});
    }
  }
  return all;
}

const std::vector<ConditionName>& names() {
  static const std::vector<ConditionName> all = all_names();
  return all;
}

}  // namespace

const ConditionName* find_condition_name(std::string_view name,
                                         ConditionScope scope) {
  const auto found = std::find_if(
      names().begin(), names().end(), [&](const ConditionName& one) {
        return one.name == name && one.scope == scope;
      });
  return found == names().end() ? nullptr : &*found;
}

std::string condition_names(ConditionScope scope) {
  std::string all;
  for (const ConditionName& one : names())
    if (one.scope == scope)
      all += (all.empty() ? "" : ", ") + std::string(one.name);
  return all;
}

}  // namespace qkvet::properties

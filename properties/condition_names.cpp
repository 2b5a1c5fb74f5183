// SPDX-License-Identifier: Apache-2.0
#include "properties/condition_names.h"

#include <algorithm>
#include <cmath>

#include "core/paging.h"

namespace qkvet {
namespace {

using At = const ConditionPlace&;
using Scope = ConditionScope;

template <class Enum>
constexpr ConditionWord word(std::string_view name, Enum value) {
  return {name, static_cast<int64_t>(value)};
}

constexpr ConditionWord kTypes[] = {
    word("f64", Dtype::kF64), word("f32", Dtype::kF32),
    word("f16", Dtype::kF16), word("bf16", Dtype::kBf16)};
constexpr ConditionWord kLayouts[] = {
    word("bhtd", Layout::kBhtd), word("bthd", Layout::kBthd),
    word("qkv", Layout::kPacked), word("gaps", Layout::kGaps),
    word("apart", Layout::kApart)};
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
    word("fused_width", Mistake::kFusedWidth)};
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
template <uint8_t own>
int64_t owns_mask(At at) {
  const Mask& mask = the_case(at).mask;
  return mask.kind != MaskKind::kNone && (mask.own & own) != 0;
}
template <uint8_t own>
int64_t owns_bias(At at) {
  return the_case(at).score_bias && (the_case(at).score_bias_own & own) != 0;
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

int64_t hidden_keys(At at) {
  return at.keys - at.situation->visibility().keys(at.b, at.h, at.row);
}

// In the order of the manual.
constexpr ConditionName kNames[] = {
    {"B", Scope::kCase, extent_of<&Shape::B>},
    {"H", Scope::kCase, extent_of<&Shape::H>},
    {"Hkv", Scope::kCase, extent_of<&Shape::Hkv>},
    {"Tq", Scope::kCase, extent_of<&Shape::Tq>},
    {"Tk", Scope::kCase, extent_of<&Shape::Tk>},
    {"d", Scope::kCase, extent_of<&Shape::d>},
    {"dv", Scope::kCase, extent_of<&Shape::dv>},
    {"D", Scope::kCase, extent_of<&Shape::D>},

    {"dtype", Scope::kCase,
     [](At at) { return static_cast<int64_t>(the_case(at).q_dtype); }, kTypes},
    {"layout", Scope::kCase,
     [](At at) { return static_cast<int64_t>(the_case(at).layout); }, kLayouts},
    {"share.members", Scope::kCase,
     [](At at) { return int64_t{(the_case(at).share & kShareB) != 0}; }},
    {"share.heads", Scope::kCase,
     [](At at) { return int64_t{(the_case(at).share & kShareH) != 0}; }},

    {"causal", Scope::kCase,
     [](At at) { return int64_t{the_case(at).causal != Causal::kNone}; }},
    {"top_left", Scope::kCase, is_causal<Causal::kTopLeft>},
    {"bottom_right", Scope::kCase, is_causal<Causal::kBottomRight>},
    {"window", Scope::kCase,
     [](At at) { return int64_t{the_case(at).window.has_value()}; }},
    {"window.left", Scope::kCase,
     [](At at) { return the_case(at).window.value_or(Window{}).left; }},
    {"window.right", Scope::kCase,
     [](At at) { return the_case(at).window.value_or(Window{}).right; }},
    {"mask", Scope::kCase,
     [](At at) { return int64_t{the_case(at).mask.kind != MaskKind::kNone}; }},
    {"mask.members", Scope::kCase, owns_mask<kOwnB>},
    {"mask.heads", Scope::kCase, owns_mask<kOwnH>},
    {"mask.rows", Scope::kCase, owns_mask<kOwnQ>},
    {"bias", Scope::kCase,
     [](At at) { return int64_t{the_case(at).score_bias.has_value()}; }},
    {"bias.members", Scope::kCase, owns_bias<kOwnB>},
    {"bias.heads", Scope::kCase, owns_bias<kOwnH>},
    {"bias.rows", Scope::kCase, owns_bias<kOwnQ>},

    {"scale.given", Scope::kCase,
     [](At at) { return int64_t{the_case(at).scale.has_value()}; }},
    {"scale.is_one", Scope::kCase,
     [](At at) { return int64_t{scale_of(the_case(at)) == 1}; }},
    {"scale.negative", Scope::kCase,
     [](At at) { return int64_t{scale_of(the_case(at)) < 0}; }},
    {"scale.bits", Scope::kCase, scale_bits},
    {"softcap", Scope::kCase,
     [](At at) { return int64_t{the_case(at).softcap > 0}; }},
    {"dropout", Scope::kCase,
     [](At at) { return int64_t{the_case(at).dropout.value_or(0) > 0}; }},
    {"dropout.is_zero", Scope::kCase,
     [](At at) { return int64_t{the_case(at).dropout == 0.0F}; }},
    {"softcap.is_one", Scope::kCase,
     [](At at) { return int64_t{the_case(at).softcap == 1}; }},
    {"sink", Scope::kCase,
     [](At at) { return int64_t{the_case(at).sink.has_value()}; }},
    {"alibi", Scope::kCase,
     [](At at) { return int64_t{the_case(at).slopes.has_value()}; }},
    {"rope", Scope::kCase,
     [](At at) {
       return int64_t{the_case(at).rope.style != RopeStyle::kNone};
     }},
    {"rope.random", Scope::kCase,
     [](At at) { return int64_t{the_case(at).rope.random_positions}; }},
    {"rope.first", Scope::kCase, [](At at) { return the_case(at).rope.first; }},

    {"q_len", Scope::kCase,
     [](At at) { return int64_t{!the_case(at).q_len.empty()}; }},
    {"kv_len", Scope::kCase,
     [](At at) { return int64_t{!the_case(at).kv_len.empty()}; }},
    {"packed", Scope::kCase,
     [](At at) { return int64_t{!the_case(at).cu_q.empty()}; }},
    {"page_size", Scope::kCase, [](At at) { return the_case(at).paging.size; }},
    {"new_tokens", Scope::kCase,
     [](At at) { return new_tokens(the_case(at)); }},

    {"b_q", Scope::kCase, has_bias<kBiasQ>},
    {"b_k", Scope::kCase, has_bias<kBiasK>},
    {"b_v", Scope::kCase, has_bias<kBiasV>},
    {"b_o", Scope::kCase, has_bias<kBiasO>},
    {"fused", Scope::kCase,
     [](At at) { return static_cast<int64_t>(the_case(at).fused); }, kFused},
    {"context", Scope::kCase, [](At at) { return the_case(at).context; }},

    {"capacity", Scope::kCase, [](At at) { return the_case(at).capacity; }},
    {"cache.window", Scope::kCase,
     [](At at) { return the_case(at).cache.window; }},
    {"cache.first_tokens", Scope::kCase,
     [](At at) { return the_case(at).cache.first_tokens; }},
    {"cache.rollback", Scope::kCase,
     [](At at) { return the_case(at).cache.rollback; }},
    {"stored", Scope::kCase,
     [](At at) { return static_cast<int64_t>(the_case(at).cache.stored); },
     kStored},

    {"threads", Scope::kCase,
     [](At at) { return int64_t{at.situation->threads()}; }},
    {"lse", Scope::kCase,
     [](At at) { return int64_t{at.situation->wants_lse()}; }},
    {"mistake", Scope::kCase,
     [](At at) { return static_cast<int64_t>(at.situation->mistake()); },
     kMistakes},

    {"row", Scope::kRow, [](At at) { return at.row; }},
    {"seen", Scope::kRow,
     [](At at) { return at.situation->visibility().keys(at.b, at.h, at.row); }},
    {"hidden", Scope::kRow, hidden_keys},
    {"diagonal", Scope::kRow,
     [](At at) {
       return at.situation->visibility().diagonal(at.b, at.row) - at.first_key;
     }},
    {"queries", Scope::kRow, [](At at) { return at.queries; }},
    {"keys", Scope::kRow, [](At at) { return at.keys; }},

    {"member", Scope::kMember, [](At at) { return at.b; }},
    {"queries", Scope::kMember, [](At at) { return at.queries; }},
    {"keys", Scope::kMember, [](At at) { return at.keys; }},

    {"verb", Scope::kCommand,
     [](At at) { return static_cast<int64_t>(at.command->moment.command.verb); },
     kVerbs},
    {"sequence", Scope::kCommand,
     [](At at) { return at.command->moment.command.sequence; }},
    {"first", Scope::kCommand,
     [](At at) { return at.command->moment.command.first; }},
    {"new", Scope::kCommand,
     [](At at) { return at.command->moment.new_tokens; }},
    {"queries", Scope::kCommand,
     [](At at) { return at.command->moment.queries; }},
    {"before", Scope::kCommand, [](At at) { return at.command->before; }},
    {"held", Scope::kCommand, [](At at) { return at.command->held; }},
    {"illegal", Scope::kCommand,
     [](At at) { return int64_t{!at.command->moment.illegal.empty()}; }}};

}  // namespace

const ConditionName* find_condition_name(std::string_view name,
                                         ConditionScope scope) {
  const auto found = std::find_if(
      std::begin(kNames), std::end(kNames), [&](const ConditionName& one) {
        return one.name == name && one.scope == scope;
      });
  return found == std::end(kNames) ? nullptr : found;
}

std::string condition_names(ConditionScope scope) {
  std::string all;
  for (const ConditionName& one : kNames)
    if (one.scope == scope)
      all += (all.empty() ? "" : ", ") + std::string(one.name);
  return all;
}

}  // namespace qkvet

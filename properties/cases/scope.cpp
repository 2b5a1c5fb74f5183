// SPDX-License-Identifier: Apache-2.0
#include "properties/cases/scope.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/case/case_options.h"
#include "core/case/exclusions.h"
#include "core/case/paging.h"
#include "properties/cases/pair_settings.h"
#include "properties/conventions/domain.h"

namespace qkvet::properties {
namespace {

const std::string kAllowed =
    "allowed: B H Hkv Tq Tk d dv T D cap, each with = and a number from 1 to " +
    std::to_string(kMaxExtent);

constexpr std::string_view kSizes[] = {"small", "medium", "large", "long"};

// The extent of that name; null if the subject has none.
int64_t* extent_of(Case& value, std::string_view name) {
  Shape& s = value.shape;
  const Subject subject = value.subject();
  if (name == "B") return &s.B;
  if (name == "H") return &s.H;
  if (value.merge) return name == "Tk" ? &s.Tk : name == "dv" ? &s.dv : nullptr;
  if (name == "Hkv") return &s.Hkv;
  if (name == "d") return &s.d;
  if (name == "dv") return &s.dv;
  if (name == "T" && value.is_layer()) return &s.Tq;
  if (name == "D" && value.is_layer()) return &s.D;
  if (name == "cap" && subject == Subject::kCache) return &value.capacity;
  if (!value.has_options()) return nullptr;
  if (name == "Tq") return &s.Tq;
  if (name == "Tk") return &s.Tk;
  return nullptr;
}

// As nearest_allowed(). For a multiple it is not always the first one: the
// behaviour of a kernel that takes whole tiles between two of them is visible
// from the second on.
int64_t steered(int64_t extent, const qkvet_extent_rule& rule) {
  if (extent == 0) return 0;
  if (rule.multiple <= 1) return nearest_allowed(extent, rule);
  constexpr int64_t kSteps = 4;
  const int64_t first = nearest_allowed(1, rule);
  const int64_t far = first + extent % kSteps * rule.multiple;
  return allows(rule, far) ? std::max(nearest_allowed(extent, rule), far)
                           : nearest_allowed(extent, rule);
}

// Lengths for the present number of members.
void fit_lengths(int64_t members, std::vector<int64_t>& lengths) {
  if (!lengths.empty())
    lengths.resize(static_cast<size_t>(members), lengths.front());
}

// Starts for this number of members: removed members leave their rows to the
// one before, new ones are empty.
void fit_starts(int64_t members, std::vector<int64_t>& starts) {
  if (starts.empty()) return;
  const int64_t end = starts.back();
  starts.resize(static_cast<size_t>(members), end);
  starts.push_back(end);
}

// Members, of a packed batch as well, that the rule allows, next to these.
void keep_members(const qkvet_extent_rule& rule, Case& value) {
  const int64_t members = member_count(value);
  if (members == 0 || allows(rule, members)) return;
  const int64_t kept = nearest_allowed(members, rule);
  if (value.cu_q.empty()) {
    value.shape.B = kept;
    fit_lengths(kept, value.q_len);
    fit_lengths(kept, value.kv_len);
  }
  fit_starts(kept, value.cu_q);
  fit_starts(kept, value.cu_k);
}

ExtentsOf extents_in(const Case& value) {
  return value.merge           ? kOfMerges
         : value.is_layer()    ? kOfLayers
         : value.has_options() ? kOfAttention
                               : kOfCaches;
}

bool is_extent(std::string_view name) {
  constexpr std::string_view kNames[] = {"B", "H",  "Hkv", "Tq", "Tk",
                                         "d", "dv", "T",   "D",  "cap"};
  return std::find(std::begin(kNames), std::end(kNames), name) !=
         std::end(kNames);
}

}  // namespace

std::string_view size_class_name(SizeClass size) {
  return kSizes[static_cast<size_t>(size)];
}

int64_t largest_extent(SizeClass size) {
  // Extents of class 0 are one; the sizes of cases come after it.
  return extents_of_class(1 + static_cast<size_t>(size)).second;
}

std::optional<SizeClass> size_class_from_name(std::string_view name) {
  const auto* const found =
      std::find(std::begin(kSizes), std::end(kSizes), name);
  if (found == std::end(kSizes)) return std::nullopt;
  return static_cast<SizeClass>(found - std::begin(kSizes));
}

std::string to_string(const StorageTypes& types) {
  if (types.is_one()) return std::string(dtype_name(types.q));
  return "q=" + std::string(dtype_name(types.q)) +
         ",kv=" + std::string(dtype_name(types.kv)) +
         ",o=" + std::string(dtype_name(types.o));
}

std::string slashed(const StorageTypes& types) {
  if (types.is_one()) return std::string(dtype_name(types.q));
  return std::string(dtype_name(types.q)) + "/" +
         std::string(dtype_name(types.kv)) + "/" +
         std::string(dtype_name(types.o));
}

std::optional<StorageTypes> slashed_storage(std::string_view text) {
  std::vector<Dtype> types;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('/', begin), text.size());
    const auto type = dtype_from_name(text.substr(begin, end - begin));
    if (!type) return std::nullopt;
    types.push_back(*type);
    begin = end + 1;
  }
  if (types.size() == 1) return StorageTypes(types[0]);
  if (types.size() != 3) return std::nullopt;
  return StorageTypes(types[0], types[1], types[2]);
}

StorageTypes storage_of(const Case& value) {
  return {value.q_dtype, value.kv_dtype, value.o_dtype};
}

void store_as(const StorageTypes& types, Case& value) {
  value.q_dtype = types.q;
  value.kv_dtype = types.kv;
  value.o_dtype = types.o;
}

uint64_t allowed_by(const Scope& scope) {
  // A kernel that only takes q, k and v in one block gets no option that
  // excludes one.
  const bool in_one_block = scope.layouts == QKVET_LAYOUT_PACKED_QKV;
  uint64_t allowed =
      scope.options & kAllCaseOptions &
      ~(in_one_block ? options_beside_no(CallPart::kOneBlock) : uint64_t{0});
  const auto lays = [&](uint64_t layouts) {
    return (scope.layouts & (layouts | QKVET_LAYOUT_ANY_STRIDES)) != 0;
  };
  if (lays(QKVET_LAYOUT_BTHD | QKVET_LAYOUT_PACKED_QKV))
    allowed |= kOptionLayout;
  if (lays(0)) allowed |= kOptionShare;
  return allowed | kOptionCalls;
}

// The layout, if some kernel takes it, or another that one does.
Layout nearest_layout(const Scope& scope, Layout layout) {
  const auto takes = [&](Layout candidate) {
    const uint64_t own = candidate == Layout::kBhtd   ? QKVET_LAYOUT_BHTD
                         : candidate == Layout::kBthd ? QKVET_LAYOUT_BTHD
                         : candidate == Layout::kPacked
                             ? QKVET_LAYOUT_PACKED_QKV
                             : 0;
    return (scope.layouts & (own | QKVET_LAYOUT_ANY_STRIDES)) != 0;
  };
  for (const Layout candidate :
       {layout, Layout::kBthd, Layout::kBhtd, Layout::kPacked})
    if (takes(candidate)) return candidate;
  return Layout::kBhtd;
}

// Layouts and numbers of states of a merge.
void keep_merge_to_declared(const Scope& scope, Case& value) {
  const auto has = [&](uint64_t option) {
    return (scope.merge_options & option) != 0;
  };
  Shape& s = value.shape;
  if (!broken_extent(scope.extents, s, kOfMerges).empty()) {
    keep_widths(scope.extents, 0, s);
    keep_heads(scope.extents, /*grouped=*/false, s);
    s.d = 1;
    s.Hkv = s.H;
  }
  if (!has(QKVET_MERGE_RAGGED)) value.kv_len.clear();
  if (value.kv_len.empty() && value.shape.Tk > 0)
    value.shape.Tk = nearest_allowed(value.shape.Tk, scope.states);
  if (has(QKVET_MERGE_LSE_HEADS_FIRST_ONLY)) value.layout = Layout::kBthd;
  if (has(QKVET_MERGE_ANY_STRIDES)) return;
  if (value.layout != Layout::kBhtd)
    value.layout =
        has(QKVET_MERGE_LSE_HEADS_FIRST) ? Layout::kBthd : Layout::kBhtd;
}

void in_channel_groups(Case& value) {
  value.paging.pool = PageForm::kGroups;
  const int64_t group = channel_group_of(value);
  if (group == 0) return;
  const bool same_width = value.shape.dv == value.shape.d;
  value.shape.d = (value.shape.d + group - 1) / group * group;
  if (same_width) value.shape.dv = value.shape.d;
}

void keep_to_declared(const Scope& scope, Case& value) {
  const auto has = [&](uint64_t option) {
    return (scope.options & option) != 0;
  };
  Shape& s = value.shape;
  if (value.merge) return keep_merge_to_declared(scope, value);
  if (value.rope.style != RopeStyle::kNone) {
    if (scope.refuses(QKVET_FLAG_ROPE_HALF_ONLY))
      value.rope.style = RopeStyle::kHalf;
    if (scope.refuses(QKVET_FLAG_ROPE_INTERLEAVED_ONLY))
      value.rope.style = RopeStyle::kInterleaved;
  }
  if (scope.groups_only && value.paging.size > 0) in_channel_groups(value);
  keep_widths(scope.extents, channel_group_of(value), s);
  if (!has(QKVET_OPTION_VALUE_WIDTH)) s.dv = s.d;
  keep_heads(scope.extents, has(QKVET_OPTION_GROUPED_HEADS), s);
  if (value.has_options() || value.is_layer())
    keep_members(scope.extents.of(ExtentName::kB), value);
  if (!has(QKVET_OPTION_SCALE)) value.scale.reset();
  if (!has(QKVET_OPTION_DEFAULT_SCALE) && !value.scale) value.scale = 1.0f;
  if (value.scale && scope.refuses(QKVET_FLAG_POSITIVE_SCALE))
    value.scale = std::fabs(*value.scale);
  if (scope.refuses(QKVET_FLAG_MASK_OR_BIAS) &&
      value.mask.kind != MaskKind::kNone)
    value.score_bias.reset();
  if (value.subject() == Subject::kCache) {
    const uint64_t declared = options_by_cache_bits(scope.cache_options);
    drop_options(kStoryOptions & ~kOptionLayout & ~declared, value);
    if ((declared & QKVET_OPTION_WINDOW) == 0)
      value.cache = {0, 0, 0, value.cache.stored};
    if (!declares_stored(scope.cache_options, value.cache.stored))
      value.cache.stored = StoredAs::kAsGiven;
    return;
  }
  if (value.is_layer()) {
    if ((scope.layer_options & QKVET_LAYER_ROPE) == 0) value.rope = {};
    if ((scope.layer_options & QKVET_LAYER_ROPE_PART) == 0 &&
        value.rope.channels != 0)
      value.rope = {};
    if ((scope.layer_options & fused_option(value.fused)) == 0)
      value.fused = FusedOrder::kNone;
    if ((scope.layer_options & QKVET_LAYER_MASK_BUFFER) == 0) value.context = 0;
  }
  if (value.has_options()) {
    value = keep_allowed(std::move(value), allowed_by(scope));
    if ((value.paging.size > 0 && scope.refuses(QKVET_FLAG_LISTS_OR_PAGES)) ||
        (value.backward && scope.refuses(QKVET_FLAG_LISTS_IN_FORWARD_ONLY)))
      value.listed = {};
    value.layout = nearest_layout(scope, value.layout);
    const auto& sizes = scope.page_sizes;
    int64_t& size = value.paging.size;
    if (size > 0 && !sizes.empty() &&
        std::find(sizes.begin(), sizes.end(), size) == sizes.end())
      size = sizes[static_cast<size_t>(size) % sizes.size()];
  }
  if (value.causal == Causal::kTopLeft && !has(QKVET_OPTION_CAUSAL_TOP_LEFT))
    value.causal = Causal::kBottomRight;
  if (value.causal == Causal::kBottomRight &&
      !has(QKVET_OPTION_CAUSAL_BOTTOM_RIGHT))
    value.causal =
        has(QKVET_OPTION_CAUSAL_TOP_LEFT) ? Causal::kTopLeft : Causal::kNone;
  if (scope.causal_only && value.causal == Causal::kNone)
    value.causal = has(QKVET_OPTION_CAUSAL_BOTTOM_RIGHT) ? Causal::kBottomRight
                                                         : Causal::kTopLeft;
  if (scope.refuses(QKVET_FLAG_BIAS_OR_CAUSAL) && value.causal != Causal::kNone)
    value.score_bias.reset();
  if (value.has_options()) {
    s.Tq = steered(s.Tq, scope.extents.of(ExtentName::kTq));
    s.Tk = steered(s.Tk, scope.extents.of(ExtentName::kTk));
  }
  if (value.has_options() && !has(QKVET_OPTION_CROSS_LENGTHS)) {
    s.Tq = s.Tk;
    value.cu_k = value.cu_q;
  }
}

bool is_declared(const Scope& scope, const Case& value) {
  if (value.merge && value.kv_len.empty() && value.shape.Tk != 0 &&
      !allows(scope.states, value.shape.Tk))
    return false;
  if (scope.causal_only && value.has_options() && value.causal == Causal::kNone)
    return false;
  Shape shape = value.shape;
  if (!value.cu_q.empty()) shape.B = member_count(value);
  return broken_extent(scope.extents, shape, extents_in(value)).empty();
}

std::vector<Pin> parse_pins(std::string_view text, std::string* error) {
  std::vector<Pin> pins;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view token = text.substr(0, comma);
    const size_t equals = std::min(token.find('='), token.size());
    Pin pin{std::string(token.substr(0, equals)), 0};
    const std::string_view number =
        token.substr(std::min(equals + 1, token.size()));
    const char* end = number.data() + number.size();
    const auto [stop, code] = std::from_chars(number.data(), end, pin.value);
    if (!is_extent(pin.extent) || code != std::errc() || stop != end ||
        pin.value < 1 || pin.value > kMaxExtent) {
      *error = "\"" + std::string(token) + "\": " + kAllowed;
      return {};
    }
    pins.push_back(std::move(pin));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return pins;
}

void apply_pins(const Scope& scope, Case& value) {
  Shape& s = value.shape;
  const bool same_width = s.dv == s.d;
  const bool same_model = s.D == s.H * s.d;
  for (const Pin& pin : scope.pins)
    if (int64_t* extent = extent_of(value, pin.extent)) *extent = pin.value;
  if (scope.pins.empty()) return;
  const auto pinned = [&](std::string_view name) {
    return std::any_of(scope.pins.begin(), scope.pins.end(),
                       [&](const Pin& pin) { return pin.extent == name; });
  };
  if (same_width && !pinned("dv")) s.dv = s.d;
  // A pinned H leaves its own kv heads, and a pinned Hkv one query head each.
  if (s.H % s.Hkv != 0) {
    if (pinned("H") && !pinned("Hkv"))
      s.Hkv = s.H;
    else
      s.H = s.Hkv;
  }
  if (!value.is_layer()) return;
  s.Tk = s.Tq;
  if (same_model && !pinned("D")) s.D = s.H * s.d;
}

bool keeps_pins(const Scope& scope, const Case& value) {
  Case copy = value;
  return std::all_of(scope.pins.begin(), scope.pins.end(), [&](const Pin& pin) {
    const int64_t* extent = extent_of(copy, pin.extent);
    return extent == nullptr || *extent == pin.value;
  });
}

}  // namespace qkvet::properties

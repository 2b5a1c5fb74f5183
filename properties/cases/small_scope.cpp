// SPDX-License-Identifier: Apache-2.0
#include "properties/cases/small_scope.h"

#include <algorithm>

#include "core/case/paging.h"
#include "properties/conventions/domain.h"

namespace qkvet::properties {
namespace {

constexpr int64_t kExtent = 3;
constexpr int64_t kHeads = 6;

// Recipes of q, k and v. Scores and sums are exact: an index that is wrong
// meets a bound of a few roundings.
struct Data {
  RecipeKind q, k, v;
};
constexpr Data kData[] = {
    {RecipeKind::kLattice, RecipeKind::kLattice, RecipeKind::kLattice},
    {RecipeKind::kZero, RecipeKind::kLattice, RecipeKind::kCount},
    {RecipeKind::kLattice, RecipeKind::kLattice, RecipeKind::kOnehotN}};
// Beside options: what all data shows, the first two show.
constexpr uint8_t kDataWithOptions = 2;

std::vector<Shape> plain_shapes() {
  std::vector<Shape> shapes;
  for (int64_t B = 1; B <= kExtent; ++B)
    for (int64_t H = 1; H <= kHeads; ++H)
      for (int64_t Hkv = 1; Hkv <= H; ++Hkv)
        for (int64_t Tq = 1; H % Hkv == 0 && Tq <= kExtent; ++Tq)
          for (int64_t Tk = 1; Tk <= kExtent; ++Tk)
            for (int64_t d = 1; d <= kExtent; ++d)
              for (int64_t dv = 1; dv <= kExtent; ++dv)
                shapes.push_back({B, H, Hkv, Tq, Tk, d, dv});
  return shapes;
}

bool shows_options(const Shape& s) {
  return s.B <= 2 && s.H <= 2 && s.d == 2 && s.dv == 2;
}

constexpr uint8_t kOwns[] = {kOwnAll, kOwnQ | kOwnK, kOwnK,
                             kOwnQ,   kOwnH,         kOwnB | kOwnK};

constexpr Mask kMasksOfTexts[] = {
    {MaskKind::kPrefixN, 1}, {MaskKind::kPrefixN, 2}, {MaskKind::kRangesN, 2},
    {MaskKind::kDocsN, 2},   {MaskKind::kChunkN, 1},  {MaskKind::kChunkN, 2},
    {MaskKind::kTreeN, 0},   {MaskKind::kTreeN, 2}};

}  // namespace

const char* SmallScope::text() {
  return "B, Tq, Tk, d, dv up to 3, heads up to 6 with every group, every "
         "causal rule; every option but dropout alone and in pairs, at B and H "
         "up "
         "to 2";
}

std::vector<SmallScope::Setting> SmallScope::all_settings() {
  std::vector<Setting> all;
  const auto add = [&](uint64_t option, std::function<void(Case&)> apply) {
    all.push_back({option, std::move(apply)});
  };
  for (int64_t left = -1; left < kExtent; ++left)
    for (int64_t right = -1; right < kExtent; ++right)
      if (left >= 0 || right >= 0)
        add(QKVET_OPTION_WINDOW, [=](Case& c) {
          c.window = Window{left, right};
        });
  for (const uint8_t own : kOwns)
    for (const auto& [named, most] :
         {std::pair<MaskKind, int64_t>{MaskKind::kRandomN, 0},
          {MaskKind::kBandN, 1},
          {MaskKind::kOnlyN, kExtent - 1},
          {MaskKind::kButN, kExtent - 1},
          {MaskKind::kEmptyRowN, kExtent - 1},
          {MaskKind::kPaddingN, kExtent}}) {
      const MaskKind kind = named;  // clang 14 captures no structured binding
      for (int64_t n = 0; n <= most; ++n) {
        const int64_t parameter = kind == MaskKind::kRandomN ? 50 : n;
        add(QKVET_OPTION_MASK, [=](Case& c) {
          c.mask = {kind, parameter, own};
        });
      }
    }
  for (const Mask& mask : kMasksOfTexts)
    for (const uint8_t own : {uint8_t{kOwnAll}, uint8_t{kOwnQ | kOwnK}})
      add(QKVET_OPTION_MASK, [=](Case& c) {
        c.mask = {mask.kind, mask.parameter, own};
      });
  for (const uint8_t own : kOwns)
    add(QKVET_OPTION_BIAS, [=](Case& c) {
      c.score_bias = make_recipe(RecipeKind::kLattice);
      c.score_bias_own = own;
    });
  add(QKVET_OPTION_ALIBI,
      [](Case& c) { c.slopes = make_recipe(RecipeKind::kLattice); });
  add(QKVET_OPTION_ALIBI_PER_MEMBER, [](Case& c) {
    c.slopes = make_recipe(RecipeKind::kLattice);
    c.member_slopes = true;
  });
  for (int64_t n = 1; n <= kExtent; ++n)
    for (const bool per_head : {false, true}) {
      add(QKVET_OPTION_KEY_LISTS, [=](Case& c) { c.listed = {n, per_head}; });
      add(QKVET_OPTION_KEY_LIST_LENGTHS, [=](Case& c) {
        c.listed = {n, per_head, /*lengths=*/true};
      });
    }
  // Of one block, whole or not, and of two.
  for (int64_t n = 1; n <= 2; ++n)
    add(QKVET_OPTION_KEY_LIST_BLOCKS, [=](Case& c) {
      c.listed = {n, false, c.listed.lengths, false, /*block=*/2};
    });
  for (const int64_t tokens : {int64_t{0}, int64_t{1}, int64_t{2}})
    add(QKVET_OPTION_SEGMENTS, [=](Case& c) {
      c.fields.segments = true;
      c.fields.tokens = tokens;
      c.fields.wide_segments = tokens == 1;
    });
  for (int64_t n = 1; n <= 2; ++n) {
    add(QKVET_OPTION_FULL_RANGES, [=](Case& c) {
      c.fields.ranges = n;
      c.fields.wide_ranges = n == 1;
    });
    add(QKVET_OPTION_CHUNK, [=](Case& c) { c.chunk = n; });
    add(QKVET_OPTION_TREE_MASK, [=](Case& c) {
      c.fields.tree = true;
      c.fields.children = n;
    });
  }
  add(QKVET_OPTION_SOFTCAP, [](Case& c) { c.softcap = 2; });
  add(QKVET_OPTION_SINK,
      [](Case& c) { c.sink = make_recipe(RecipeKind::kLattice); });
  // The second member has the length counted from the other end.
  const auto lengths = [](int64_t n, int64_t B) {
    std::vector<int64_t> out = {n};
    if (B > 1) out.push_back(kExtent - n);
    return out;
  };
  for (int64_t n = 0; n <= kExtent; ++n) {
    add(QKVET_OPTION_LENGTHS,
        [=](Case& c) { c.kv_len = lengths(n, c.shape.B); });
    add(QKVET_OPTION_LENGTHS,
        [=](Case& c) { c.q_len = lengths(n, c.shape.B); });
    for (int64_t m = 0; m <= kExtent; ++m)
      add(QKVET_OPTION_LENGTHS, [=](Case& c) {
        c.q_len = lengths(n, c.shape.B);
        c.kv_len = lengths(m, c.shape.B);
      });
    for (int64_t m = 0; m <= kExtent; ++m)
      add(QKVET_OPTION_PACKED, [=](Case& c) {
        const Shape& s = c.shape;
        c.cu_q = {0, std::min(n, s.Tq), s.Tq};
        c.cu_k = {0, std::min(m, s.Tk), s.Tk};
      });
  }
  // Two channels are one pair in either style.
  add(QKVET_OPTION_ROPE, [](Case& c) { c.rope = {RopeStyle::kHalf}; });
  add(QKVET_OPTION_ROPE, [](Case& c) { c.rope = {RopeStyle::kHalf, true}; });
  for (int layout = 1; layout < kLayoutCount; ++layout)
    add(kOptionLayout,
        [=](Case& c) { c.layout = static_cast<Layout>(layout); });
  for (int share = 1; share <= (kShareB | kShareH); ++share)
    add(kOptionShare, [=](Case& c) { c.share = static_cast<uint8_t>(share); });
  // Pages of one token, of some, and of more than there are.
  for (int64_t size = 1; size <= kExtent + 1; ++size)
    for (const PageOrder order : {PageOrder::kPermuted, PageOrder::kReverse})
      add(QKVET_OPTION_PAGED, [=](Case& c) {
        c.paging = {
            size, order,
            order == PageOrder::kReverse ? Unowned::kOthers : Unowned::kNan};
      });
  for (int64_t size = 1; size <= kExtent + 1; ++size)
    add(QKVET_OPTION_PAGED_CSR, [=](Case& c) {
      c.paging = {size, PageOrder::kReverse, Unowned::kOthers, PageTable::kCsr};
    });
  // One group of channels, and two: d is what they need.
  for (int64_t groups = 1; groups <= 2; ++groups)
    add(QKVET_OPTION_PAGED_CHANNEL_GROUPS, [=](Case& c) {
      if (c.paging.size == 0)
        c.paging = {2, PageOrder::kReverse, Unowned::kOthers, c.paging.table};
      const bool same_width = c.shape.dv == c.shape.d;
      c.paging.pool = PageForm::kGroups;
      c.shape.d = groups * channel_group_of(c);
      if (same_width) c.shape.dv = c.shape.d;
    });
  for (int64_t n = 0; n <= kExtent; ++n)
    add(QKVET_OPTION_PACKED_PAGES, [=](Case& c) {
      c.cu_q = {0, std::min<int64_t>(1, c.shape.Tq), c.shape.Tq};
      c.cu_k = {0, std::min(n, c.shape.Tk), c.shape.Tk};
      c.paging = {2, PageOrder::kReverse, Unowned::kOthers, c.paging.table,
                  c.paging.pool};
    });
  for (int64_t n = 1; n <= kExtent; ++n)
    add(QKVET_OPTION_APPEND, [=](Case& c) { c.append = n; });
  for (const auto extent : {&Shape::B, &Shape::Tq, &Shape::Tk})
    add(QKVET_OPTION_EMPTY_EXTENTS, [=](Case& c) { c.shape.*extent = 0; });
  add(QKVET_OPTION_VALUES_IN_KEYS, [](Case& c) {
    c.values_in_keys = true;
    c.v = {};
  });
  // Last: of lists that there are, or of one.
  add(QKVET_OPTION_INT32_LENGTHS, [=](Case& c) {
    if (!gives_lengths(c)) c.q_len = lengths(2, c.shape.B);
    c.int32_lengths = true;
  });
  return all;
}

SmallScope::SmallScope(const Scope& scope)
    : shapes_(plain_shapes()),
      settings_(all_settings()),
      dtype_(scope.dtypes.empty() ? StorageTypes() : scope.dtypes[0]),
      needs_scale_((scope.options & QKVET_OPTION_DEFAULT_SCALE) == 0),
      pages_only_(scope.pages_only),
      table_((scope.options & QKVET_OPTION_PAGED) != 0 ? PageTable::kBlocks
                                                       : PageTable::kCsr) {
  add_plain(scope);
  add_options(scope);
}

void SmallScope::add_plain(const Scope& scope) {
  for (size_t shape = 0; shape < shapes_.size(); ++shape)
    for (uint8_t causal = 0; causal < 3; ++causal)
      for (uint8_t data = 0; data < std::size(kData); ++data)
        add_if_declared(scope,
                        {static_cast<uint16_t>(shape), causal, data, -1, -1});
}

void SmallScope::add_options(const Scope& scope) {
  const uint64_t declared = allowed_by(scope);
  std::vector<std::pair<int16_t, int16_t>> choices;
  const auto count = static_cast<int16_t>(settings_.size());
  const auto at = [&](int16_t n) -> const Setting& {
    return settings_[static_cast<size_t>(n)];
  };
  for (int16_t first = 0; first < count; ++first) {
    if ((at(first).option & declared) == 0) continue;
    choices.emplace_back(first, int16_t{-1});
    for (auto second = static_cast<int16_t>(first + 1); second < count;
         ++second)
      if ((at(second).option & declared) != 0 &&
          at(first).option != at(second).option)
        choices.emplace_back(first, second);
  }
  for (size_t shape = 0; shape < shapes_.size(); ++shape) {
    if (!shows_options(shapes_[shape])) continue;
    for (const auto& [first, second] : choices)
      for (uint8_t causal = 0; causal < 3; ++causal)
        for (uint8_t data = 0; data < kDataWithOptions; ++data)
          add_if_declared(scope, {static_cast<uint16_t>(shape), causal, data,
                                  first, second});
  }
}

void SmallScope::add_if_declared(const Scope& scope, const Index& index) {
  const Case value = make(index);
  if (!invalid_reason(value).empty()) return;
  Case kept = value;
  keep_to_declared(scope, kept);
  if (kept == value) cases_.push_back(index);
}

Case SmallScope::make(const Index& index) const {
  Case value;
  store_as(dtype_, value);
  value.shape = shapes_[index.shape];
  value.causal = static_cast<Causal>(index.causal);
  if (needs_scale_) value.scale = 1.0f;
  const Data& data = kData[index.data];
  value.q = make_recipe(data.q);
  value.k = make_recipe(data.k);
  value.v = make_recipe(data.v);
  for (const int16_t setting : {index.first, index.second})
    if (setting >= 0) settings_[static_cast<size_t>(setting)].apply(value);
  if (pages_only_ && value.paging.size == 0) value.paging = {2, {}, {}, table_};
  return keep_allowed(
      std::move(value),
      kAllowAll | QKVET_OPTION_PACKED_PAGES | QKVET_OPTION_PAGED_CSR |
          QKVET_OPTION_PAGED_CHANNEL_GROUPS | QKVET_OPTION_INT32_LENGTHS |
          QKVET_OPTION_ALIBI_PER_MEMBER | QKVET_OPTION_KEY_LISTS |
          QKVET_OPTION_KEY_LIST_LENGTHS | QKVET_OPTION_KEY_LIST_BLOCKS |
          QKVET_OPTION_VALUES_IN_KEYS | kAllowFields |
          QKVET_OPTION_EMPTY_EXTENTS);
}

Case SmallScope::at(int64_t number) const {
  return make(cases_[static_cast<size_t>(number - 1)]);
}

}  // namespace qkvet::properties

// SPDX-License-Identifier: Apache-2.0
// Cases with some settings together; the rest is plain and small.
#include <algorithm>
#include <tuple>

#include "properties/cases/draw.h"
#include "properties/cases/pair_cases.h"
#include "properties/conventions/domain.h"

namespace qkvet::properties {
namespace {

// As a case of many keys of a plan, and twice that for many rows and keys.
constexpr int64_t kMostOfPair = int64_t{1} << 22;

// A tile of keys or less beyond the last class.
int64_t draw_in_class(Draw& draw, size_t value) {
  constexpr std::array<int64_t, 6> kLong = {301, 305, 320, 321, 385, 513};
  const auto [low, high] = extents_of_class(value);
  return high == INT64_MAX ? draw.of(kLong) : draw.range(low, high);
}

// Reduces extents that were not requested, until the case is as cheap as
// others.
void keep_cheap(Shape& s) {
  constexpr int64_t kShortest = 301;
  if (work_of(s) > kMostOfPair) {
    const int64_t group = s.group();
    s.Hkv = 1;
    s.H = std::min<int64_t>(group, 2);
  }
  if (work_of(s) > kMostOfPair) s.d = std::min(s.d, kVectorWidth);
  if (work_of(s) > kMostOfPair) s.dv = std::min(s.dv, s.d + 1);
  if (work_of(s) > kMostOfPair) s.B = std::min<int64_t>(s.B, 2);
  for (int64_t* extent : {&s.Tq, &s.Tk})
    if (work_of(s) > kMostOfPair) *extent = std::min(*extent, kShortest);
}

void put_width(Draw& draw, size_t value, Shape& s) {
  constexpr std::array<int64_t, 6> kVectors = {8, 8, 16, 24, 32, 64};
  constexpr std::array<int64_t, 6> kRests = {2, 4, 6, 12, 20, 34};
  const bool same = s.dv == s.d;
  s.d = value == kWidthOne       ? 1
        : value == kWidthVectors ? draw.of(kVectors)
                                 : draw.of(kRests) + draw.range(0, 1);
  if (same) s.dv = s.d;
}

void put_option(Draw& draw, uint64_t option, Case& value) {
  constexpr std::array<std::pair<int64_t, int64_t>, 5> kGroups = {
      {{2, 1}, {4, 2}, {3, 1}, {6, 2}, {8, 2}}};
  Shape& s = value.shape;
  switch (option) {
    case QKVET_OPTION_CAUSAL_TOP_LEFT:
      value.causal = Causal::kTopLeft;
      return;
    case QKVET_OPTION_CAUSAL_BOTTOM_RIGHT:
      value.causal = Causal::kBottomRight;
      return;
    case QKVET_OPTION_SCALE:
      while (!value.scale) draw_scale(draw, value);
      return;
    case QKVET_OPTION_DEFAULT_SCALE:
      value.scale.reset();
      return;
    case QKVET_OPTION_GROUPED_HEADS:
      std::tie(s.H, s.Hkv) = draw.of(kGroups);
      return;
    case QKVET_OPTION_VALUE_WIDTH:
      while (s.dv == s.d) s.dv = draw_extent(draw, SizeClass::kSmall);
      return;
    case QKVET_OPTION_CROSS_LENGTHS:
      if (s.Tq == s.Tk) s.Tq > 2 ? --s.Tq : ++s.Tk;
      return;
    default:
      break;
  }
  // The remaining bits are requested by laws: lse, weights.
  for (const uint64_t bit : single_options(option))
    draw_option(draw, bit, value);
}

void put_storage(const Scope& scope, Draw& draw, size_t kv, Case& value) {
  std::vector<StorageTypes> fitting;
  for (const StorageTypes& types : scope.dtypes)
    if (types.kv == static_cast<Dtype>(kv)) fitting.push_back(types);
  if (!fitting.empty())
    store_as(fitting[static_cast<size_t>(
                 draw.range(0, static_cast<int64_t>(fitting.size()) - 1))],
             value);
}

void put_setting(Draw& draw, const Scope& scope, const SettingRow& row,
                 Case& value) {
  Shape& s = value.shape;
  switch (row.kind) {
    case SettingKind::kStorage:
      return put_storage(scope, draw, row.value, value);
    case SettingKind::kRows:
      s.Tq = draw_in_class(draw, row.value);
      return;
    case SettingKind::kKeys:
      s.Tk = draw_in_class(draw, row.value);
      return;
    case SettingKind::kWidth:
      return put_width(draw, row.value, s);
    case SettingKind::kMembers:
      s.B = row.value == 0 ? 1 : draw.range(2, 3);
      return;
    case SettingKind::kOption:
      return put_option(draw, row.option, value);
    case SettingKind::kLayout:
      value.layout = layout_of_setting(row.value);
      return;
    case SettingKind::kData:
      return;  // drawn after all that it depends on
  }
}

// Without any option but these.
Case plain_case(Draw& draw, const Law& law, const Scope& scope) {
  Scope small = scope;
  small.largest = SizeClass::kSmall;
  Case value;
  draw_dtype(draw, scope, value);
  value.shape = draw_shape(draw, law, small, /*backward=*/false);
  if (law.domain.causal || draw.chance(40))
    value.causal = draw.chance(50) ? Causal::kTopLeft : Causal::kBottomRight;
  draw_scale(draw, value);
  return value;
}

bool has_kind(const std::vector<size_t>& settings, SettingKind kind) {
  return std::any_of(settings.begin(), settings.end(), [kind](size_t one) {
    return setting_rows()[one].kind == kind;
  });
}

// One buffer holds q, k and v, with as many rows as keys; members may differ.
void fit_packed(Draw& draw, const std::vector<size_t>& wanted, Case& value) {
  const bool rows = has_kind(wanted, SettingKind::kRows);
  const bool crossed =
      std::any_of(wanted.begin(), wanted.end(), [](size_t one) {
        return setting_rows()[one].option == QKVET_OPTION_CROSS_LENGTHS;
      });
  Shape& s = value.shape;
  if (rows)
    s.Tk = s.Tq;
  else
    s.Tq = s.Tk;
  s.dv = s.d;
  if (crossed && value.cu_q.empty())
    draw_option(draw, QKVET_OPTION_PACKED, value);
}

}  // namespace

bool may_have(const Scope& scope, const SettingRow& row) {
  const auto stored = [&](const StorageTypes& types) {
    return types.kv == static_cast<Dtype>(row.value);
  };
  switch (row.kind) {
    case SettingKind::kOption:
      // With an empty extent nothing is computed, so no pair is met.
      return (scope.options & row.option) != 0 &&
             row.option != QKVET_OPTION_EMPTY_EXTENTS;
    case SettingKind::kRows:
    case SettingKind::kKeys:
      return extents_of_class(row.value).first <= largest_extent(scope.largest);
    case SettingKind::kStorage:
      return std::any_of(scope.dtypes.begin(), scope.dtypes.end(), stored);
    default:
      return true;
  }
}

std::optional<Case> draw_with(Draw& draw, const Law& law, const Scope& scope,
                              std::vector<size_t> wanted) {
  const std::vector<SettingRow>& rows = setting_rows();
  std::stable_sort(wanted.begin(), wanted.end(), [&rows](size_t a, size_t b) {
    return rows[a].kind < rows[b].kind;
  });
  Case value = plain_case(draw, law, scope);
  for (const size_t setting : wanted)
    put_setting(draw, scope, rows[setting], value);
  if (value.layout == Layout::kPacked) fit_packed(draw, wanted, value);
  if (!has_kind(wanted, SettingKind::kMembers)) fit_far(draw, value);
  const uint64_t about = about_in(law.domain) & allowed_by(scope);
  if (about != 0 && (options_of(value) & about) == 0) {
    const std::vector<uint64_t> bits = single_options(about);
    draw_option(draw,
                bits[static_cast<size_t>(
                    draw.range(0, static_cast<int64_t>(bits.size()) - 1))],
                value);
  }
  finish_options(draw, law, scope, value);
  keep_cheap(value.shape);
  keep_to_declared(scope, value);
  apply_pins(scope, value);
  const auto presets = data_presets();
  const bool of_preset = !wanted.empty() &&
                         rows[wanted.back()].kind == SettingKind::kData &&
                         rows[wanted.back()].value < presets.size();
  if (of_preset)
    draw_data_of(draw, presets[rows[wanted.back()].value], value);
  else
    draw_data(draw, value);
  return declared_case(law, scope, constrained(law, std::move(value)));
}

}  // namespace qkvet::properties

// SPDX-License-Identifier: Apache-2.0
#include "properties/cases/pair_settings.h"

#include <algorithm>

#include "core/base/dtype.h"
#include "core/capability/option_table.h"

namespace qkvet::properties {
namespace {

// Classes of extents, as plans draw them.
constexpr std::array<int64_t, 5> kUpTo = {1, 24, 80, 300, INT64_MAX};
constexpr std::array<const char*, 5> kUpToNames = {
    "1", "2 to 24", "25 to 80", "81 to 300", "more than 300"};
size_t class_of(int64_t extent) {
  return static_cast<size_t>(
      std::find_if(kUpTo.begin(), kUpTo.end(),
                   [extent](int64_t most) { return extent <= most; }) -
      kUpTo.begin());
}

constexpr std::array<const char*, 3> kWidths = {"1", "of whole vectors",
                                                "with a rest"};
size_t width_of(int64_t d) {
  return d == 1                  ? kWidthOne
         : d % kVectorWidth == 0 ? kWidthVectors
                                 : kWidthRest;
}

constexpr std::array<const char*, 2> kMemberNames = {"one", "several"};

struct LayoutName {
  Layout layout;
  const char* name;
};
constexpr std::array<LayoutName, kLayoutCount> kLayouts = {
    {{Layout::kBhtd, "[B, H, T, d]"},
     {Layout::kBthd, "[B, T, H, d]"},
     {Layout::kPacked, "packed q, k and v"},
     {Layout::kGaps, "gaps between rows"},
     {Layout::kApart, "gaps between channels"},
     {Layout::kFar, "members far apart"},
     {Layout::kTurned, "[B, H, d, T]"}}};
size_t layout_number(Layout layout) {
  return static_cast<size_t>(std::find_if(kLayouts.begin(), kLayouts.end(),
                                          [layout](const LayoutName& one) {
                                            return one.layout == layout;
                                          }) -
                             kLayouts.begin());
}

// q, k and v are drawn together (data_presets()). Data that a law puts in
// instead is the last one here.
size_t data_of(const Case& value) {
  const auto presets = data_presets();
  return static_cast<size_t>(std::find_if(presets.begin(), presets.end(),
                                          [&value](const DataPreset& preset) {
                                            return preset.q == value.q.kind &&
                                                   preset.k == value.k.kind &&
                                                   preset.v == value.v.kind;
                                          }) -
                             presets.begin());
}

std::string data_name(size_t n) {
  return n < data_presets().size() ? std::string(data_presets()[n].name)
                                   : "of a law";
}

struct KindRow {
  SettingKind kind;
  const char* name;
  size_t values;
  std::string (*value_name)(size_t);
};
const std::array<KindRow, 7> kKindRows = {{
    {SettingKind::kRows, "rows", kUpTo.size(),
     [](size_t n) { return std::string(kUpToNames[n]); }},
    {SettingKind::kKeys, "keys", kUpTo.size(),
     [](size_t n) { return std::string(kUpToNames[n]); }},
    {SettingKind::kWidth, "d", kWidths.size(),
     [](size_t n) { return std::string(kWidths[n]); }},
    {SettingKind::kMembers, "members", kMemberNames.size(),
     [](size_t n) { return std::string(kMemberNames[n]); }},
    {SettingKind::kStorage, "storage of k and v", kDtypeCount,
     [](size_t n) { return std::string(dtype_name(static_cast<Dtype>(n))); }},
    {SettingKind::kLayout, "layout", kLayouts.size(),
     [](size_t n) { return std::string(kLayouts[n].name); }},
    {SettingKind::kData, "data", data_presets().size() + 1, data_name},
}};

// Two that exclude each other are of one kind, too.
std::string option_name(const OptionRow& row) {
  switch (row.option) {
    case QKVET_OPTION_CAUSAL_TOP_LEFT:
      return "causal: from the top left";
    case QKVET_OPTION_CAUSAL_BOTTOM_RIGHT:
      return "causal: from the bottom right";
    case QKVET_OPTION_SCALE:
      return "scale: given";
    case QKVET_OPTION_DEFAULT_SCALE:
      return "scale: default";
    default:
      return std::string(row.many);
  }
}

std::vector<SettingRow> make_rows() {
  std::vector<SettingRow> out;
  for (const OptionRow& row : option_rows())
    out.push_back({SettingKind::kOption, 0, row.option, option_name(row)});
  for (const KindRow& kind : kKindRows)
    for (size_t n = 0; n < kind.values; ++n)
      out.push_back({kind.kind, n, 0,
                     std::string(kind.name) + ": " + kind.value_name(n)});
  return out;
}

}  // namespace

const std::vector<SettingRow>& setting_rows() {
  static const std::vector<SettingRow> rows = make_rows();
  return rows;
}

uint32_t number_in_draws(size_t setting) {
  // The number of options when cases were first drawn this way.
  constexpr size_t kFirstOptions = 33;
  // A layout that was added later is placed after the others, so that it moves
  // none.
  static const size_t later = [] {
    const auto& rows = setting_rows();
    const auto found =
        std::find_if(rows.begin(), rows.end(), [](const SettingRow& row) {
          return row.kind == SettingKind::kLayout &&
                 layout_of_setting(row.value) == Layout::kTurned;
        });
    return static_cast<size_t>(found - rows.begin());
  }();
  const size_t options = option_rows().size();
  size_t number = setting;
  if (setting == later) return static_cast<uint32_t>(2 * kMostSettings);
  if (setting >= options)
    number = setting - options + kFirstOptions - (setting > later ? 1 : 0);
  else if (setting >= kFirstOptions)
    number = kMostSettings + setting;
  return static_cast<uint32_t>(number);
}

std::string_view kind_of(std::string_view name) {
  return name.substr(0, name.find(": "));
}

bool may_meet_by_kind(size_t a, size_t b) {
  return a != b && !same_kind(setting_rows()[a].name, setting_rows()[b].name);
}

std::pair<int64_t, int64_t> extents_of_class(size_t value) {
  return {value == 0 ? 1 : kUpTo[value - 1] + 1, kUpTo[value]};
}

Layout layout_of_setting(size_t value) { return kLayouts[value].layout; }

SettingSet settings_of(const Case& value, const KernelCall& call) {
  SettingSet has;
  for (size_t n = 0; n < option_rows().size(); ++n)
    has[n] = option_rows()[n].in(call);
  size_t first = option_rows().size();
  size_t kind = 0;
  const auto set = [&](size_t number) {
    has[first + number] = true;
    first += kKindRows[kind++].values;
  };
  set(class_of(call.shape.Tq));
  set(class_of(call.shape.Tk));
  set(width_of(call.shape.d));
  set(call.shape.B > 1 || call.members > 1 ? 1 : 0);
  set(static_cast<size_t>(call.kv_dtype));
  set(layout_number(call.layout));
  set(data_of(value));
  return has;
}

}  // namespace qkvet::properties

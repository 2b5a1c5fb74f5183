// SPDX-License-Identifier: Apache-2.0
#include "properties/cases/pair_coverage.h"

#include <algorithm>

#include "core/base/dtype.h"
#include "core/capability/option_table.h"

namespace qkvet::properties {
namespace {

// Settings of one kind, of which a call has one: they have numbers in a row.
enum Kind { kRows, kKeys, kWidth, kMembers, kStorage, kLayouts, kData, kKinds };

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
  constexpr int64_t kVector = 8;
  return d == 1 ? 0 : d % kVector == 0 ? 1 : 2;
}

constexpr std::array<const char*, 2> kMemberNames = {"one", "several"};

constexpr std::array<const char*, 5> kLayoutNames = {
    "[B, H, T, d]", "[B, T, H, d]", "packed q, k and v", "gaps between rows",
    "gaps between channels"};
size_t layout_of(Layout layout) {
  switch (layout) {
    case Layout::kBhtd:
      return 0;
    case Layout::kBthd:
      return 1;
    case Layout::kPacked:
      return 2;
    case Layout::kGaps:
      return 3;
    case Layout::kApart:
      return 4;
  }
  return 0;
}

// q, k and v are drawn together (data_presets()); laws put other data in their
// place, which is the last one here.
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
  const char* name;
  size_t values;
  std::string (*value_name)(size_t);
};
const std::array<KindRow, kKinds> kKindRows = {{
    {"rows", kUpTo.size(), [](size_t n) { return std::string(kUpToNames[n]); }},
    {"keys", kUpTo.size(), [](size_t n) { return std::string(kUpToNames[n]); }},
    {"d", kWidths.size(), [](size_t n) { return std::string(kWidths[n]); }},
    {"members", 2, [](size_t n) { return std::string(kMemberNames[n]); }},
    {"storage of k and v", kDtypeCount,
     [](size_t n) { return std::string(dtype_name(static_cast<Dtype>(n))); }},
    {"layout", kLayoutNames.size(),
     [](size_t n) { return std::string(kLayoutNames[n]); }},
    {"data", data_presets().size() + 1, data_name},
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

std::vector<std::string> all_names() {
  std::vector<std::string> out;
  for (const OptionRow& row : option_rows()) out.push_back(option_name(row));
  for (const KindRow& kind : kKindRows)
    for (size_t n = 0; n < kind.values; ++n)
      out.push_back(std::string(kind.name) + ": " + kind.value_name(n));
  return out;
}

std::string_view kind_of(std::string_view setting) {
  return setting.substr(0, setting.find(": "));
}

int kinds_in(const std::pair<std::string, std::string>& pair) {
  return (kind_of(pair.first) != pair.first) +
         (kind_of(pair.second) != pair.second);
}

}  // namespace

bool MetPairs::may_meet(size_t a, size_t b) const {
  return a != b && kind_of(settings[a]) != kind_of(settings[b]);
}

int64_t MetPairs::possible() const {
  int64_t pairs = 0;
  for (size_t a = 0; a < settings.size(); ++a)
    for (size_t b = a + 1; b < settings.size(); ++b) pairs += may_meet(a, b);
  return pairs;
}

int64_t MetPairs::seen() const {
  return possible() - static_cast<int64_t>(never().size());
}

std::vector<std::pair<std::string, std::string>> MetPairs::never() const {
  std::vector<std::pair<std::string, std::string>> out;
  for (size_t a = 0; a < settings.size(); ++a)
    for (size_t b = a + 1; b < settings.size(); ++b)
      if (may_meet(a, b) && !met[a][b])
        out.emplace_back(settings[a], settings[b]);
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& one, const auto& two) {
                     return kinds_in(one) < kinds_in(two);
                   });
  return out;
}

void MetPairs::add(const MetPairs& other) {
  std::vector<size_t> at;  // of the other's settings, here
  for (const std::string& setting : other.settings) {
    const auto found = std::find(settings.begin(), settings.end(), setting);
    at.push_back(static_cast<size_t>(found - settings.begin()));
    if (found != settings.end()) continue;
    settings.push_back(setting);
    for (std::vector<bool>& row : met) row.push_back(false);
    met.emplace_back(settings.size(), false);
  }
  for (size_t a = 0; a < at.size(); ++a)
    for (size_t b = 0; b < at.size(); ++b)
      if (other.met[a][b]) met[at[a]][at[b]] = true;
}

void PairCoverage::count(const Case& value, const KernelCall& call) {
  std::bitset<kMost> has;
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
  set(layout_of(call.layout));
  set(data_of(value));
  for (size_t n = 0; n < first; ++n)
    if (has[n]) with_[n] |= has;
}

void PairCoverage::add(const PairCoverage& other) {
  for (size_t n = 0; n < kMost; ++n) with_[n] |= other.with_[n];
}

MetPairs PairCoverage::met() const {
  const std::vector<std::string> names = all_names();
  std::vector<size_t> seen;
  for (size_t n = 0; n < names.size(); ++n)
    if (with_[n][n]) seen.push_back(n);
  MetPairs out;
  for (const size_t a : seen) {
    out.settings.push_back(names[a]);
    std::vector<bool>& row = out.met.emplace_back();
    for (const size_t b : seen) row.push_back(with_[a][b]);
  }
  return out;
}

}  // namespace qkvet::properties

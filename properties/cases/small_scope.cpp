// SPDX-License-Identifier: Apache-2.0
#include "properties/cases/small_scope.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "properties/cases/drawn_options.h"
#include "properties/conventions/domain.h"

namespace qkvet::properties {
namespace {

constexpr int64_t kHeads = 6;

// Recipes of q, k and v. Scores and sums are exact: for a wrong index the bound
// is only a few roundings.
struct Data {
  RecipeKind q, k, v;
};
constexpr Data kData[] = {
    {RecipeKind::kLattice, RecipeKind::kLattice, RecipeKind::kLattice},
    {RecipeKind::kZero, RecipeKind::kLattice, RecipeKind::kCount},
    {RecipeKind::kLattice, RecipeKind::kLattice, RecipeKind::kOnehotN}};
// With options, the first two kinds of data are enough.
constexpr uint8_t kDataWithOptions = 2;

std::vector<Shape> plain_shapes() {
  std::vector<Shape> shapes;
  for (int64_t B = 1; B <= kSmallExtent; ++B)
    for (int64_t H = 1; H <= kHeads; ++H)
      for (int64_t Hkv = 1; Hkv <= H; ++Hkv)
        for (int64_t Tq = 1; H % Hkv == 0 && Tq <= kSmallExtent; ++Tq)
          for (int64_t Tk = 1; Tk <= kSmallExtent; ++Tk)
            for (int64_t d = 1; d <= kSmallExtent; ++d)
              for (int64_t dv = 1; dv <= kSmallExtent; ++dv)
                shapes.push_back({B, H, Hkv, Tq, Tk, d, dv});
  return shapes;
}

bool shows_options(const Shape& s) {
  return s.B <= 2 && s.H <= 2 && s.d == 2 && s.dv == 2;
}

// "a{,b}" is a and ab.
std::vector<std::string> expanded(const std::string& text) {
  const size_t open = text.find('{'), close = text.find('}');
  if (open == std::string::npos) return {text};
  std::vector<std::string> all;
  std::istringstream parts(text.substr(open + 1, close - open - 1) + ",");
  for (std::string part; std::getline(parts, part, ',');)
    for (std::string& whole :
         expanded(text.substr(0, open) + part + text.substr(close + 1)))
      all.push_back(std::move(whole));
  return all;
}

// Tokens of options, as a case has them, with + between.
OptionSetting read(const std::string& setting) {
  std::vector<std::string> tokens;
  std::istringstream parts(setting);
  for (std::string token; std::getline(parts, token, '+');)
    tokens.push_back(std::move(token));
  return [tokens](Case& c) {
    for (const std::string_view token : tokens) {
      const size_t sign = token.find('=');
      find_option(token.substr(0, sign))
          ->read(token.substr(sign + 1), token, c);
    }
  };
}

}  // namespace

const char* SmallScope::text() {
  return "B, Tq, Tk, d, dv up to 3, heads up to 6 with every group, every "
         "causal rule; every option but dropout alone and in pairs, at B and H "
         "up "
         "to 2";
}

std::vector<SmallScope::Setting> SmallScope::all_settings() {
  std::vector<Setting> all;
  for (const DrawnOption& row : drawn_options()) {
    const auto add = [&](OptionSetting apply) {
      all.push_back({row.option, std::move(apply)});
    };
    std::istringstream settings(row.settings);
    for (std::string text; settings >> text;)
      for (const std::string& setting : expanded(text)) add(read(setting));
    if (row.more_settings != nullptr) row.more_settings(add);
  }
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
  return keep_allowed(std::move(value), kAllCaseOptions);
}

Case SmallScope::at(int64_t number) const {
  return make(cases_[static_cast<size_t>(number - 1)]);
}

}  // namespace qkvet::properties

// SPDX-License-Identifier: Apache-2.0
// The first call that a kernel answers correctly, and the storage types,
// layouts and extents with which it does so, too.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "cli/identify/parts_found.h"
#include "core/base/dtype.h"
#include "properties/cases/scope.h"
#include "properties/judging/compare.h"
#include "properties/judging/law.h"
#include "report/lines.h"

namespace qkvet::cli {
namespace {

std::vector<StorageTypes> all_storage(const Asker& asker) {
  std::vector<StorageTypes> all;
  const qkvet_capabilities& can = asker.info().capabilities;
  for (int n = 0; n < can.dtype_count; ++n)
    all.push_back({*dtype_from_abi(can.dtypes[n].q),
                   *dtype_from_abi(can.dtypes[n].kv),
                   *dtype_from_abi(can.dtypes[n].o)});
  return all;
}

// Every form of the plainest call of these extents, the plainest first.
std::vector<Case> first_cases(const Asker& asker, int64_t T, int64_t d) {
  std::vector<Case> cases;
  for (const StorageTypes& storage : all_storage(asker))
    for (const Layout layout : {Layout::kBhtd, Layout::kBthd, Layout::kPacked})
      for (const Causal causal : {Causal::kNone, Causal::kBottomRight})
        for (const bool own_scale : {true, false}) {
          Case value;
          value.shape = {};
          value.shape.B = 1;
          value.shape.H = value.shape.Hkv = 2;
          value.shape.Tq = value.shape.Tk = T;
          value.shape.d = value.shape.dv = d;
          store_as(storage, value);
          value.layout = layout;
          value.causal = causal;
          if (!own_scale) value.scale = static_cast<float>(1 / std::sqrt(d));
          cases.push_back(value);
        }
  return cases;
}

// Adds a field with its evidence.
void add(Identified& found, const char* field, std::string value,
         std::string evidence) {
  found.fields.push_back(
      {Part::kCapabilities, field, std::move(value), std::move(evidence)});
}

std::string agrees_text(const Case& value) {
  return "agrees: " + to_string(value);
}

// Values that a rule of min, max and multiple allows, among those asked.
struct Rule {
  int64_t min = 0, max = 0, multiple = 0;
  bool allows(int64_t x) const {
    return x >= min && (max == 0 || x <= max) &&
           (multiple == 0 || x % multiple == 0);
  }
};

Rule rule_of(const std::vector<int64_t>& taken, int64_t largest) {
  Rule rule;
  int64_t common = 0;
  for (const int64_t x : taken) common = std::gcd(common, x);
  if (common > 1) rule.multiple = common;
  if (taken.front() > std::max<int64_t>(common, 1)) rule.min = taken.front();
  if (taken.back() < largest) rule.max = taken.back();
  return rule;
}

using Set = void (*)(Case&, int64_t);

void find_extent(Asker& asker, const char* field,
                 const std::vector<int64_t>& extents, Set set,
                 Identified& found) {
  std::vector<int64_t> taken, refused, wrong, died;
  std::string said, how;
  for (const int64_t x : extents) {
    Case value = asker.base;
    set(value, x);
    if (!invalid_reason(value).empty()) continue;
    const Reply reply = asker.judged(value);
    std::vector<int64_t>& of = reply.agrees()                       ? taken
                               : reply.answered == Answered::kWrong ? wrong
                               : reply.answered == Answered::kDied  ? died
                                                                    : refused;
    of.push_back(x);
    if (reply.answered == Answered::kRefused && said.empty()) said = reply.said;
    if (reply.answered == Answered::kWrong && how.empty())
      how = reply.said + ": " + to_string(value);
  }
  const auto numbers = [](const std::vector<int64_t>& list) {
    std::vector<std::string> words;
    for (const int64_t x : list) words.push_back(std::to_string(x));
    return joined(words, " ");
  };
  if (!wrong.empty())
    found.rest.push_back({NotFound::Why::kWrong,
                          fmt::format("{} = {}", field, numbers(wrong)), how});
  if (!died.empty())
    found.rest.push_back({NotFound::Why::kWrong,
                          fmt::format("{} = {}", field, numbers(died)),
                          "the kernel died"});
  if (taken.empty() || taken.size() == extents.size()) return;
  const Rule rule = rule_of(taken, extents.back());
  const auto is_allowed = [&](int64_t x) { return rule.allows(x); };
  const bool fits = std::none_of(refused.begin(), refused.end(), is_allowed) &&
                    std::none_of(wrong.begin(), wrong.end(), is_allowed) &&
                    std::none_of(died.begin(), died.end(), is_allowed);
  std::string words;
  if (rule.min > 0) words += fmt::format(" min {}", rule.min);
  if (rule.max > 0) words += fmt::format(" max {}", rule.max);
  if (rule.multiple > 0) words += fmt::format(" multiple {}", rule.multiple);
  const std::string evidence = fmt::format(
      "agrees at {}{}", numbers(taken),
      refused.empty()
          ? ""
          : fmt::format("; refused at {} ({})", numbers(refused), said));
  if (words.empty()) {
    if (!refused.empty())
      found.rest.push_back({NotFound::Why::kNotTold, field,
                            evidence + ": no rule of min, max and multiple"});
    return;
  }
  add(found, field, words.substr(1),
      evidence +
          (fits ? ""
                : "; no rule fits all of that, supports() decides the rest"));
}

}  // namespace

bool find_base(Asker& asker, Identified& found) {
  constexpr std::pair<int64_t, int64_t> kExtents[] = {
      {5, 8}, {16, 64}, {64, 64}, {128, 128}};  // T, d
  std::string refused, died, wrong;
  for (const auto& [T, d] : kExtents) {
    for (const Case& value : first_cases(asker, T, d)) {
      const Reply reply = asker.judged(value);
      if (reply.outcome.status == CallStatus::kUnavailable) {
        found.error = reply.said;
        return false;
      }
      // Agreement by coarse arithmetic alone can have another explanation.
      const std::string instead =
          reply.done() && !reply.is_sure() && (reply.agrees() || wrong.empty())
              ? asker.computed_instead(reply, value)
              : "";
      if (reply.agrees() && instead.empty()) {
        asker.base = value;
        return found.is_attention = true;
      }
      std::string& said = reply.done()                        ? wrong
                          : reply.answered == Answered::kDied ? died
                                                              : refused;
      if (said.empty())
        said = (instead.empty() ? reply.said : "it computes " + instead) +
               " (" + to_string(value) + ")";
    }
    // Larger extents are for kernels that take no smaller ones.
    if (!wrong.empty()) break;
  }
  found.died = wrong.empty() && !died.empty();
  found.not_attention = !wrong.empty()  ? wrong
                        : !died.empty() ? "it died: " + died
                                        : "every call is refused: " + refused;
  if (wrong.empty() && died.empty()) found.error = found.not_attention;
  return false;
}

void find_storage(Asker& asker, Identified& found) {
  std::string refused;
  const auto ask = [&](const char* field, const std::string& word,
                       const Case& value) {
    const Reply reply = asker.judged(value);
    if (reply.agrees()) return add(found, field, word, agrees_text(value));
    const bool is_refused = reply.answered == Answered::kRefused;
    found.rest.push_back(
        {is_refused ? NotFound::Why::kRefused : NotFound::Why::kWrong,
         fmt::format("{} {}", field, word),
         is_refused ? reply.said : reply.said + ": " + to_string(value)});
  };
  for (const StorageTypes& storage : all_storage(asker)) {
    Case value = asker.base;
    store_as(storage, value);
    ask("dtypes", slashed(storage), value);
  }
  constexpr std::pair<Layout, const char*> kLayouts[] = {
      {Layout::kBhtd, "bhtd"},
      {Layout::kBthd, "bthd"},
      {Layout::kPacked, "packed_qkv"},
      {Layout::kGaps, "any_strides"}};
  for (const auto& [layout, word] : kLayouts) {
    Case value = asker.base;
    value.layout = layout;
    // Any strides includes gaps between channels.
    if (layout == Layout::kGaps) {
      Case apart = value;
      apart.layout = Layout::kApart;
      if (!asker.judged(apart).agrees()) value = apart;
    }
    ask("layouts", word, value);
  }
}

void find_extents(Asker& asker, Identified& found) {
  const std::vector<int64_t> widths = {1,  2,  3,  4,  5,  6,  8,   12, 16,
                                       24, 32, 40, 48, 64, 80, 128, 256};
  find_extent(
      asker, "d", widths,
      [](Case& c, int64_t x) { c.shape.d = c.shape.dv = x; }, found);
  const std::vector<int64_t> lengths = {1,  2,  3,  4,  5,  7,  8,   15, 16,
                                        17, 31, 32, 33, 64, 65, 128, 300};
  find_extent(
      asker, "tk", lengths,
      [](Case& c, int64_t x) { c.shape.Tq = c.shape.Tk = x; }, found);
}

void find_flags(Asker& asker, Identified& found) {
  Case value = asker.base;
  value.shape.H = value.shape.Hkv = 3;
  int same = 0;
  constexpr int kTimes = 8;
  const Reply first = asker.ask(value);
  for (int n = 0; n < kTimes; ++n)
    if (asker.ask(value).outcome.o == first.outcome.o) ++same;
  if (same == kTimes) return;
  add(found, "flags", "nondeterministic",
      fmt::format("the same call {} times: the bits of the first {} times",
                  kTimes, same));
}

}  // namespace qkvet::cli

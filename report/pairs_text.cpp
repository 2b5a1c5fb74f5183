// SPDX-License-Identifier: Apache-2.0
#include "report/pairs_text.h"

#include <fmt/core.h>

#include <algorithm>

#include "report/lines.h"

namespace qkvet::report {
namespace {

using NamedPairs = std::vector<std::pair<std::string, std::string>>;

// "; never: windows with pages, and 206 more"
std::string few_of(const char* lead, const NamedPairs& pairs) {
  std::string out;
  constexpr size_t kShown = 3;
  for (size_t n = 0; n < std::min(pairs.size(), kShown); ++n)
    out += fmt::format("{}{} with {}", n == 0 ? lead : ", ", pairs[n].first,
                       pairs[n].second);
  if (pairs.size() > kShown)
    out += fmt::format(", and {} more",
                       grouped(std::ssize(pairs) - int64_t{kShown}));
  return out;
}

}  // namespace

std::string pairs_met_text(const properties::MetPairs& pairs) {
  std::string out = fmt::format(
      "{} of {} {}pairs of {} settings met in a call", grouped(pairs.seen()),
      grouped(pairs.possible()), pairs.apart.empty() ? "" : "possible ",
      pairs.settings.size());
  if (pairs.added > 0)
    out += fmt::format(", {} of them in added cases", grouped(pairs.added));
  if (pairs.triples)
    out +=
        fmt::format("; and {} of {} possible triples, whose pairs all met",
                    grouped(*pairs.triples), grouped(pairs.possible_triples()));
  if (pairs.triples && pairs.added_triples > 0)
    out += fmt::format(", {} of them in added cases",
                       grouped(pairs.added_triples));
  return out;
}

std::string pairs_text(const properties::MetPairs& pairs) {
  if (pairs.settings.empty()) return "";
  return pairs_met_text(pairs) + few_of("; never: ", pairs.never()) +
         few_of("; in no case of these laws: ", pairs.cannot());
}

}  // namespace qkvet::report

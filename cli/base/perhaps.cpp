// SPDX-License-Identifier: Apache-2.0
#include "cli/base/perhaps.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

namespace qkvet::cli {
namespace {

// Letters to insert, delete or change.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j)
      diagonal = std::exchange(row[j + 1],
                               std::min({row[j] + 1, row[j + 1] + 1,
                                         diagonal + (a[i] == b[j] ? 0 : 1)}));
  }
  return row.back();
}

bool holds(const std::string& text, const std::string& part) {
  return part.size() > 2 && text.find(part) != std::string::npos;
}

}  // namespace

std::string perhaps(const std::string& word,
                    const std::vector<std::string>& names) {
  constexpr size_t kMost = 4, kSlips = 3;
  std::string out;
  size_t found = 0;
  for (const std::string& name : names) {
    const bool is_near =
        holds(name, word) || holds(word, name) ||
        distance(word, name) <= std::min(kSlips, word.size() / 2);
    if (!is_near) continue;
    out += (found == 0 ? "; perhaps " : ", ") + name;
    if (++found == kMost) break;
  }
  return out;
}

}  // namespace qkvet::cli

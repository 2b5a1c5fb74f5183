// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/where/nearest.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <set>
#include <sstream>
#include <tuple>

namespace qkvet::diagnosis {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');)
    if (!word.starts_with("seed=")) words.push_back(word);
  std::sort(words.begin(), words.end());
  return words;
}

// The distance between the extents of two cases.
int64_t distance(const Sample& a, const Sample& b) {
  int64_t sum = 0;
  for (size_t i = 0; i < vocabulary().size(); ++i)
    if (vocabulary()[i].kind == Term::Kind::kNumber)
      sum += std::abs(a.values[i] - b.values[i]);
  return sum;
}

// Whether they are about the same: "Tk36" and "Tk37", or one of them missing.
bool are_of_one(const std::vector<std::string>& a,
                const std::vector<std::string>& b) {
  if (a.empty() || b.empty()) return true;
  const auto keys = [](const std::vector<std::string>& words) {
    std::set<std::string> out;
    for (const std::string& word : words)
      out.insert(word.substr(0, word.find_first_of("=0123456789")));
    return out;
  };
  return keys(a) == keys(b);
}

std::string side_text(const std::vector<std::string>& words,
                      const std::vector<std::string>& others) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ",") + word;
  if (!out.empty()) return out;
  for (const std::string& word : others)
    out += (out.empty() ? "without " : ",") + word;
  return out.empty() ? "another seed" : out;
}

}  // namespace

void find_nearest(const std::vector<std::string>& texts,
                  const std::vector<Sample>& samples, FailsWhere& out) {
  std::vector<std::vector<std::string>> words;
  for (const std::string& text : texts) words.push_back(words_of(text));
  std::tuple<size_t, int64_t, size_t> least(~size_t{0}, 0, 0);
  for (size_t p = 0; p < texts.size(); ++p)
    for (size_t f = 0; f < texts.size(); ++f) {
      if (samples[p].failed || !samples[f].failed) continue;
      if (out.hypothesis.predicts_failure(samples[p].values) ||
          !out.hypothesis.predicts_failure(samples[f].values))
        continue;
      std::vector<std::string> passing, failing;
      std::set_difference(words[p].begin(), words[p].end(), words[f].begin(),
                          words[f].end(), std::back_inserter(passing));
      std::set_difference(words[f].begin(), words[f].end(), words[p].begin(),
                          words[p].end(), std::back_inserter(failing));
      const std::tuple<size_t, int64_t, size_t> apart(
          std::max(passing.size(), failing.size()),
          distance(samples[p], samples[f]), texts[p].size() + texts[f].size());
      if (apart >= least) continue;
      least = apart;
      out.nearest_pass = texts[p];
      out.nearest_failure = texts[f];
      constexpr size_t kToBeRead = 2;
      out.difference =
          std::get<0>(apart) > kToBeRead || !are_of_one(passing, failing)
              ? ""
              : side_text(passing, failing) + " passes, " +
                    side_text(failing, passing) + " fails";
    }
}

}  // namespace qkvet::diagnosis

// SPDX-License-Identifier: Apache-2.0
#include "cli/identify/sum_order.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <utility>

#include "qkvet/kernel.h"

namespace qkvet::cli {
namespace {

struct Node {
  int term = -1;           // of a leaf
  std::vector<Node> from;  // otherwise, the operands
};

using Terms = std::vector<Node>;

std::vector<int> terms_below(const Node& node) {
  if (node.term >= 0) return {node.term};
  std::vector<int> all;
  for (const Node& one : node.from) {
    const std::vector<int> below = terms_below(one);
    all.insert(all.end(), below.begin(), below.end());
  }
  return all;
}

void fill(const Node& node, Meetings& meets) {
  if (node.term >= 0) {
    meets[static_cast<size_t>(node.term)][static_cast<size_t>(node.term)] = 1;
    return;
  }
  const std::vector<int> all = terms_below(node);
  for (const int i : all)
    for (const int j : all)
      meets[static_cast<size_t>(i)][static_cast<size_t>(j)] =
          static_cast<int>(all.size());
  for (const Node& one : node.from) fill(one, meets);
}

Node added(Node a, Node b) {
  Node sum;
  sum.from.push_back(std::move(a));
  sum.from.push_back(std::move(b));
  return sum;
}

Node ascending(Terms terms) {
  Node sum = std::move(terms[0]);
  for (size_t i = 1; i < terms.size(); ++i)
    sum = added(std::move(sum), std::move(terms[i]));
  return sum;
}

Node descending(Terms terms) {
  std::reverse(terms.begin(), terms.end());
  return ascending(std::move(terms));
}

// The first half and the second, each added in the same way.
Node halves(Terms terms) {
  if (terms.size() == 1) return std::move(terms[0]);
  const auto half = static_cast<int64_t>((terms.size() + 1) / 2);
  Terms second(std::make_move_iterator(terms.begin() + half),
               std::make_move_iterator(terms.end()));
  terms.resize(static_cast<size_t>(half));
  return added(halves(std::move(terms)), halves(std::move(second)));
}

// Term l and term l + n / 2, again and again: a vector folded onto itself.
Node folded(Terms terms) {
  while (terms.size() > 1) {
    const size_t half = (terms.size() + 1) / 2;
    Terms next;
    for (size_t l = 0; l < half; ++l)
      next.push_back(l + half < terms.size() ? added(std::move(terms[l]),
                                                     std::move(terms[l + half]))
                                             : std::move(terms[l]));
    terms = std::move(next);
  }
  return std::move(terms[0]);
}

// Neighbours, again and again.
Node paired(Terms terms) {
  while (terms.size() > 1) {
    Terms next;
    for (size_t l = 0; l < terms.size(); l += 2)
      next.push_back(l + 1 < terms.size()
                         ? added(std::move(terms[l]), std::move(terms[l + 1]))
                         : std::move(terms[l]));
    terms = std::move(next);
  }
  return std::move(terms[0]);
}

struct Way {
  const char* words;
  Node (*of)(Terms);
};
constexpr std::array<Way, 5> kWays = {
    {{"one after the other, ascending", ascending},
     {"one after the other, descending", descending},
     {"pairwise, by recursive halves", halves},
     {"pairwise, the vector folded onto itself", folded},
     {"pairwise, neighbours first", paired}}};

Terms leaves(int from, int end, int step = 1) {
  Terms terms;
  for (int i = from; i < end; i += step) {
    Node leaf;
    leaf.term = i;
    terms.push_back(std::move(leaf));
  }
  return terms;
}

Meetings meetings(const Node& node, int n) {
  const auto size = static_cast<size_t>(n);
  Meetings meets(size, std::vector<int>(size, 0));
  fill(node, meets);
  return meets;
}

// Lanes in `registers` of a vector: registers are joined first.
Node in_lanes(int n, int lanes, int registers, const Way& joined,
              const Way& reduced) {
  const int width = lanes / registers;
  Terms across;
  for (int l = 0; l < width; ++l) {
    Terms own;
    for (int r = 0; r < registers; ++r)
      if (r * width + l < n)
        own.push_back(ascending(leaves(r * width + l, n, lanes)));
    if (!own.empty()) across.push_back(joined.of(std::move(own)));
  }
  return reduced.of(std::move(across));
}

SumOrderFound lanes_of(const Meetings& meets, int n) {
  for (int lanes = 2; lanes <= n / 2; lanes *= 2)
    for (int registers = 1; registers <= lanes; registers *= 2)
      for (const Way& joined : kWays)
        for (const Way& reduced : kWays) {
          if (meetings(in_lanes(n, lanes, registers, joined, reduced), n) !=
              meets)
            continue;
          // The lanes are added as a tree, in any order.
          const bool tree =
              reduced.of != ascending && reduced.of != descending &&
              (registers <= 2 ||
               (joined.of != ascending && joined.of != descending));
          std::string words =
              fmt::format("in {} lanes, term k in lane k mod {}", lanes, lanes);
          if (registers > 1 && registers < lanes)
            words +=
                fmt::format("; {} registers added {}", registers, joined.words);
          words += fmt::format("; lanes added {}", reduced.words);
          return {words, tree || lanes == 2 ? QKVET_SUM_LANES : QKVET_SUM_ANY,
                  lanes};
        }
  return {};
}

SumOrderFound blocks_of(const Meetings& meets, int n) {
  for (int block = 2; block < n; ++block)
    for (const Way& inner : kWays)
      for (const Way& outer : kWays) {
        Terms blocks;
        for (int from = 0; from < n; from += block)
          blocks.push_back(inner.of(leaves(from, std::min(from + block, n))));
        if (meetings(outer.of(std::move(blocks)), n) != meets) continue;
        return {fmt::format("in blocks of {}, each {}; blocks added {}", block,
                            inner.words, outer.words),
                QKVET_SUM_ANY, 0};
      }
  return {};
}

// "" if the terms cannot be divided into parts.
std::string tree_text(const std::vector<int>& terms, const Meetings& meets) {
  const auto at = [&](int i, int j) {
    return meets[static_cast<size_t>(i)][static_cast<size_t>(j)];
  };
  if (terms.size() == 1) return std::to_string(terms[0]);
  const auto all = static_cast<int>(terms.size());
  std::vector<bool> taken(terms.size());
  std::string text;
  int parts = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (taken[i]) continue;
    std::vector<int> part;
    for (size_t j = i; j < terms.size(); ++j) {
      const int meet = at(terms[i], terms[j]);
      if (meet > all || meet != at(terms[j], terms[i])) return "";
      if (meet == all) continue;
      if (taken[j]) return "";
      taken[j] = true;
      part.push_back(terms[j]);
    }
    if (part.empty() || part.size() == terms.size()) return "";
    for (const int a : part)
      for (const int b : terms)
        if (std::find(part.begin(), part.end(), b) == part.end() &&
            at(a, b) != all)
          return "";
    const std::string below = tree_text(part, meets);
    if (below.empty()) return "";
    text += (parts++ == 0 ? "(" : " ") + below;
  }
  return text + ")";
}

}  // namespace

std::string tree_of(const Meetings& meets) {
  if (meets.empty()) return "";
  std::vector<int> terms(meets.size());
  std::iota(terms.begin(), terms.end(), 0);
  return tree_text(terms, meets);
}

SumOrderFound name_of(const Meetings& meets) {
  const auto n = static_cast<int>(meets.size());
  if (tree_of(meets).empty()) return {};
  for (const Way& way : kWays) {
    if (meetings(way.of(leaves(0, n)), n) != meets) continue;
    if (way.of == ascending) return {way.words, QKVET_SUM_LANES, 1};
    if (way.of == descending) return {way.words, QKVET_SUM_ANY, 0};
    return {way.words, QKVET_SUM_PAIRWISE, 0};
  }
  SumOrderFound found = lanes_of(meets, n);
  return found.words.empty() ? blocks_of(meets, n) : found;
}

Meetings meetings_of(const std::string& order, int n) {
  if (order.starts_with("lanes")) {
    int lanes = 1;
    std::from_chars(order.data() + 5, order.data() + order.size(), lanes);
    return meetings(in_lanes(n, lanes, 1, kWays[0], kWays[3]), n);
  }
  const Way& way = kWays[order == "descending" ? 1 : order == "halves" ? 2 : 0];
  return meetings(way.of(leaves(0, n)), n);
}

}  // namespace qkvet::cli

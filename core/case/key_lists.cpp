// SPDX-License-Identifier: Apache-2.0
#include "core/case/key_lists.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/philox.h"
#include "core/case/case_text.h"

namespace qkvet {
namespace {

constexpr std::string_view kHow =
    "write keys=N, a list of N keys for each row, or keys=NxM, of N blocks of "
    "M keys, and behind a dot h for lists of each key/value head and n for "
    "lists with lengths, for example keys=4.hn";

std::string lists_token(const Case& c) {
  return c.listed.entries == 0 ? "keys=" : key_lists_text(c);
}

// How many keys a row's list is drawn from.
int64_t drawn_from(const Case& c, int64_t i) {
  constexpr int64_t kBehind = 2;
  for (size_t m = 0; m + 1 < c.cu_q.size(); ++m)
    if (c.cu_q[m] <= i && i < c.cu_q[m + 1])
      return std::min(c.cu_k[m + 1] - c.cu_k[m] + kBehind, c.shape.Tk);
  return c.shape.Tk;
}

// As many keys, or blocks, as a list takes, in the order of random numbers that
// depend only on the key.
std::vector<int32_t> shuffled_keys(const Case& c, int64_t b, int64_t kv,
                                   int64_t i) {
  std::vector<std::pair<uint64_t, int32_t>> ranked;
  const int64_t block = c.listed.block;
  const int64_t count = (drawn_from(c, i) + block - 1) / block;
  ranked.reserve(static_cast<size_t>(count));
  for (int64_t j = 0; j < count; ++j)
    ranked.emplace_back(
        random_bits(c.seed, TensorName::kKeyIndices, b, kv, i, j),
        static_cast<int32_t>(j));
  const auto taken = static_cast<size_t>(std::min(count, c.listed.entries));
  std::nth_element(ranked.begin(),
                   ranked.begin() + static_cast<ptrdiff_t>(taken),
                   ranked.end());
  ranked.resize(taken);
  std::sort(ranked.begin(), ranked.end());
  std::vector<int32_t> keys;
  keys.reserve(taken);
  for (const auto& [rank, key] : ranked) keys.push_back(key);
  return keys;
}

void add_list(const Case& c, int64_t b, int64_t kv, int64_t i,
              std::vector<int32_t>& out) {
  constexpr int64_t kOneIn = 8;
  const std::vector<int32_t> keys = shuffled_keys(c, b, kv, i);
  size_t next = 0;
  for (int64_t n = 0; n < c.listed.entries; ++n) {
    const bool none =
        next == keys.size() ||
        below(random_bits(c.seed, TensorName::kTopkLength, b, kv, i, n + 1),
              kOneIn) == 0;
    out.push_back(none ? -1 : keys[next++]);
  }
}

// One in eight counts none, two count all of their entries.
int32_t drawn_length(const Case& c, int64_t b, int64_t i) {
  const uint64_t bits =
      random_bits(c.seed, TensorName::kTopkLength, b, 0, i, 0);
  const uint64_t kind = bits & 7;
  if (kind == 0) return 0;
  return static_cast<int32_t>(kind < 3 ? c.listed.entries
                                       : below(bits, c.listed.entries + 1));
}

}  // namespace

std::string read_key_lists(std::string_view text, std::string_view token,
                           Case& value) {
  constexpr std::string_view kFile = "file";
  KeyLists& lists = value.listed;
  lists.from_file = text.starts_with(kFile);
  if (lists.from_file) text.remove_prefix(kFile.size());
  const size_t dot = std::min(text.find('.'), text.size());
  const std::string_view letters =
      dot < text.size() ? text.substr(dot + 1) : std::string_view("-");
  const std::string_view counts = text.substr(0, dot);
  const size_t by = std::min(counts.find('x'), counts.size());
  const auto entries = number<int64_t>(counts.substr(0, by));
  const auto block = by < counts.size() ? number<int64_t>(counts.substr(by + 1))
                                        : std::optional<int64_t>(1);
  const bool known =
      letters == "-" || letters == "h" || letters == "n" || letters == "hn";
  if (!entries || *entries < 1 || !block || *block < 1 || !known)
    return quoted(token) + ": " + std::string(kHow);
  lists.entries = *entries;
  lists.block = *block;
  lists.per_head = letters.starts_with('h');
  lists.lengths = letters.ends_with('n');
  return "";
}

std::string key_lists_text(const Case& c) {
  const KeyLists& lists = c.listed;
  if (lists.entries == 0) return "";
  std::string text = lists.from_file ? "keys=file" : "keys=";
  text += std::to_string(lists.entries);
  if (lists.block > 1) text += "x" + std::to_string(lists.block);
  if (lists.per_head || lists.lengths) text += '.';
  if (lists.per_head) text += 'h';
  if (lists.lengths) text += 'n';
  return text;
}

std::string key_lists_reason(const Case& c) {
  const KeyLists& lists = c.listed;
  if (lists.entries == 0)
    return lists == KeyLists{} ? ""
                               : "only lists of keys (keys=) have lengths or "
                                 "blocks or are of each head";
  if (lists.entries < 0 || lists.entries > kMostListed)
    return lists_token(c) + ": a list has 1 .. " + std::to_string(kMostListed) +
           " entries";
  if (lists.block < 1 || lists.block > kMostBlockKeys)
    return lists_token(c) + ": a block has 1 .. " +
           std::to_string(kMostBlockKeys) + " keys";
  // Lists of blocks are looked up key by key.
  int64_t elements = lists.entries * lists.block;
  for (const int64_t n : {c.shape.B, list_heads(c), c.shape.Tq}) {
    if (n > kMaxElements / elements)
      return lists_token(c) + ": the lists have more than " +
             std::to_string(kMaxElements) + " entries, the most allowed";
    elements = std::max<int64_t>(elements * n, 1);
  }
  return "";
}

int64_t list_heads(const Case& c) {
  return c.listed.per_head ? c.shape.Hkv : 1;
}

int64_t list_begin(const Case& c, int64_t b, int64_t kv, int64_t i) {
  const int64_t head = c.listed.per_head ? kv : 0;
  return ((b * list_heads(c) + head) * c.shape.Tq + i) * c.listed.entries;
}

int64_t list_length(const Case& c, const Inputs& inputs, int64_t b, int64_t i) {
  return c.listed.lengths
             ? inputs.topk_length[static_cast<size_t>(b * c.shape.Tq + i)]
             : c.listed.entries;
}

void expand_key_blocks(Case& c, Inputs& inputs) {
  const int64_t block = c.listed.block, entries = c.listed.entries;
  if (block == 1) return;
  const std::vector<int32_t> blocks = std::move(inputs.key_indices);
  inputs.key_indices.assign(blocks.size() * static_cast<size_t>(block), -1);
  for (size_t at = 0; at < blocks.size(); ++at) {
    const auto row = static_cast<int64_t>(at) / entries;
    const int64_t b = row / c.shape.Tq / list_heads(c), i = row % c.shape.Tq;
    const bool counts =
        static_cast<int64_t>(at) % entries < list_length(c, inputs, b, i);
    if (!counts || blocks[at] < 0) continue;
    for (int64_t n = 0; n < block; ++n)
      if (const int64_t key = blocks[at] * block + n; key < c.shape.Tk)
        inputs.key_indices[at * static_cast<size_t>(block) +
                           static_cast<size_t>(n)] = static_cast<int32_t>(key);
  }
  for (int32_t& length : inputs.topk_length)
    length *= static_cast<int32_t>(block);
  c.listed.entries = entries * block;
  c.listed.block = 1;
}

void fill_key_lists(const Case& c, Inputs& inputs) {
  if (c.listed.entries == 0) return;
  const Shape& s = c.shape;
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t kv = 0; kv < list_heads(c); ++kv)
      for (int64_t i = 0; i < s.Tq; ++i)
        add_list(c, b, kv, i, inputs.key_indices);
  if (!c.listed.lengths) return;
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t i = 0; i < s.Tq; ++i)
      inputs.topk_length.push_back(drawn_length(c, b, i));
}

}  // namespace qkvet

// SPDX-License-Identifier: Apache-2.0
#include "core/case/key_lists.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/case/case_text.h"
#include "core/case/paging.h"

namespace qkvet {
namespace {

constexpr std::string_view kHow =
    "write keys=N, a list of N keys for each row, and behind a dot h for lists "
    "of each key/value head and n for lists with lengths, for example "
    "keys=4.hn";

std::string lists_token(const Case& c) {
  return c.listed.entries == 0 ? "keys=" : key_lists_text(c);
}

// 0 .. n - 1, decided by the upper 32 bits.
int64_t below(uint64_t bits, int64_t n) {
  return static_cast<int64_t>((bits >> 32) * static_cast<uint64_t>(n) >> 32);
}

// All keys in the order of random numbers that hang on the key alone.
std::vector<int32_t> shuffled_keys(const Case& c, int64_t b, int64_t kv,
                                   int64_t i) {
  std::vector<std::pair<uint64_t, int32_t>> ranked;
  ranked.reserve(static_cast<size_t>(c.shape.Tk));
  for (int64_t j = 0; j < c.shape.Tk; ++j)
    ranked.emplace_back(
        random_bits(c.seed, TensorName::kKeyIndices, b, kv, i, j),
        static_cast<int32_t>(j));
  std::sort(ranked.begin(), ranked.end());
  std::vector<int32_t> keys;
  keys.reserve(ranked.size());
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

void store_numbers(const std::vector<int32_t>& numbers,
                   std::vector<std::byte>& bytes) {
  bytes.resize(numbers.size() * sizeof(int32_t));
  if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
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
  const auto entries = number<int64_t>(text.substr(0, dot));
  const bool known =
      letters == "-" || letters == "h" || letters == "n" || letters == "hn";
  if (!entries || *entries < 1 || !known)
    return quoted(token) + ": " + std::string(kHow);
  lists.entries = *entries;
  lists.per_head = letters.starts_with('h');
  lists.lengths = letters.ends_with('n');
  return "";
}

std::string key_lists_text(const Case& c) {
  const KeyLists& lists = c.listed;
  if (lists.entries == 0) return "";
  std::string text = lists.from_file ? "keys=file" : "keys=";
  text += std::to_string(lists.entries);
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
                                 "are of each head";
  if (lists.entries < 0 || lists.entries > kMostListed)
    return lists_token(c) + ": a list has 1 .. " + std::to_string(kMostListed) +
           " entries";
  int64_t elements = lists.entries;
  for (const int64_t n : {c.shape.B, list_heads(c), c.shape.Tq}) {
    if (n > kMaxElements / elements)
      return lists_token(c) + ": the lists have more than " +
             std::to_string(kMaxElements) + " entries, the most allowed";
    elements = std::max<int64_t>(elements * n, 1);
  }
  return may_have_key_lists(c)
             ? ""
             : lists_token(c) +
                   ": lists of keys have neither cuq=, page= nor append= "
                   "beside them";
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

bool may_have_key_lists(const Case& c) {
  return c.cu_q.empty() && c.cu_k.empty() && !is_served(c);
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

void store_key_lists(Inputs& inputs) {
  store_numbers(inputs.key_indices, inputs.key_indices_bytes);
  store_numbers(inputs.topk_length, inputs.topk_length_bytes);
}

}  // namespace qkvet

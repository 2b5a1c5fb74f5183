// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/evidence/tiles.h"

#include <algorithm>
#include <cctype>

#include "properties/conventions/domain.h"

namespace qkvet::diagnosis {
namespace {

constexpr int64_t kLeastTile = 2, kLargestTile = 1024;

void add(int64_t number, std::vector<int64_t>& numbers) {
  if (number < kLeastTile || number > kLargestTile ||
      std::find(numbers.begin(), numbers.end(), number) != numbers.end())
    return;
  numbers.push_back(number);
}

bool is_in_a_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' ||
         c == '_';
}

bool has_own_extents(const Case& value) {
  return !value.q_len.empty() || !value.kv_len.empty() || !value.cu_q.empty() ||
         !value.cu_k.empty() || value.paging.size > 0 || value.append > 0 ||
         !value.story.empty();
}

}  // namespace

std::vector<int64_t> numbers_in(std::string_view text) {
  std::vector<int64_t> numbers;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && is_in_a_word(text[end])) ++end;
    const std::string_view word = text.substr(at, end - at);
    const bool is_whole =
        !word.empty() && word.size() <= 4 &&
        std::all_of(word.begin(), word.end(),
                    [](unsigned char c) { return std::isdigit(c) != 0; });
    if (is_whole) add(std::stoll(std::string(word)), numbers);
    at = std::max(end, at + 1);
  }
  return numbers;
}

std::vector<int64_t> tiles_near(const std::vector<Hint>& hints,
                                const Case& value) {
  std::vector<int64_t> numbers;
  for (const Hint& hint : hints)
    if (hint.path.axis == QKVET_AXIS_TK || hint.path.axis == QKVET_AXIS_TQ)
      // "(Tk + 255) / 256" speaks of 256.
      add(hint.path.at, numbers), add(hint.path.at + 1, numbers);
  for (const int64_t extent : {value.shape.Tk, value.shape.Tq})
    add(extent - 1, numbers), add(extent, numbers);
  return numbers;
}

std::vector<Case> at_tiles(const Law& law, const Case& value,
                           const std::vector<int64_t>& tiles) {
  std::vector<Case> out;
  if (has_own_extents(value)) return out;
  for (int64_t Shape::*extent : {&Shape::Tk, &Shape::Tq})
    for (const int64_t times : {3, 2, 1})
      for (const int64_t tile : tiles)
        for (const int64_t more : {0, 1}) {
          Case other = value;
          other.shape.*extent = times * tile + more;
          if (other.shape.D > 0) other.shape.Tq = other.shape.Tk;
          other.seed += static_cast<uint64_t>(out.size()) + 1;
          other = constrained(law, std::move(other));
          if (invalid_reason(other).empty()) out.push_back(std::move(other));
        }
  return out;
}

}  // namespace qkvet::diagnosis

// SPDX-License-Identifier: Apache-2.0
#include "properties/judging/malformed_numbers.h"

#include <algorithm>
#include <cstring>

#include "core/case/paging.h"

namespace qkvet::properties {
namespace {

using NumberList = std::vector<int64_t>;

NumberList numbers_in(const std::vector<std::byte>& bytes) {
  NumberList numbers(bytes.size() / sizeof(int64_t));
  if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

void put_numbers(const NumberList& numbers, std::vector<std::byte>& bytes) {
  bytes.resize(numbers.size() * sizeof(int64_t));
  if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
}

bool gives_lengths(const Case& value) {
  return !value.q_len.empty() || !value.kv_len.empty();
}

// Of the keys where there are two lists and the seed says so.
bool spoils_keys(const Case& value) {
  return value.paging.size == 0 && value.seed % 2 == 1;
}

// The starts that are spoiled, and the rows that they are about.
std::vector<std::byte>& spoiled_starts(const Case& value, Inputs& inputs) {
  return spoils_keys(value) ? inputs.cu_k_bytes : inputs.cu_q_bytes;
}
int64_t rows_of_spoiled(const Case& value) {
  return spoils_keys(value) ? value.shape.Tk : value.shape.Tq;
}

void spoil_starts(Mistake mistake, int64_t rows, NumberList& starts) {
  switch (mistake) {
    case Mistake::kOffsetsFall:
      // Within the rows, as is all else.
      starts[1] = rows;
      for (size_t n = 2; n < starts.size(); ++n) starts[n] = rows - 1;
      break;
    case Mistake::kOffsetsStart:
      for (int64_t& start : starts) start = std::max<int64_t>(start, 1);
      break;
    default:
      starts.back() = rows + 1;
  }
}

// Of the member whose turn it is by the seed.
void spoil_length(Mistake mistake, int64_t room, uint64_t seed,
                  NumberList& lengths) {
  lengths[static_cast<size_t>(seed) % lengths.size()] =
      mistake == Mistake::kLengthNegative ? -1 : room + 1;
}

// The lengths that are spoiled: those of keys, unless there are none.
void spoil_lengths(Mistake mistake, const Case& value, Inputs& inputs) {
  const bool keys = !inputs.kv_len_bytes.empty();
  std::vector<std::byte>& bytes =
      keys ? inputs.kv_len_bytes : inputs.q_len_bytes;
  int64_t room = keys ? value.shape.Tk : value.shape.Tq;
  if (value.paging.size > 0 && keys)
    room = inputs.table_columns * value.paging.size;
  NumberList lengths = numbers_in(bytes);
  spoil_length(mistake, room, value.seed, lengths);
  put_numbers(lengths, bytes);
}

}  // namespace

bool can_be_made(Mistake mistake, const Case& value) {
  const bool packed = !value.cu_q.empty();
  const bool kept_keys = is_served(value) && members_of(value) > 0;
  switch (mistake) {
    case Mistake::kOffsetsFall:
      return packed && value.cu_q.size() > 2 && rows_of_spoiled(value) > 0;
    case Mistake::kOffsetsStart:
      return packed && rows_of_spoiled(value) > 0;
    case Mistake::kOffsetsEnd:
      return packed;
    case Mistake::kLengthNegative:
    case Mistake::kLengthBeyond:
      return gives_lengths(value) || kept_keys;
    case Mistake::kLengthsType:
    case Mistake::kLengthsRank:
      return packed || gives_lengths(value) || kept_keys;
    case Mistake::kBothForms:
      return packed;
    default:
      return true;
  }
}

void spoil_numbers(Mistake mistake, const Case& value, Inputs& inputs) {
  switch (mistake) {
    case Mistake::kOffsetsFall:
    case Mistake::kOffsetsStart:
    case Mistake::kOffsetsEnd: {
      std::vector<std::byte>& bytes = spoiled_starts(value, inputs);
      NumberList starts = numbers_in(bytes);
      spoil_starts(mistake, rows_of_spoiled(value), starts);
      return put_numbers(starts, bytes);
    }
    case Mistake::kLengthNegative:
    case Mistake::kLengthBeyond:
      return spoil_lengths(mistake, value, inputs);
    case Mistake::kBothForms:
      return put_numbers({value.shape.Tq}, inputs.q_len_bytes);
    default:
      return;
  }
}

}  // namespace qkvet::properties

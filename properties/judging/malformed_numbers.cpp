// SPDX-License-Identifier: Apache-2.0
#include "properties/judging/malformed_numbers.h"

#include <algorithm>
#include <cstring>

#include "core/case/paging.h"

namespace qkvet::properties {
namespace {

using NumberList = std::vector<int64_t>;

// A number of a list of pages.
int32_t int32_at(const std::vector<std::byte>& bytes, size_t n) {
  int32_t number = 0;
  std::memcpy(&number, bytes.data() + n * sizeof number, sizeof number);
  return number;
}
void put_int32(int64_t value, size_t n, std::vector<std::byte>& bytes) {
  const auto number = static_cast<int32_t>(value);
  std::memcpy(bytes.data() + n * sizeof number, &number, sizeof number);
}

// Whether the call has lengths of members, and no starts.
bool has_lengths(const Case& value) {
  const bool of_keys =
      !value.kv_len.empty() || (is_served(value) && members_of(value) > 0);
  return !value.q_len.empty() ||
         (of_keys && value.paging.table == PageTable::kBlocks);
}

// The first member from `from` on that has pages, or none: -1.
int64_t member_with_pages(const Case& value, int64_t from) {
  const int64_t members = members_of(value);
  for (int64_t n = 0; n < members; ++n)
    if (keys_of(value, (from + n) % members).count > 0)
      return (from + n) % members;
  return -1;
}

int64_t spoiled_member(const Case& value) {
  const int64_t members = members_of(value);
  return members < 1
             ? -1
             : member_with_pages(
                   value, static_cast<int64_t>(value.seed %
                                               static_cast<uint64_t>(members)));
}

// Corrupts the numbers that give the count of pages and how full the last is.
void spoil_pages(Mistake mistake, const Case& value, Inputs& inputs) {
  std::vector<std::byte>& starts = inputs.page_indptr_bytes;
  const auto members = static_cast<size_t>(members_of(value));
  const auto member = static_cast<size_t>(spoiled_member(value));
  switch (mistake) {
    case Mistake::kPagesFall:  // within the list, as is all else
      put_int32(inputs.page_entries, 1, starts);
      for (size_t n = 2; n <= members; ++n)
        put_int32(inputs.page_entries - 1, n, starts);
      return;
    case Mistake::kPagesStart:
      for (size_t n = 0; n <= members; ++n)
        put_int32(std::max(int32_at(starts, n), 1), n, starts);
      return;
    case Mistake::kPagesEnd:
      return put_int32(inputs.page_entries + 1, members, starts);
    case Mistake::kLastPageEmpty:
      return put_int32(0, member, inputs.last_page_len_bytes);
    case Mistake::kLastPageBeyond:
      return put_int32(value.paging.size + 1, member,
                       inputs.last_page_len_bytes);
    default: {  // both tables
      Case blocks = value;
      blocks.paging.table = PageTable::kBlocks;
      Inputs of_blocks;
      of_blocks.k_bytes = inputs.k_bytes;
      of_blocks.v_bytes = inputs.v_bytes;
      fill_served(blocks, of_blocks);
      inputs.block_table_bytes = of_blocks.block_table_bytes;
      inputs.table_columns = of_blocks.table_columns;
      inputs.kv_len_bytes = of_blocks.kv_len_bytes;
    }
  }
}

// If there are two lists, the seed decides between queries and keys.
bool spoils_keys(const Case& value) {
  return value.paging.size == 0 && value.seed % 2 == 1;
}

// The starts to corrupt, and the rows that they belong to.
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

// Corrupts the length of the member that the seed picks.
void spoil_length(Mistake mistake, int64_t room, uint64_t seed,
                  NumberList& lengths) {
  lengths[static_cast<size_t>(seed) % lengths.size()] =
      mistake == Mistake::kLengthNegative ? -1 : room + 1;
}

// The lengths to corrupt: those of keys, unless there are none.
void spoil_lengths(Mistake mistake, const Case& value, Inputs& inputs) {
  const bool keys = !inputs.kv_len_bytes.empty();
  std::vector<std::byte>& bytes =
      keys ? inputs.kv_len_bytes : inputs.q_len_bytes;
  int64_t room = keys ? value.shape.Tk : value.shape.Tq;
  if (value.paging.size > 0 && keys)
    room = inputs.table_columns * value.paging.size;
  NumberList lengths = lengths_in(value, bytes);
  spoil_length(mistake, room, value.seed, lengths);
  store_lengths(value, lengths, bytes);
}

}  // namespace

bool can_be_made(Mistake mistake, const Case& value) {
  const bool packed = !value.cu_q.empty();
  const bool lists = value.paging.table == PageTable::kCsr;
  switch (mistake) {
    case Mistake::kOffsetsFall:
      return packed && value.cu_q.size() > 2 && rows_of_spoiled(value) > 0;
    case Mistake::kOffsetsStart:
      return packed && rows_of_spoiled(value) > 0;
    case Mistake::kOffsetsEnd:
      return packed;
    case Mistake::kLengthNegative:
    case Mistake::kLengthBeyond:
      return has_lengths(value);
    case Mistake::kLengthsType:
    case Mistake::kLengthsRank:
      return packed || has_lengths(value);
    case Mistake::kBothForms:
      return packed;
    case Mistake::kPagesFall:
      return lists && members_of(value) > 1;
    case Mistake::kPagesStart:
    case Mistake::kPagesEnd:
    case Mistake::kBothTables:
      return lists && members_of(value) > 0;
    case Mistake::kLastPageEmpty:
    case Mistake::kLastPageBeyond:
      return lists && spoiled_member(value) >= 0;
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
      NumberList starts = lengths_in(value, bytes);
      spoil_starts(mistake, rows_of_spoiled(value), starts);
      return store_lengths(value, starts, bytes);
    }
    case Mistake::kLengthNegative:
    case Mistake::kLengthBeyond:
      return spoil_lengths(mistake, value, inputs);
    case Mistake::kBothForms:
      return store_lengths(value, {value.shape.Tq}, inputs.q_len_bytes);
    case Mistake::kPagesFall:
    case Mistake::kPagesStart:
    case Mistake::kPagesEnd:
    case Mistake::kLastPageEmpty:
    case Mistake::kLastPageBeyond:
    case Mistake::kBothTables:
      return spoil_pages(mistake, value, inputs);
    default:
      return;
  }
}

}  // namespace qkvet::properties

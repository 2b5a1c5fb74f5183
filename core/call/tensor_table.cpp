// SPDX-License-Identifier: Apache-2.0
#include "core/call/tensor_table.h"

namespace qkvet {
namespace {

// Too large is the same as infinite.
int64_t times(int64_t a, int64_t b) {
  return a > 0 && b > kMostElements / a ? kMostElements + 1 : a * b;
}

}  // namespace

std::optional<int64_t> extent_of(const Shape& s, Extent extent) {
  switch (extent) {
    case Extent::kNone:
      return 1;
    case Extent::kB:
      return s.B;
    case Extent::kH:
      return s.H;
    case Extent::kHkv:
      return s.Hkv;
    case Extent::kTq:
      return s.Tq;
    case Extent::kTk:
      return s.Tk;
    case Extent::kWidth:
      return s.d;
    case Extent::kValueWidth:
      return s.dv;
    case Extent::kModelWidth:
      return s.D;
    case Extent::kQColumns:
    case Extent::kKColumns:
    case Extent::kVColumns:
    case Extent::kMerged: {
      const bool of_queries =
          extent == Extent::kQColumns || extent == Extent::kMerged;
      const bool of_values =
          extent == Extent::kVColumns || extent == Extent::kMerged;
      return times(of_queries ? s.H : s.Hkv, of_values ? s.dv : s.d);
    }
    case Extent::kAllColumns:
      return *extent_of(s, Extent::kQColumns) +
             *extent_of(s, Extent::kKColumns) +
             *extent_of(s, Extent::kVColumns);
    case Extent::kTwo:
      return 2;
    default:
      return std::nullopt;
  }
}

int64_t extent_of(const KernelCall& call, Extent extent) {
  if (const auto known = extent_of(call.shape, extent)) return *known;
  const int64_t members = call.members > 0 ? call.members : call.shape.B;
  switch (extent) {
    case Extent::kMembers:
      return members;
    case Extent::kStarts:
      return call.members + 1;
    case Extent::kPageStarts:
      return members + 1;
    case Extent::kTableColumns:
      return call.table_columns;
    case Extent::kPageEntries:
      return call.page_entries;
    case Extent::kNewTokens:
      return call.new_tokens;
    case Extent::kListHeads:
      return call.listed.per_head ? call.shape.Hkv : 1;
    case Extent::kListEntries:
      return call.listed.entries;
    case Extent::kRanges:
      return call.fields.ranges;
    case Extent::kPositions:
      return call.rope_rows;
    case Extent::kHalfWidth:
      return call.rope_channels / 2;
    case Extent::kContext:
      return call.context;
    default:
      return 0;
  }
}

}  // namespace qkvet

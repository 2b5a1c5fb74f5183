// SPDX-License-Identifier: Apache-2.0
// faulty/cache_range_includes_next_row: the range of a row is taken over
// whole vectors of 4 lanes.
#include <algorithm>
#include <cmath>

#include "impl/faulty/fault.h"
#include "impl/faulty/tile.h"
#include "impl/kv_cache/quantised.h"

namespace qkvet::impl {
namespace {

class RangeIncludesNextRow : public QuantisedCache {
 public:
  using QuantisedCache::QuantisedCache;

  static Cache* make(const CacheShape& shape) {
    if (shape.codes == Codes::kAsGiven) {
      return new ContiguousCache(shape);
    }
    return new RangeIncludesNextRow(shape);
  }

 protected:
  // What follows a row is the next token, if the step has one.
  float largest(const CodedRows& rows, int64_t tokens, const Stored& from,
                int64_t head, int64_t j) const override {
    float most = QuantisedCache::largest(rows, tokens, from, head, j);
    if (j + 1 == tokens) {
      return most;
    }
    const int64_t behind = std::min(rows.width(), -rows.width() & (tile() - 1));
    for (int64_t c = 0; c < behind; ++c) {
      const float magnitude = std::fabs(from.get(0, head, j + 1, c));
      most = magnitude > most ? magnitude : most;
    }
    return most;
  }
};

constexpr const char* kKilledBy[] = {"cache_stores_what_it_is_given", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "lanes behind the width of a head take part in the range of its row, "
        "and hold the next row",
    .symptom =
        "right at widths of whole vectors; else codes are coarser than they "
        "need to be, next to large tokens",
    .cause = "the tail of a row is loaded as a whole vector and not masked",
    .fix = "mask the lanes of the tail in the range as in everything else",
    .source = "InternLM/lmdeploy#4849",
    .trigger =
        "scales a token, a width that is no multiple of 4, and a step of two "
        "tokens",
    .killed_by = kKilledBy,
    .when =
        "stored == int8token && (d % 4 != 0 || dv % 4 != 0) && commands(new > "
        "1)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_range_includes_next_row =
    faulty_cache<RangeIncludesNextRow, QKVET_CACHE_INT8_PER_TOKEN>(
        "faulty/cache_range_includes_next_row", &kFault,
        {"impl/faulty/cache_range_includes_next_row.cpp", __LINE__});

}  // namespace qkvet::impl

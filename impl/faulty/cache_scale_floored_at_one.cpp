// SPDX-License-Identifier: Apache-2.0
// faulty/cache_scale_floored_at_one: scales are at least 1.
#include <algorithm>

#include "impl/faulty/fault.h"
#include "impl/kv_cache/quantised.h"

namespace qkvet::impl {
namespace {

class ScaleFlooredAtOne : public QuantisedCache {
 public:
  using QuantisedCache::QuantisedCache;

  static Cache* make(const CacheShape& shape) {
    if (shape.codes == Codes::kAsGiven) {
      return new ContiguousCache(shape);
    }
    return new ScaleFlooredAtOne(shape);
  }

 protected:
  float token_scale(float largest) const override {
    return std::max(QuantisedCache::token_scale(largest), 1.0f);
  }
};

constexpr const char* kKilledBy[] = {"cache_stores_what_it_is_given", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the scale of a token is max(scale, 1)",
    .symptom = "numbers are rounded to integers; degenerate repetition",
    .cause = "a guard against division by zero that knows no scale below 1",
    .fix = "guard with a tiny number, or test for 0",
    .source = "lablup/mlxcel#717",
    .trigger = "quantised storage, and rows that stay below the largest code",
    .killed_by = kKilledBy,
    .when = "stored == int8token",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_scale_floored_at_one =
    faulty_cache<ScaleFlooredAtOne, QKVET_CACHE_INT8_PER_TOKEN>(
        "faulty/cache_scale_floored_at_one", &kFault,
        {"impl/faulty/cache_scale_floored_at_one.cpp", __LINE__});

}  // namespace qkvet::impl

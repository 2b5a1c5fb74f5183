// SPDX-License-Identifier: Apache-2.0
// faulty/cache_zero_point_off_by_one: codes are stored around 128 and read
// around 127.
#include "impl/faulty/fault.h"
#include "impl/kv_cache/quantised.h"

namespace qkvet::impl {
namespace {

class ZeroPointOffByOne : public QuantisedCache {
 public:
  using QuantisedCache::QuantisedCache;

  static Cache* make(const CacheShape& shape) {
    if (shape.codes == Codes::kAsGiven) {
      return new ContiguousCache(shape);
    }
    return new ZeroPointOffByOne(shape);
  }

 protected:
  // A byte is code + 128, and a number (byte - 127) scale = (code + 1) scale.
  Rows values(const Reading& reading, float* room) const override {
    const int64_t first =
        slot(reading.sequence, reading.head, reading.run.begin);
    const int64_t width = shape().value_width;
    QuantisedCache::values(reading, room);
    for (int64_t n = 0; n < reading.run.count() * width; ++n) {
      room[n] += coded_values().scale_of(first + n / width);
    }
    return {room, width, 1};
  }
};

constexpr const char* kKilledBy[] = {"cache_stores_what_it_is_given", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the zero point is 128 where values are written and 127 where they are "
        "read",
    .symptom = "every value is one step too large: a constant offset",
    .cause =
        "one side takes the middle of 0 .. 255, the other the largest code",
    .fix = "name the zero point once",
    .source = "textbook, cf. InfiniTensor/InfiniLM#553",
    .trigger = "quantised storage",
    .killed_by = kKilledBy,
    .when = "stored == int8token",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_zero_point_off_by_one =
    faulty_cache<ZeroPointOffByOne, QKVET_CACHE_INT8_PER_TOKEN>(
        "faulty/cache_zero_point_off_by_one", &kFault,
        {"impl/faulty/cache_zero_point_off_by_one.cpp", __LINE__});

}  // namespace qkvet::impl

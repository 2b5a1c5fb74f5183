// SPDX-License-Identifier: Apache-2.0
// faulty/cache_zero_point_sign: the zero point is added where it has to be
// subtracted.
#include "impl/faulty/fault.h"
#include "impl/kv_cache/quantised.h"

namespace qkvet::impl {
namespace {

class ZeroPointSign : public QuantisedCache {
 public:
  using QuantisedCache::QuantisedCache;

  static Cache* make(const CacheShape& shape) {
    if (shape.codes == Codes::kAsGiven) {
      return new ContiguousCache(shape);
    }
    return new ZeroPointSign(shape);
  }

 protected:
  // A byte is code + 128, and a number (byte + 128) scale = (code + 256) scale.
  Rows values(const Reading& reading, float* room) const override {
    constexpr float kTwice = 256;
    const int64_t first =
        slot(reading.sequence, reading.head, reading.run.begin);
    const int64_t width = shape().value_width;
    QuantisedCache::values(reading, room);
    for (int64_t n = 0; n < reading.run.count() * width; ++n) {
      room[n] += kTwice * coded_values().scale_of(first + n / width);
    }
    return {room, width, 1};
  }
};

constexpr const char* kKilledBy[] = {"cache_stores_what_it_is_given", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a zero point of 128 is added to values when they are read, as it was "
        "when they were stored",
    .symptom = "every value is 256 steps too large",
    .cause = "writers and readers use one formula with a sign of their own",
    .fix =
        "write q = x / s + z and x = (q - z) s side by side, and test one with "
        "the other",
    .source = "textbook, cf. InfiniTensor/InfiniLM#553",
    .trigger = "quantised storage",
    .killed_by = kKilledBy,
    .when = "stored == int8token",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_zero_point_sign =
    faulty_cache<ZeroPointSign, QKVET_CACHE_INT8_PER_TOKEN>(
        "faulty/cache_zero_point_sign", &kFault,
        {"impl/faulty/cache_zero_point_sign.cpp", __LINE__});

}  // namespace qkvet::impl

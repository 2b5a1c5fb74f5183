// SPDX-License-Identifier: Apache-2.0
// faulty/cache_descale_dropped_for_half: values in half storage are codes.
#include "impl/faulty/fault.h"
#include "impl/kv_cache/quantised.h"

namespace qkvet::impl {
namespace {

class DescaleDroppedForHalf : public QuantisedCache {
 public:
  using QuantisedCache::QuantisedCache;

  static Cache* make(const CacheShape& shape) {
    if (shape.codes == Codes::kAsGiven) {
      return new ContiguousCache(shape);
    }
    return new DescaleDroppedForHalf(shape);
  }

 protected:
  Rows values(const Reading& reading, float* room) const override {
    if (shape().storage == Storage::kF32) {
      return QuantisedCache::values(reading, room);
    }
    const int64_t first =
        slot(reading.sequence, reading.head, reading.run.begin);
    return coded_values().load_codes(first, reading.run.count(), room);
  }
};

constexpr const char* kKilledBy[] = {"cache_stores_what_it_is_given", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "where queries are of half storage, codes of values are cast and not "
        "multiplied by their scale",
    .symptom =
        "right in f32; in half storage answers have the magnitude of codes",
    .cause = "a fast branch for one type of queries converts and does no more",
    .fix =
        "multiply by the scale on every branch, and test with scales other "
        "than 1",
    .source = "vllm-project/vllm#42580, flashinfer-ai/flashinfer#4979",
    .trigger = "quantised storage, and queries in f16 or bf16",
    .killed_by = kKilledBy,
    .when = "stored != as_given && dtype != f32",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_descale_dropped_for_half =
    faulty_cache<DescaleDroppedForHalf, QKVET_CACHE_INT8_PER_TOKEN>(
        "faulty/cache_descale_dropped_for_half", &kFault,
        {"impl/faulty/cache_descale_dropped_for_half.cpp", __LINE__});

}  // namespace qkvet::impl

// SPDX-License-Identifier: Apache-2.0
// faulty/cache_value_scale_from_keys: answers take the scales of values
// from the keys.
#include "impl/faulty/fault.h"
#include "impl/kv_cache/quantised.h"

namespace qkvet::impl {
namespace {

class ValueScaleFromKeys : public QuantisedCache {
 public:
  using QuantisedCache::QuantisedCache;

  static Cache* make(const CacheShape& shape) {
    if (shape.codes == Codes::kAsGiven) {
      return new ContiguousCache(shape);
    }
    return new ValueScaleFromKeys(shape);
  }

  qkvet_status read_back(int64_t sequence, const qkvet_tensor& k,
                         const qkvet_tensor& v,
                         qkvet_text* why) const override {
    reads_back_ = true;
    const qkvet_status status = QuantisedCache::read_back(sequence, k, v, why);
    reads_back_ = false;
    return status;
  }

 protected:
  Rows values(const Reading& reading, float* room) const override {
    if (reads_back_) {
      return QuantisedCache::values(reading, room);
    }
    const int64_t first =
        slot(reading.sequence, reading.head, reading.run.begin);
    return coded_values().load_scaled(coded_keys(), reading.head, first,
                                      reading.run.count(), room);
  }

 private:
  mutable bool reads_back_ = false;
};

constexpr const char* kKilledBy[] = {"cache_answers_from_what_it_stores",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "attention decodes the values with the scales of the keys",
    .symptom =
        "what is stored and read back is right, answers are off by a factor a "
        "token",
    .cause =
        "scales are passed on by position, and one takes the place of the "
        "other",
    .fix = "pass each scale by its name, and test with scales that differ",
    .source = "vllm-project/vllm#42580, cf. flashinfer-ai/flashinfer#1023",
    .trigger = "quantised storage, and a key and a value of other magnitudes",
    .killed_by = kKilledBy,
    .when = "stored == int8token",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_value_scale_from_keys =
    faulty_cache<ValueScaleFromKeys, QKVET_CACHE_INT8_PER_TOKEN>(
        "faulty/cache_value_scale_from_keys", &kFault,
        {"impl/faulty/cache_value_scale_from_keys.cpp", __LINE__});

}  // namespace qkvet::impl

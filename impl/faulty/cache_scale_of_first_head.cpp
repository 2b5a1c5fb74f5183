// SPDX-License-Identifier: Apache-2.0
// faulty/cache_scale_of_first_head: codes of all heads are read with the
// scales of the first one.
#include "impl/faulty/fault.h"
#include "impl/kv_cache/quantised.h"

namespace qkvet::impl {
namespace {

class ScaleOfFirstHead : public QuantisedCache {
 public:
  using QuantisedCache::QuantisedCache;

  static Cache* make(const CacheShape& shape) {
    if (shape.codes == Codes::kAsGiven) {
      return new ContiguousCache(shape);
    }
    return new ScaleOfFirstHead(shape);
  }

 protected:
  Rows keys(const Reading& reading, float* room) const override {
    return load(coded_keys(), reading, room);
  }
  Rows values(const Reading& reading, float* room) const override {
    return load(coded_values(), reading, room);
  }

 private:
  Rows load(const CodedRows& rows, const Reading& reading, float* room) const {
    const int64_t first =
        slot(reading.sequence, reading.head, reading.run.begin);
    return rows.load(/*head=*/0, first, reading.run.count(), room);
  }
};

constexpr const char* kKilledBy[] = {"cache_stores_what_it_is_given", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a code is multiplied by the scale that its channel has in the first "
        "head",
    .symptom =
        "right with one key/value head, or with scales that heads share; else "
        "all heads but one are off",
    .cause = "scales are [Hkv, d], and the offset of the head is left out",
    .fix = "index scales by head and channel, and test with heads that differ",
    .source = "textbook, cf. flashinfer-ai/flashinfer#1023",
    .trigger = "scales a channel, and more than one key/value head",
    .killed_by = kKilledBy,
    .when = "stored == int8channel && Hkv > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_scale_of_first_head =
    faulty_cache<ScaleOfFirstHead, QKVET_CACHE_INT8_PER_CHANNEL>(
        "faulty/cache_scale_of_first_head", &kFault,
        {"impl/faulty/cache_scale_of_first_head.cpp", __LINE__});

}  // namespace qkvet::impl

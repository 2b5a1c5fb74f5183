// SPDX-License-Identifier: Apache-2.0
// faulty/cache_evict_scales_stay: an eviction moves the codes and leaves their
// scales.
#include "impl/faulty/fault.h"
#include "impl/kv_cache/quantised.h"

namespace qkvet::impl {
namespace {

class EvictScalesStay : public QuantisedCache {
 public:
  using QuantisedCache::QuantisedCache;

  static Cache* make(const CacheShape& shape) {
    if (shape.codes == Codes::kAsGiven) {
      return new ContiguousCache(shape);
    }
    return new EvictScalesStay(shape);
  }

 protected:
  void remove(int64_t sequence, int64_t first, int64_t tokens) override {
    std::vector<float> scales;
    each_scale(sequence, [&](float& scale) { scales.push_back(scale); });
    QuantisedCache::remove(sequence, first, tokens);
    auto next = scales.begin();
    each_scale(sequence, [&](float& scale) { scale = *next++; });
  }

 private:
  template <class Use>
  void each_scale(int64_t sequence, Use use) const {
    if (shape().per_channel) {
      return;
    }
    for (int64_t head = 0; head < shape().kv_heads; ++head) {
      for (int64_t t = 0; t < held(sequence); ++t) {
        use(coded_keys().scale_of(slot(sequence, head, t)));
        use(coded_values().scale_of(slot(sequence, head, t)));
      }
    }
  }
};

constexpr const char* kKilledBy[] = {"cache_stores_what_it_is_given",
                                     "cache_evict_forgets", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "an eviction moves codes and not the scales that belong to them",
    .symptom =
        "exact without quantisation; with it, tokens behind an eviction have "
        "the direction of their own and the length of others",
    .cause = "scales are another tensor than the codes",
    .fix = "move all that a token has",
    .source = "textbook (a scale a token), cf. ggml-org/llama.cpp#5652",
    .trigger = "scales a token, an eviction, tokens of different magnitude",
    .killed_by = kKilledBy,
    .when = "stored == int8token && commands(verb == evict && first < held)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_evict_scales_stay =
    faulty_cache<EvictScalesStay, QKVET_CACHE_INT8_PER_TOKEN>(
        "faulty/cache_evict_scales_stay", &kFault,
        {"impl/faulty/cache_evict_scales_stay.cpp", __LINE__});

}  // namespace qkvet::impl

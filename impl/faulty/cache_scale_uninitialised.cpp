// SPDX-License-Identifier: Apache-2.0
// faulty/cache_scale_uninitialised: the scales of a step are set behind it.
#include <utility>
#include <vector>

#include "impl/faulty/fault.h"
#include "impl/kv_cache/quantised.h"

namespace qkvet::impl {
namespace {

class ScaleUninitialised : public QuantisedCache {
 public:
  using QuantisedCache::QuantisedCache;

  static Cache* make(const CacheShape& shape) {
    if (shape.codes == Codes::kAsGiven) {
      return new ContiguousCache(shape);
    }
    return new ScaleUninitialised(shape);
  }

 protected:
  void write(const CacheStep& step, int64_t before) override {
    later_.clear();
    for (int64_t head = 0; head < shape().kv_heads; ++head) {
      for (int64_t j = 0; j < step.tokens; ++j) {
        const int64_t to = slot(step.sequence, head, before + j);
        later_.push_back(
            {to, coded_keys().scale_of(to), coded_values().scale_of(to)});
      }
    }
    QuantisedCache::write(step, before);
    exchange();
  }
  void advance(const CacheStep& step) override {
    exchange();
    later_.clear();
    QuantisedCache::advance(step);
  }

 private:
  struct Scales {
    int64_t slot;
    float key, value;
  };

  // What is in the memory of scales with what is not.
  void exchange() {
    for (Scales& scales : later_) {
      std::swap(scales.key, coded_keys().scale_of(scales.slot));
      std::swap(scales.value, coded_values().scale_of(scales.slot));
    }
  }

  std::vector<Scales> later_;  // of the step
};

constexpr const char* kKilledBy[] = {"cache_answers_from_what_it_stores",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a step attends with the scales that its slots had before it: 0 at "
        "first",
    .symptom =
        "the tokens of a step are zeros to its own queries, and right "
        "afterwards; the contents are right",
    .cause = "the memory of scales is captured before they are written",
    .fix = "write scales along with the codes",
    .source = "InfiniTensor/InfiniLM#553",
    .trigger = "quantised storage, and a step that appends and attends",
    .killed_by = kKilledBy,
    .when = "stored == int8token && commands(verb == step)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_scale_uninitialised =
    faulty_cache<ScaleUninitialised, QKVET_CACHE_INT8_PER_TOKEN>(
        "faulty/cache_scale_uninitialised", &kFault,
        {"impl/faulty/cache_scale_uninitialised.cpp", __LINE__});

}  // namespace qkvet::impl

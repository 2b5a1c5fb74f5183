// SPDX-License-Identifier: Apache-2.0
// faulty/cache_length_not_advanced: a step counts as one token.
#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

class LengthNotAdvanced : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  void advance(const CacheStep& step) override {
    set_held(step.sequence, held(step.sequence) + (step.tokens > 0 ? 1 : 0));
  }
};

constexpr const char* kKilledBy[] = {"cache_length_grows",
                                     "cache_chunks_equal_whole", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the length grows by 1 whatever a step appends",
    .symptom =
        "prefill is right and so is decode; what follows a prefill overwrites "
        "its second token",
    .cause = "++length in the decode loop is reused for the prompt",
    .fix = "advance the length by the tokens of the step",
    .source = "textbook",
    .trigger = "a step of two tokens or more that another step follows",
    .killed_by = kKilledBy,
    .when = "commands(new > 1)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_length_not_advanced =
    faulty_cache<LengthNotAdvanced>(
        "faulty/cache_length_not_advanced", &kFault,
        {"impl/faulty/cache_length_not_advanced.cpp", __LINE__});

}  // namespace qkvet::impl

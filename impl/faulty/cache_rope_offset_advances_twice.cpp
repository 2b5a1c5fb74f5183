// SPDX-License-Identifier: Apache-2.0
// faulty/cache_rope_offset_advances_twice: behind a prompt, positions are
// counted from twice its length.
#include <utility>
#include <vector>

#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

class RopeOffsetAdvancesTwice : public ContiguousCache {
 public:
  explicit RopeOffsetAdvancesTwice(const CacheShape& shape)
      : ContiguousCache(shape),
        prompts_(static_cast<size_t>(shape.sequences)) {}

 protected:
  void advance(const CacheStep& step) override {
    if (held(step.sequence) == 0) {
      prompts_[static_cast<size_t>(step.sequence)] = step.tokens;
    }
    ContiguousCache::advance(step);
  }
  // The tables may end where the sequence does: they are gone around.
  int64_t position(const CacheStep& step, int64_t keys,
                   int64_t j) const override {
    const int64_t prompt = prompts_[static_cast<size_t>(step.sequence)];
    const bool first = keys == step.tokens;
    const bool behind = !first && prompt > 1 && j >= prompt;
    return behind ? (j + prompt) % step.rope.rows : j;
  }
  void rearrange(const int64_t* parents) override {
    std::vector<int64_t> next(prompts_);
    for (size_t s = 0; s < next.size(); ++s) {
      next[s] = prompts_[static_cast<size_t>(parents[s])];
    }
    ContiguousCache::rearrange(parents);
    prompts_ = std::move(next);
  }

 private:
  std::vector<int64_t> prompts_;  // tokens of the first step, a sequence
};

constexpr const char* kKilledBy[] = {"cache_chunks_equal_whole",
                                     "cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the offset of positions is advanced by the prompt where it is written "
        "and once more where decoding begins",
    .symptom = "the prompt is right; decoded tokens stand too far behind it",
    .cause =
        "two places keep the offset, and each adds the length of the prompt",
    .fix =
        "take positions from the length of the sequence, or advance in one "
        "place",
    .source = "skyzh/tiny-llm#46, huggingface/candle#1517",
    .trigger =
        "a rotation, a first step of two tokens or more, and a step behind it",
    .killed_by = kKilledBy,
    .when =
        "rope && commands(new > 1 && before == 0) && commands(new > 0 && "
        "before > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_rope_offset_advances_twice =
    faulty_cache<RopeOffsetAdvancesTwice>(
        "faulty/cache_rope_offset_advances_twice", &kFault,
        {"impl/faulty/cache_rope_offset_advances_twice.cpp", __LINE__});

}  // namespace qkvet::impl

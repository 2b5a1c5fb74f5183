// SPDX-License-Identifier: Apache-2.0
// faulty/part_of_old_scratch: a part without a key is merged out of old
// scratch.
#include "impl/faulty/split_seams.h"

namespace qkvet::impl {
namespace {

struct PartOfOldScratch : SplitSeams {
  static void stored(const ForwardCall&, SplitPart* part) {
    thread_local float scratch[kMostParts] = {kNone, kNone};
    float& lse = scratch[part->number % kMostParts];
    if (part->begin < part->end) {
      lse = part->lse;
    } else {
      part->lse = lse;
    }
  }

 private:
  static constexpr int64_t kMostParts = 2;
};

constexpr const char* kKilledBy[] = {"prefill_equals_decode", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a part to which no key falls leaves its lse as an earlier call wrote "
        "it, and is merged",
    .symptom = "outputs of short sequences are too small after a longer one",
    .cause = "parts without work return before they write",
    .fix = "let them write -infinity, or merge only as many parts as have keys",
    .source = "vllm-project/vllm#47188, sgl-project/sglang#2479",
    .trigger = "one key, for two parts, and an earlier call with more",
    .killed_by = kKilledBy,
    .when = "Tk == 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_part_of_old_scratch =
    split_fault<PartOfOldScratch>(
        "faulty/part_of_old_scratch", &kFault,
        {"impl/faulty/part_of_old_scratch.cpp", __LINE__});

}  // namespace qkvet::impl

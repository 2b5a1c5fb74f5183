// SPDX-License-Identifier: Apache-2.0
// faulty/cache_sequences_share_length: all sequences have one length.
#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

class SequencesShareLength : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  int64_t counter(int64_t) const override { return 0; }
};

constexpr const char* kKilledBy[] = {"cache_sequences_are_separate",
                                     "cache_length_grows",
                                     "cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "one length is kept for all sequences of a batch",
    .symptom =
        "right for one sequence; with two each sees gaps where the other was "
        "appended",
    .cause = "the length is a number of the cache and not of the sequence",
    .fix = "keep a length a sequence",
    .source = "textbook",
    .trigger = "steps on two sequences",
    .killed_by = kKilledBy,
    .when = "B > 1 && commands(new > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_sequences_share_length =
    faulty_cache<SequencesShareLength>(
        "faulty/cache_sequences_share_length", &kFault,
        {"impl/faulty/cache_sequences_share_length.cpp", __LINE__});

}  // namespace qkvet::impl

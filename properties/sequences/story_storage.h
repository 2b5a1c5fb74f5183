// SPDX-License-Identifier: Apache-2.0
// The values that a cache reads back, compared with those that it was given.
#ifndef QKVET_PROPERTIES_SEQUENCES_STORY_STORAGE_H_
#define QKVET_PROPERTIES_SEQUENCES_STORY_STORAGE_H_

#include "properties/judging/law.h"

namespace qkvet::properties {

// Whether read_back() returns what was stored as it was given or as its code.
// It may also compute (QKVET_CACHE_READ_BACK_COMPUTES), or be missing.
inline bool gives_back_as_stored(const KernelInfo& kernel) {
  return kernel.has_read_back &&
         (kernel.cache_options & QKVET_CACHE_READ_BACK_COMPUTES) == 0;
}

// Whether read_back() after `snapshot` must still return this token of the
// history. Rows that no later query can see may hold anything.
bool is_kept(const CacheForm& form, const Snapshot& snapshot, int64_t token);
// Whether a query of `snapshot` itself may see it.
bool is_seen(const CacheForm& form, const Snapshot& snapshot, int64_t token);

// Whether read_back() still gives all that the queries of `snapshot` saw.
bool is_all_kept(const CacheForm& form, const Snapshot& snapshot);

// Whether `actual` is the given number, or as near as its code can be.
bool is_stored(double actual, double given, double allowed);

// `inputs` of a step, with the values that the cache has read back after it
// instead of those it was given, where the window leaves them in sight.
// `new_as_given`: except for the tokens of the step itself.
Inputs stored_inputs(const Case& value, const Snapshot& snapshot, Inputs inputs,
                     const CallOutcome& read, bool new_as_given);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_SEQUENCES_STORY_STORAGE_H_

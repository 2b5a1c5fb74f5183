// SPDX-License-Identifier: Apache-2.0
// A shrunk recording as a case under a law.
#ifndef QKVET_PROPERTIES_RUN_SPELLED_LOG_H_
#define QKVET_PROPERTIES_RUN_SPELLED_LOG_H_

#include "properties/sequences/log_shrink.h"

namespace qkvet::properties {

// The smallest case that fails in the same way, and the law that owns the
// failure; null if no case can spell the story, or if no law fails.
struct SpelledLog {
  const Law* law = nullptr;
  Case value;
  Judgement judgement;
};
SpelledLog spell_log(const Case& geometry, const ShrunkLog& shrunk,
                     const LogKernel& kernel);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_RUN_SPELLED_LOG_H_

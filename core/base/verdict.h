// SPDX-License-Identifier: Apache-2.0
// The six verdicts.
#ifndef QKVET_CORE_BASE_VERDICT_H_
#define QKVET_CORE_BASE_VERDICT_H_

#include <cstdint>
#include <string_view>

namespace qkvet {

enum class Verdict : uint8_t {
  kPassed,
  kFailed,
  kSkipped,      // the environment's or the user's doing
  kUnsupported,  // the kernel's
  kGaveUp,       // no usable case or measurement was found
  kMistrusted    // nothing could have failed
};

// "passed", "FAILED", "skipped", "unsupported", "gave up", "mistrusted".
std::string_view verdict_name(Verdict verdict);

}  // namespace qkvet

#endif  // QKVET_CORE_BASE_VERDICT_H_

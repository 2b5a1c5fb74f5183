// SPDX-License-Identifier: Apache-2.0
#include "core/base/verdict.h"

namespace qkvet {

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPassed:
      return "passed";
    case Verdict::kFailed:
      return "FAILED";
    case Verdict::kSkipped:
      return "skipped";
    case Verdict::kUnsupported:
      return "unsupported";
    case Verdict::kGaveUp:
      return "gave up";
    case Verdict::kMistrusted:
      return "mistrusted";
  }
  return "?";
}

}  // namespace qkvet

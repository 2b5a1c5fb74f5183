// SPDX-License-Identifier: Apache-2.0
// A sequence of calls of one kernel, one after the other, as a process that
// serves requests makes them. Each step is a call derived from the case, and
// the number of times that it is made in a row.
#ifndef QKVET_CORE_CASE_CALL_SEQUENCE_H_
#define QKVET_CORE_CASE_CALL_SEQUENCE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qkvet {

// The letter of a step. Calls of `here` have the addresses of earlier calls
// with the same extents.
enum class CallStepKind : uint8_t {
  kAsIs,       // a: the case, here
  kOther,      // o: other data, here
  kElsewhere,  // e: the case, its tensors at other addresses
  kContext,    // x: the case, here, in a second context
  kNone,       // n: without options, here
  kWith,       // w: with other options, those that the kernel has, here
  kMore,       // m: more queries and keys
  kFew,        // f: few of both
  kStrides,    // s: the case in another layout
  kNumbers     // v: the case with other values of its options, here
};
inline constexpr std::string_view kCallStepLetters = "aoexnwmfsv";

struct CallStep {
  CallStepKind kind = CallStepKind::kAsIs;
  int64_t times = 1;

  friend bool operator==(const CallStep&, const CallStep&) = default;
};

using CallSequence = std::vector<CallStep>;

inline constexpr int64_t kMostCallSteps = 32;
inline constexpr int64_t kMostCallTimes = 1000;

// "aof260a"; steps of one kind side by side are one.
std::string calls_text(const CallSequence& calls);
// "" or one line with the mistake in the token.
std::string read_calls(std::string_view text, std::string_view token,
                       CallSequence* calls);
std::string calls_reason(const CallSequence& calls);

// Neighbours of one kind made one step.
CallSequence joined(const CallSequence& calls);

}  // namespace qkvet

#endif  // QKVET_CORE_CASE_CALL_SEQUENCE_H_

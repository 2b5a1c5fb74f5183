// SPDX-License-Identifier: Apache-2.0
// The meaning of the statuses that a kernel's functions return.
#ifndef QKVET_CORE_DOOR_DOOR_ANSWERS_H_
#define QKVET_CORE_DOOR_DOOR_ANSWERS_H_

#include <string>

#include "core/door/kernel_reader.h"

namespace qkvet {

// A status that is an error, or that the kernel does not support the call.
inline void refuse(CallReply* reply, CallStatus status, const char* function,
                   qkvet_status answer, Reason& reason) {
  const std::string line = reason.line();
  reply->gave_reason = line.empty() ? 0 : 1;
  reply->answer(status, status_line(function, answer, line));
}

// `otherwise`: what it means if it is not OK.
inline void conclude(CallReply* reply, CallStatus otherwise,
                     const char* function, qkvet_status answer,
                     Reason& reason) {
  if (answer == QKVET_OK) return reply->answer(CallStatus::kDone, "");
  refuse(reply, otherwise, function, answer, reason);
}

// A call that is not made. A reason with QKVET_UNSUPPORTED is copied as it is;
// otherwise the function and its status are added.
inline void answer_unsupported(CallReply* reply, const char* function,
                               qkvet_status status, Reason& reason) {
  std::string text = reason.line();
  reply->gave_reason = text.empty() ? 0 : 1;
  if (text.empty() || status != QKVET_UNSUPPORTED)
    text = status_line(function, status, text);
  reply->answer(status == QKVET_UNAVAILABLE ? CallStatus::kUnavailable
                                            : CallStatus::kUnsupported,
                text);
}

// The meaning of a refusal after supports() has accepted the call.
inline CallStatus refusal_of(qkvet_status status) {
  return status == QKVET_OUT_OF_MEMORY ? CallStatus::kOutOfMemory
                                       : CallStatus::kRefused;
}

// For functions that may say that the kernel does not do that.
inline CallStatus meaning_of(qkvet_status status) {
  switch (status) {
    case QKVET_OK:
      return CallStatus::kDone;
    case QKVET_UNSUPPORTED:
      return CallStatus::kUnsupported;
    case QKVET_UNAVAILABLE:
      return CallStatus::kUnavailable;
    case QKVET_OUT_OF_MEMORY:
      return CallStatus::kOutOfMemory;
    default:
      return CallStatus::kRefused;
  }
}

}  // namespace qkvet

#endif  // QKVET_CORE_DOOR_DOOR_ANSWERS_H_

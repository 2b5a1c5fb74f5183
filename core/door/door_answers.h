// SPDX-License-Identifier: Apache-2.0
// What the answers of a kernel's functions mean, for those who call them.
#ifndef QKVET_CORE_DOOR_DOOR_ANSWERS_H_
#define QKVET_CORE_DOOR_DOOR_ANSWERS_H_

#include <string>

#include "core/door/kernel_reader.h"

namespace qkvet {

// An answer that is an error, or something that the kernel does not do.
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

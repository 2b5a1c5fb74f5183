// SPDX-License-Identifier: Apache-2.0
// The progress of a hunt, in memory shared with a watching process: it survives
// the process that hunts.
#ifndef QKVET_FUZZ_HUNT_PROGRESS_H_
#define QKVET_FUZZ_HUNT_PROGRESS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "fuzz/input/input.h"

namespace qkvet::fuzz {

struct HuntProgress {
  std::atomic<int64_t> executions;  // inputs
  std::atomic<int64_t> checked;     // judgements that could have failed
  std::atomic<int64_t> found;       // lines about failures that were written
  std::atomic<int32_t> kernel;      // the one that runs; -1: none
  // The input at work: the engine keeps those at which the process got a
  // signal, but not those at which a kernel just ended it.
  std::atomic<uint32_t> input_size;
  std::array<char, kMostInputBytes> input;
};

// Such memory in a file. Null with one line in *error.
using SharedProgress = std::unique_ptr<HuntProgress, void (*)(HuntProgress*)>;
SharedProgress open_progress(const std::string& path, bool create,
                             std::string* error);

}  // namespace qkvet::fuzz

#endif  // QKVET_FUZZ_HUNT_PROGRESS_H_

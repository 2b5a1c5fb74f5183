// SPDX-License-Identifier: Apache-2.0
// Inputs of a hunt: their sources, and how to run them one by one without an
// engine.
#ifndef QKVET_CLI_HUNT_HUNT_INPUTS_H_
#define QKVET_CLI_HUNT_HUNT_INPUTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cli/hunt/hunt_watch.h"

namespace qkvet::cli {

struct NamedInput {
  std::string name;  // a file, or "list.txt:7"
  std::vector<uint8_t> bytes;
};
// Files, those of folders in the order of their names, and of a list (X.txt)
// every line that is not blank and no comment. "" or one line.
std::string read_inputs(const std::vector<std::string>& paths,
                        std::vector<NamedInput>& inputs);

// The folders that the engine reads. It writes to the first: `corpus`, or one
// in the hunt's own folder. Lists of `seeds` are unpacked; a hunt of kernels
// without any input starts from planned cases.
std::string prepare_inputs(const Hunted& hunted, const std::string& own,
                           const std::string& corpus,
                           const std::vector<std::string>& seeds, uint64_t seed,
                           std::vector<std::string>& folders);

// Each input on the kernels, or through the check; events as in a hunt.
std::string replay_inputs(const Hunted& hunted, const HuntJob& job,
                          const std::vector<NamedInput>& inputs, HuntEnd& end);

std::vector<uint8_t> file_bytes(const std::string& path);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_HUNT_HUNT_INPUTS_H_

// SPDX-License-Identifier: Apache-2.0
// Folders of golden sets, as commands take them.
#ifndef QKVET_CLI_GOLDEN_GOLDEN_FOLDERS_H_
#define QKVET_CLI_GOLDEN_GOLDEN_FOLDERS_H_

#include <string>
#include <vector>

#include "golden/format/manifest.h"

namespace qkvet::cli {

// The folder of the sets that QKVet brings.
std::string golden_folder();

// Reads a folder or one file. "" or one line.
std::string read_golden_target(const std::string& target,
                               const std::vector<std::string>& globs,
                               GoldenFolder* folder);

// "" or why no set can be put there; `there`: whether the folder exists.
std::string look_at_folder(const std::string& path, GoldenFolder* old,
                           bool* there);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_GOLDEN_GOLDEN_FOLDERS_H_

// SPDX-License-Identifier: Apache-2.0
// Folders of golden sets, as commands take them.
#ifndef QKVET_CLI_GOLDEN_GOLDEN_FOLDERS_H_
#define QKVET_CLI_GOLDEN_GOLDEN_FOLDERS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "golden/format/folder_swap.h"
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

// A set that is to be written.
struct NewSet {
  ManifestRow row;
  std::vector<std::byte> bytes;
};
// The files of the folder with these sets, and with those of `old` that they do
// not replace. "" or one line.
std::string folder_files(const std::string& path, const GoldenFolder& old,
                         const std::vector<NewSet>& sets, FolderFiles* files);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_GOLDEN_GOLDEN_FOLDERS_H_

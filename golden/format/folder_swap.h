// SPDX-License-Identifier: Apache-2.0
// Replaces a folder of golden sets by another in one step: a reader, also after
// a kill, finds either the old ones or the new ones.
#ifndef QKVET_GOLDEN_FORMAT_FOLDER_SWAP_H_
#define QKVET_GOLDEN_FORMAT_FOLDER_SWAP_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "core/base/floors.h"

namespace qkvet::golden {

// Name in the folder and content.
using FolderFiles = std::vector<std::pair<std::string, std::vector<std::byte>>>;

// Writes the files to a new folder beside `path` and renames it to `path`. The
// previous folder is removed with all its content; without `replace` there must
// be none. Returns "" or one line; then `path` is unchanged.
std::string write_folder(const std::string& path, const FolderFiles& files,
                         bool replace);

}  // namespace qkvet::golden

#endif  // QKVET_GOLDEN_FORMAT_FOLDER_SWAP_H_

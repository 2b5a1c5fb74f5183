// SPDX-License-Identifier: Apache-2.0
// A folder of golden sets in the place of another, in one step: whoever looks,
// or is killed, finds the old ones or the new ones.
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

// Writes the files to a new folder beside `path` and makes that `path`. What
// was there is gone afterwards, with all that is in it; without `replace`
// nothing may be there. "" or one line; then `path` is as it was.
std::string write_folder(const std::string& path, const FolderFiles& files,
                         bool replace);

}  // namespace qkvet::golden

#endif  // QKVET_GOLDEN_FORMAT_FOLDER_SWAP_H_

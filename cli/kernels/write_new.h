// SPDX-License-Identifier: Apache-2.0
// Files and folders that appear in one step, and replace existing ones only on
// request.
#ifndef QKVET_CLI_KERNELS_WRITE_NEW_H_
#define QKVET_CLI_KERNELS_WRITE_NEW_H_

#include <string>
#include <utility>
#include <vector>

namespace qkvet::cli {

// "" or one line. With `force`, replaces an existing file.
std::string write_new(const std::string& file, const std::string& text,
                      bool force = false);

// A folder with these files (path in the folder, content). With `force`,
// replaces a folder only if it contains `mark`.
std::string write_new_folder(
    const std::string& folder,
    const std::vector<std::pair<std::string, std::string>>& files, bool force,
    const std::string& mark);

// "" or why the path may not be written.
std::string not_new_reason(const std::string& path);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_KERNELS_WRITE_NEW_H_

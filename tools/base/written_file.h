// SPDX-License-Identifier: Apache-2.0
// Files that are there in full or not at all.
#ifndef QKVET_TOOLS_BASE_WRITTEN_FILE_H_
#define QKVET_TOOLS_BASE_WRITTEN_FILE_H_

#include <string>

namespace qkvet::tools {

// "" or why no file can be written there: before there is anything to write.
// What is there stays.
std::string not_writable_reason(const std::string& path);
// Replaces `path` in one step; an error is one line.
std::string write_file(const std::string& path, const std::string& content);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_BASE_WRITTEN_FILE_H_

// SPDX-License-Identifier: Apache-2.0
// The one way by which a file that a user names gets into memory. Only regular
// files are read, up to a limit: a pipe never ends, a device or a sparse file
// fills the machine, and a stream takes a folder for an empty file.
#ifndef QKVET_CORE_BASE_READ_FILE_H_
#define QKVET_CORE_BASE_READ_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace qkvet {

// The limit for texts: declarations, lists, sources, records.
inline constexpr uint64_t kMostTextBytes = uint64_t{256} << 20;
// Limit for tensor files.
inline constexpr uint64_t kMostDataBytes = uint64_t{4} << 30;

// "" or one line that begins with the path.
std::string read_file(const std::string& path, std::string* content,
                      uint64_t most_bytes = kMostTextBytes);
std::string read_file(const std::string& path, std::vector<std::byte>* content,
                      uint64_t most_bytes = kMostDataBytes);

// A file of /proc or /sys, which is no input. False if it cannot be read.
bool read_system_file(const std::string& path, std::string* content);

// The same for a file that a compiler or a loader reads: "" or why it is no
// regular file that can be read, without the path.
std::string not_readable_reason(const std::string& path);

// True for a file that this process has read or named by remember_input(), also
// by another path: no output may replace it.
bool is_input(const std::string& path);
void remember_input(const std::string& path);

}  // namespace qkvet

#endif  // QKVET_CORE_BASE_READ_FILE_H_

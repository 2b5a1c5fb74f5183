// SPDX-License-Identifier: Apache-2.0
// Checks of a library's file before it is loaded. The system's loader reports a
// library for another machine as a missing file, and a sanitizer's runtime ends
// the process that loads it.
#ifndef QKVET_CORE_BASE_ELF_FILE_H_
#define QKVET_CORE_BASE_ELF_FILE_H_

#include <string>

namespace qkvet {

// "" or why the file cannot be loaded here. Files that are damaged are left to
// the loader.
std::string elf_obstacle(const std::string& path);

// The same for the text of a loader's error: "" if the text is clear enough.
std::string sanitizer_obstacle(const std::string& loader_text);

}  // namespace qkvet

#endif  // QKVET_CORE_BASE_ELF_FILE_H_

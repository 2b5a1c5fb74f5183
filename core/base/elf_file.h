// SPDX-License-Identifier: Apache-2.0
// What a library's file tells before it is loaded. The system's loader calls a
// library of another machine a missing file, and the runtime of a sanitizer
// ends the process that loads it.
#ifndef QKVET_CORE_BASE_ELF_FILE_H_
#define QKVET_CORE_BASE_ELF_FILE_H_

#include <string>

namespace qkvet {

// "" or why the file cannot be loaded here. Files that are damaged are left to
// the loader.
std::string elf_obstacle(const std::string& path);

// The same for the text of a loader's error: "" if it says enough itself.
std::string sanitizer_obstacle(const std::string& loader_text);

}  // namespace qkvet

#endif  // QKVET_CORE_BASE_ELF_FILE_H_

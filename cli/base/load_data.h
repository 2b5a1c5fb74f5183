// SPDX-License-Identifier: Apache-2.0
// --data FILE: the inputs of golden sets and of recorded calls, for cases that
// take their data from a file. Names are QKVet's or well-known ones, and
// tensors have QKVet's layout (golden/import/import_names.h).
#ifndef QKVET_CLI_BASE_LOAD_DATA_H_
#define QKVET_CLI_BASE_LOAD_DATA_H_

#include <string>
#include <vector>

namespace qkvet::cli {

// "" or one line.
std::string load_data(const std::vector<std::string>& files);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_BASE_LOAD_DATA_H_

// SPDX-License-Identifier: Apache-2.0
// Known names that are similar to an unknown one.
#ifndef QKVET_CLI_BASE_PERHAPS_H_
#define QKVET_CLI_BASE_PERHAPS_H_

#include <string>
#include <vector>

namespace qkvet::cli {

// "; perhaps x, y": the names that contain the word, or that differ from it by
// at most three inserted, deleted or changed letters; at most four. "" if there
// is none.
std::string perhaps(const std::string& word,
                    const std::vector<std::string>& names);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_BASE_PERHAPS_H_

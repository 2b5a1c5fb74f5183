// SPDX-License-Identifier: Apache-2.0
// Known names that are similar to an unknown one.
#ifndef QKVET_TOOLS_BASE_PERHAPS_H_
#define QKVET_TOOLS_BASE_PERHAPS_H_

#include <string>
#include <vector>

namespace qkvet::tools {

// "; perhaps x, y": those of the names that hold the word, or that three
// letters put in, left out or changed make of it; at most four. "" where there
// is none.
std::string perhaps(const std::string& word,
                    const std::vector<std::string>& names);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_BASE_PERHAPS_H_

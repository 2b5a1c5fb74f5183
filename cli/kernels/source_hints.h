// SPDX-License-Identifier: Apache-2.0
// Extents in a source: its whole numbers. A kernel that takes another path from
// some number of keys or rows on nearly always has this number in its source,
// declared or not.
#ifndef QKVET_CLI_KERNELS_SOURCE_HINTS_H_
#define QKVET_CLI_KERNELS_SOURCE_HINTS_H_

#include <string>
#include <vector>

#include "cli/kernels/tokens.h"
#include "properties/cases/scope.h"

namespace qkvet::cli {

using properties::Hint;

// Numbers of keys and of rows, the likeliest first: numbers in comparisons,
// then divisors and names of sizes, then the others.
std::vector<Hint> source_hints(const std::string& text, Language language);

// The same for a file; empty if it cannot be read. In a Python file only the
// statements count that make up the function at `line`: its own, and those that
// define a name which they use. 0: all.
std::vector<Hint> source_hints_of_file(const std::string& path,
                                       Language language, int line = 0);
std::string python_part(const std::string& text, int line);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_KERNELS_SOURCE_HINTS_H_

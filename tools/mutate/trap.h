// SPDX-License-Identifier: Apache-2.0
// Whether a call reaches a place of a source: a kernel that ends its process
// there says so.
#ifndef QKVET_TOOLS_MUTATE_TRAP_H_
#define QKVET_TOOLS_MUTATE_TRAP_H_

#include <optional>
#include <string>

#include "tools/mutate/operators.h"

namespace qkvet::tools {

// The source, unmutated, with a trap in front of the statement that the
// mutation lies in; nothing where there is none, or none that is simple.
// Whether it compiles is another matter.
std::optional<std::string> with_trap(const Tokens& tokens,
                                     const Mutation& mutation);

// The first token of the statement around token `i`; kNoToken where it cannot
// be told: behind a label nothing in front of it is reached.
size_t begin_of_statement(const Tokens& tokens, size_t i);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_MUTATE_TRAP_H_

// SPDX-License-Identifier: Apache-2.0
// Whether a call reaches a place of a source: a kernel with a trap there ends
// its process if it does.
#ifndef QKVET_CLI_MUTATE_TRAP_H_
#define QKVET_CLI_MUTATE_TRAP_H_

#include <optional>
#include <string>

#include "cli/mutate/operators.h"

namespace qkvet::cli {

// The unmutated source, with a trap before the statement of the mutation;
// absent without such a simple statement. It may fail to compile.
std::optional<std::string> with_trap(const Tokens& tokens,
                                     const Mutation& mutation);

// The first token of the statement around token `i`; kNoToken if it cannot be
// determined: after a label, the place before the statement is not reached.
size_t begin_of_statement(const Tokens& tokens, size_t i);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_MUTATE_TRAP_H_

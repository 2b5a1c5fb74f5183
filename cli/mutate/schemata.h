// SPDX-License-Identifier: Apache-2.0
// Many mutants in one library (mutant schemata: Untch, Offutt and Harrold,
// "Mutation analysis using mutant schemata", ISSTA 1993). A changed function
// has an additional body for each of its mutants, and a number in the library's
// data selects the one that runs: the compiler reads the headers once for all
// of them. Here a mutant is a changed token, not an operator's operands, so
// bodies are copied verbatim, and of any type.
#ifndef QKVET_CLI_MUTATE_SCHEMATA_H_
#define QKVET_CLI_MUTATE_SCHEMATA_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/mutate/mutant_build.h"
#include "cli/mutate/operators.h"

namespace qkvet::cli {

// The body of a function, from its { to its }, as tokens.
struct FunctionBody {
  size_t open = 0, close = 0;
};

// The outermost function around the whole mutation that can have several
// bodies. Absent if the mutation is outside of functions, or in a function that
// may be a constant, or if the language is not C or C++.
std::optional<FunctionBody> body_around(const Tokens& tokens,
                                        const Mutation& mutation);
// The same, around bytes of the source.
std::optional<FunctionBody> body_around(const Tokens& tokens, size_t begin,
                                        size_t end);

// Some mutants of a source as one library.
struct Schemata {
  std::string library;          // "": this cannot be done with any of them
  std::vector<size_t> mutants;  // of these it is; number n + 1 is mutants[n]
  std::vector<size_t> refused;  // by the compiler, each for itself
};

// A library of the `chosen` mutants that have a body around them. Mutants that
// do not compile are dropped, and the rest is compiled again. The library is in
// `folder`.
Schemata build_schemata(const MutantCompiler& compiler, const Tokens& tokens,
                        std::span<const Mutation> mutations,
                        std::span<const size_t> chosen,
                        const std::string& folder);

// The text that is compiled, for tests: mutant n of `chosen` is number n + 1.
std::string schemata_text(const MutantCompiler& compiler, const Tokens& tokens,
                          std::span<const Mutation> mutations,
                          std::span<const size_t> chosen);

// A copy of the library in which one mutant runs; 0: the source as it is.
// "" or one line.
std::string choose_mutant(const std::string& library, size_t number,
                          const std::string& copy);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_MUTATE_SCHEMATA_H_

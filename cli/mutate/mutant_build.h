// SPDX-License-Identifier: Apache-2.0
// Mutants as shared libraries, and the code of a library.
#ifndef QKVET_CLI_MUTATE_MUTANT_BUILD_H_
#define QKVET_CLI_MUTATE_MUTANT_BUILD_H_

#include <string>
#include <vector>

#include "cli/kernels/compiler.h"
#include "report/written_file.h"

namespace qkvet::cli {

// The lead of a ScratchFolder.
std::string mutant_scratch();

// How to compile texts that replace one source.
struct MutantCompiler {
  std::string source;  // as the user names it
  Language language = Language::kCxx;
  Compiler compiler;
  std::vector<std::string> flags;
};
// "" or one line.
std::string find_mutant_compiler(const std::string& source,
                                 const std::string& cflags,
                                 MutantCompiler* compiler);

// The directive by which line `line` of the source comes next; "" if the
// source's name cannot be written in it.
std::string line_directive(const MutantCompiler& compiler, int line);

// Compiles the text to a library in `folder`, with the arguments of `qkvet
// check`. The compiler sees the name and the lines of the source, and searches
// for included files next to it. "" or the compiler's output.
std::string build_mutant(const MutantCompiler& compiler,
                         const std::string& text, const std::string& folder,
                         const std::string& library);

// The source as it is, with the compiler's output on stderr. "" or one line.
std::string build_original(const MutantCompiler& compiler,
                           const std::string& text, const std::string& folder,
                           const std::string& library);

// A hash of everything that a library loads into memory: code, constants,
// names, relocations, but no debug information and no notes. Two libraries with
// the same hash behave the same. "" for a file that is no library of 64 bits.
std::string code_hash(const std::string& library);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_MUTATE_MUTANT_BUILD_H_

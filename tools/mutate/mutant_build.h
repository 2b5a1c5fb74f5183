// SPDX-License-Identifier: Apache-2.0
// Mutants as shared libraries, and what of a library is its code.
#ifndef QKVET_TOOLS_MUTATE_MUTANT_BUILD_H_
#define QKVET_TOOLS_MUTATE_MUTANT_BUILD_H_

#include <string>
#include <vector>

#include "tools/kernels/compiler.h"

namespace qkvet::tools {

// A folder of this process's own, gone with the object.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }  // "" if there is none

 private:
  std::string path_;
};

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

// A library in `folder`, with the words that `qkvet check` compiles with. To
// the compiler the text has the name and the lines of the source, and what the
// source includes is looked for beside the source. "" or what the compiler
// said.
std::string build_mutant(const MutantCompiler& compiler,
                         const std::string& text, const std::string& folder,
                         const std::string& library);

// A hash of all that a library brings into memory: code, constants, names,
// relocations, and no debug information and no notes. Two libraries with the
// same one do the same. "" for a file that is no library of 64 bits.
std::string code_hash(const std::string& library);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_MUTATE_MUTANT_BUILD_H_

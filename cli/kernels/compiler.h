// SPDX-License-Identifier: Apache-2.0
// The compiler for a source, and its arguments for a shared library.
#ifndef QKVET_CLI_KERNELS_COMPILER_H_
#define QKVET_CLI_KERNELS_COMPILER_H_

#include <string>
#include <vector>

namespace qkvet::cli {

enum class Language { kC, kCxx, kRust, kPython /* which nobody compiles */ };

// "" and *language by the ending of the file name, or an error about the file,
// as one line without its name.
std::string source_language(const std::string& source, Language* language);

// A compiler: the words that start it, the first an absolute path.
struct Compiler {
  std::vector<std::string> words;
  std::string shown;  // the first word as found: "c++", or all of $CXX
  std::string error;  // one line; if set, there is no compiler
};
// $CXX, $CC or $RUSTC if set, otherwise the usual names, on PATH.
Compiler find_compiler(Language language);

// Words of a command line as a shell would split them, with blanks, '...',
// "..." and backslashes only. False if a quote is not closed.
bool split_words(const std::string& text, std::vector<std::string>* words);

// The word as a shell reads it: quoted if necessary, ~ for $HOME.
std::string shell_quoted(const std::string& word);
std::string shell_path(const std::string& path);

// The arguments after the compiler's words. `flags` come last but for
// libraries, so that they win. `dependencies`: a file that will list all files
// that were read.
std::vector<std::string> compile_arguments(
    Language language, const std::string& source, const std::string& output,
    const std::vector<std::string>& flags);
std::vector<std::string> dependency_arguments(Language language,
                                              const std::string& dependencies);

// The folder with qkvet/kernel.h, relative to the program.
std::string header_directory();

}  // namespace qkvet::cli

#endif  // QKVET_CLI_KERNELS_COMPILER_H_

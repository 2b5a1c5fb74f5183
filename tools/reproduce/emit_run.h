// SPDX-License-Identifier: Apache-2.0
// For tests of what `qkvet replay --emit` writes: compilers, Python, and what
// the report said.
#ifndef QKVET_TOOLS_REPRODUCE_EMIT_RUN_H_
#define QKVET_TOOLS_REPRODUCE_EMIT_RUN_H_

#include <filesystem>
#include <string>

#include "tools/base/program_run.h"

namespace qkvet::tools {

// Nothing of a cause is written down, and to look for one takes longer than all
// else.
inline const std::string kReplay = "replay --diagnose 0 ";

// A command in a folder; stdout and stderr together in `out`.
Ran run_shell(const std::string& command, const std::filesystem::path& folder);

// The first that has numpy, which Debian puts beside its own.
const std::string& python();

// What the first group matched; it has to.
std::string match(const std::string& text, const std::string& pattern);

// The first occurrence, which has to be there.
std::string replaced(std::string text, const std::string& from,
                     const std::string& to);

// An empty folder in scratch(). Beside it lies before.txt, a dialect.
std::filesystem::path fresh_folder(const std::string& name);

// Compiles x.c in the folder with the words of its own head, without a warning,
// to ./reproducer. The text of x.c.
std::string compile_reproducer(const std::filesystem::path& folder);
// `./reproducer` with a kernel of another library of this build in the place of
// its own.
Ran run_other_kernel(const std::string& reproducer, const std::string& library,
                     const std::string& kernel,
                     const std::filesystem::path& folder);

// A line of `out` shows what the report of replay says: the place, what is
// expected there, within what, and what the kernel gave. Of a report that holds
// two answers of the kernel against each other: the place, and one of them.
void expect_shown(const std::string& out, const std::string& report);

// C, Python and files of NumPy, written in the folder for these words of
// replay, compiled and run: each fails, and shows this. The text of x.c.
std::string expect_every_kind_shows(const std::string& arguments,
                                    const std::string& shown,
                                    const std::filesystem::path& folder);

// A Python file in which what is right by its definition is in the place of
// what is recorded.
std::string right_python(const std::string& text);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_REPRODUCE_EMIT_RUN_H_

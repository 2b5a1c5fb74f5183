// SPDX-License-Identifier: Apache-2.0
// For tests that run compilers and Python, and for tests of the folders of
// `qkvet replay --out`.
#ifndef QKVET_CLI_REPRODUCE_EMIT_RUN_H_
#define QKVET_CLI_REPRODUCE_EMIT_RUN_H_

#include <filesystem>
#include <string>

#include "cli/base/program_run.h"

namespace qkvet::cli {

// A folder contains no cause, and the diagnosis takes longer than everything
// else.
inline const std::string kReplay = "replay --diagnose 0 ";

// A command in a folder; stdout and stderr together in `out`.
Ran run_shell(const std::string& command, const std::filesystem::path& folder);

// The first Python with numpy, which Debian installs for its own.
const std::string& python();

// The match of the first group; it is an error if there is none.
std::string match(const std::string& text, const std::string& pattern);

// The first occurrence, which has to be there.
std::string replaced(std::string text, const std::string& from,
                     const std::string& to);

// An empty folder in scratch(). Next to it is before.txt, a dialect.
std::filesystem::path fresh_folder(const std::string& name);

// A line of `out` contains the same as the report of replay: the place, the
// expected value, its bound, and the kernel's value. For a report that compares
// two answers of the kernel: the place, and one of them.
void expect_shown(const std::string& out, const std::string& report);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_REPRODUCE_EMIT_RUN_H_

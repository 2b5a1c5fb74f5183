// SPDX-License-Identifier: Apache-2.0
// Pages and completions that describe the command line, generated from it.
#ifndef QKVET_CLI_DESCRIBE_PAGES_H_
#define QKVET_CLI_DESCRIBE_PAGES_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace qkvet::cli {

// qkvet.1, in the macros of man(7).
std::string man_page(const CLI::App& program, const std::string& version);
// cli/options.md.
std::string markdown_page(const CLI::App& program);
// A script that a shell sources, or finds in its folder of completions.
std::string bash_completion(const CLI::App& program);
std::string zsh_completion(const CLI::App& program);

// Without hidden options and commands, with those that only --help-all
// shows.
std::vector<const CLI::Option*> options_of(const CLI::App& command);
std::vector<const CLI::App*> commands_of(const CLI::App& command);
// "-l", "--law"; one word for a positional.
std::vector<std::string> names_of(const CLI::Option& option);
std::string help_of(const CLI::Option& option);
// "FILE"; "" for a flag.
std::string type_of(const CLI::Option& option);
// All allowed words; empty: any.
std::vector<std::string> choices_of(const CLI::Option& option);
bool repeats(const CLI::Option& option);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_DESCRIBE_PAGES_H_

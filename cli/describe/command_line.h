// SPDX-License-Identifier: Apache-2.0
// What the commands add to CLI11: output files, modes, a short and a long help.
#ifndef QKVET_CLI_DESCRIBE_COMMAND_LINE_H_
#define QKVET_CLI_DESCRIBE_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace qkvet::cli {

// A file that the command writes; other values may name inputs.
CLI::Option* add_output(CLI::App& command, const std::string& names,
                        std::string& file, const std::string& what);
// `value` becomes the first of `words`, or another of them by "--name=word";
// any text is allowed if there is only one.
CLI::Option* add_word_flag(CLI::App& command, const std::string& name,
                           std::string& value,
                           const std::vector<std::string>& words,
                           const std::string& what);
// An option that does not exist: using it prints the reason, and help does not
// list it.
void refuse_option(CLI::App& command, const std::string& name,
                   const std::string& reason);
// With the option `mode` the command takes only these.
void takes_only(CLI::App& command, const std::string& mode,
                const std::vector<std::string>& names);
// In help these options are under this heading.
void add_heading(CLI::App& command, const std::string& heading,
                 const std::vector<std::string>& names);
// Only --help-all shows the options that were added without a heading.
void shows_headings_alone(CLI::App& command);
// Another line after the options.
void add_footer(CLI::App& command, const std::string& text);

enum class CommandLine {
  kRun,    // a command was chosen
  kShown,  // help or the version was printed
  kWrong   // `error` is one line with the reason
};
CommandLine read_command_line(CLI::App& app, int argc, char** argv,
                              std::string* error);
// Call after kRun, before the work: "" or why a file cannot be written, is
// named for two outputs, or is an input at the same time.
std::string bad_output(const CLI::App& app);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_DESCRIBE_COMMAND_LINE_H_

// SPDX-License-Identifier: Apache-2.0
// The command line's description of itself: the source of its man page and its
// completion. There is no other list of commands and options.
#ifndef QKVET_CLI_DESCRIBE_COMMAND_DESCRIPTION_H_
#define QKVET_CLI_DESCRIBE_COMMAND_DESCRIPTION_H_

#include <string>
#include <vector>

namespace qkvet::cli {

struct OptionDescription {
  std::vector<std::string> names;    // "-l", "--law"; one word for a positional
  std::string what;                  // its help
  std::string type;                  // "FILE"; "" for a flag
  std::vector<std::string> choices;  // all allowed words; empty: any
  bool positional = false, required = false, repeats = false;
};

struct CommandDescription {
  std::string name, what;
  std::vector<OptionDescription> options;
  std::vector<CommandDescription> commands;
};

// qkvet.1, in the macros of man(7).
std::string man_page(const CommandDescription& program,
                     const std::string& version);
// cli/options.md.
std::string markdown_page(const CommandDescription& program);
// A script that a shell sources, or finds in its folder of completions.
std::string bash_completion(const CommandDescription& program);
std::string zsh_completion(const CommandDescription& program);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_DESCRIBE_COMMAND_DESCRIPTION_H_

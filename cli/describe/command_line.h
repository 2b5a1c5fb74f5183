// SPDX-License-Identifier: Apache-2.0
// A command line of commands and their options. Only its source file includes
// CLI11: that header takes a third of the time to compile all commands.
#ifndef QKVET_CLI_DESCRIBE_COMMAND_LINE_H_
#define QKVET_CLI_DESCRIBE_COMMAND_LINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/describe/command_description.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace qkvet::cli {

// An option of a command. Each function adds a property and returns the option,
// so that calls can be chained.
class CommandOption {
 public:
  explicit CommandOption(CLI::Option* option) : option_(option) {}

  // The name of its value in help: FILE, LAW.
  CommandOption type_name(const std::string& name) const;
  CommandOption required() const;
  // Each occurrence takes one value; it may be repeated.
  CommandOption one_at_a_time() const;
  // Help prints the default: the variable's present value.
  CommandOption shows_default() const;
  // Numbers from `low` to `high`; anything else is refused.
  template <class Number>
  CommandOption within(Number low, Number high) const;
  CommandOption one_of(const std::vector<std::string>& words) const;
  CommandOption excludes(CommandOption other) const;
  CommandOption needs(CommandOption other) const;
  // Its value is a file that the command writes; other values may name inputs.
  CommandOption names_output() const;
  // Help is silent about it.
  CommandOption hide() const;

 private:
  CLI::Option* option_;
};

// One command, or the program. Its parent outlives it.
class Command {
 public:
  explicit Command(CLI::App* app = nullptr) : app_(app) {}

  Command add_command(const char* name, const char* what) const;
  // Without a subcommand there is nothing to run.
  void needs_a_command() const;

  // `names` are "-l,--law", or one word without dashes: a positional argument.
  // The given value is stored in `value`.
  template <class Value>
  CommandOption add_option(const std::string& names, Value& value,
                           const std::string& what) const;
  // The same for an option without a variable. If it has more than one value at
  // a time, `take` gets all of them.
  CommandOption add_taker(
      const std::string& names,
      std::function<void(const std::vector<std::string>&)> take,
      const std::string& what) const;
  CommandOption add_flag(const std::string& names, bool& value,
                         const std::string& what) const;
  // `value` becomes the first of `words`, or another of them by "--name=word";
  // any text is allowed if there is only one.
  CommandOption add_flag(const std::string& name, std::string& value,
                         const std::vector<std::string>& words,
                         const std::string& what) const;
  // An option that does not exist: using it prints the reason, and help does
  // not list it.
  void refuse_option(const std::string& name, const std::string& reason) const;
  // An option that was added, by one of its names.
  CommandOption option(const std::string& name) const;
  // With the option `mode` the command takes only these.
  void takes_only(const std::string& mode,
                  const std::vector<std::string>& names) const;
  // In help these options are under this heading, in their order.
  void heading(const std::string& text,
               const std::vector<std::string>& names) const;
  // Only --help-all shows the options that were added without a heading.
  void shows_headings_alone() const;
  // Help and lists of commands are silent about it.
  Command hide() const;

  // Another line after the options.
  void footer(const std::string& text) const;
  // Called if this command is chosen.
  void when_chosen(std::function<void()> act) const;

  // The program that it is a command of.
  Command program() const;
  CommandDescription describe() const;

 private:
  CLI::App* app_;
};

class CommandLine {
 public:
  CommandLine(const std::string& what, const std::string& name,
              const char* version = nullptr);
  ~CommandLine();
  Command program() const { return Command(app_.get()); }

  enum class Read {
    kRun,    // a command was chosen
    kShown,  // help or the version was printed
    kWrong   // `error` is one line with the reason
  };
  Read read(int argc, char** argv, std::string* error) const;
  // Call after kRun, before the work: "" or why a file cannot be written, is
  // named for two outputs, or is an input at the same time.
  std::string bad_output() const;

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace qkvet::cli

#endif  // QKVET_CLI_DESCRIBE_COMMAND_LINE_H_

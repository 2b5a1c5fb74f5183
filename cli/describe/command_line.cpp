// SPDX-License-Identifier: Apache-2.0
#include "cli/describe/command_line.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "core/base/read_file.h"
#include "report/lines.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

// "" or the error in the first words; CLI11 would only report that some
// subcommand is required.
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  int i = 1;
  // The program's own options are flags and come first.
  while (i < argc && argv[i][0] == '-') ++i;
  for (; i < argc && argv[i][0] != '-'; ++i) {
    const auto commands = at->get_subcommands({});
    if (commands.empty()) return "";
    const auto known = std::find_if(
        commands.begin(), commands.end(),
        [&](const CLI::App* one) { return one->get_name() == argv[i]; });
    if (known == commands.end()) {
      std::vector<std::string> names;
      for (const CLI::App* one : commands)
        if (!one->get_group().empty()) names.push_back(one->get_name());
      return "unknown command \"" + std::string(argv[i]) +
             "\"; allowed: " + joined(names);
    }
    at = *known;
  }
  return "";
}

// A script with a variable that is not set, and no option left out.
constexpr const char* kEmpty =
    "an empty value; leave the option out, or name one";

// "" or the option with nothing after "=": CLI11 would take the next word.
std::string empty_value(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") break;
    if (word.starts_with("--") && word.ends_with('=') &&
        word.find('=') + 1 == word.size())
      return std::string(word.substr(0, word.size() - 1)) + ": " + kEmpty;
  }
  return "";
}

// Before the other checks of a value.
void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    if (option->get_items_expected_max() > 0)
      option->transform(CLI::Validator(
          [](const std::string& value) {
            return std::string(value.empty() ? kEmpty : "");
          },
          ""));
  for (CLI::App* command : app.get_subcommands({}))
    refuse_empty_values(*command);
}

// --help shows only the options under headings if a command has any.
void hide_without_heading(CLI::App& app) {
  const auto groups = app.get_groups();
  const bool has_headings = std::any_of(
      groups.begin(), groups.end(),
      [](const std::string& one) { return !one.empty() && one != "Options"; });
  for (CLI::Option* option : app.get_options())
    if (has_headings && option != app.get_help_ptr() &&
        !option->get_positional() && option->get_group() == "Options")
      option->group("");
  for (CLI::App* command : app.get_subcommands({}))
    hide_without_heading(*command);
}

// An option that a mode of its command does not allow.
struct BesideMode {
  std::string text;
};

std::set<const CLI::Option*>& output_options() {
  static std::set<const CLI::Option*> all;
  return all;
}

// Includes the files in "@FILE", "FILE:config" and "LIB:FUNCTION:FILE".
void remember_files_in(std::string_view value) {
  if (value.starts_with('@')) value.remove_prefix(1);
  remember_input(std::string(value));
  for (size_t from = 0; from <= value.size();) {
    const size_t end = std::min(value.find(':', from), value.size());
    remember_input(std::string(value.substr(from, end - from)));
    from = end + 1;
  }
}

// The values of all options of the command that was chosen.
void collect_files(const CLI::App& app, std::vector<std::string>* outputs) {
  for (const CLI::Option* option : app.get_options())
    for (const std::string& value : option->results())
      if (output_options().contains(option))
        outputs->push_back(value);
      else
        remember_files_in(value);
  for (const CLI::App* command : app.get_subcommands())
    collect_files(*command, outputs);
}

}  // namespace

CLI::Option* add_output(CLI::App& command, const std::string& names,
                        std::string& file, const std::string& what) {
  CLI::Option* option = command.add_option(names, file, what);
  output_options().insert(option);
  return option->type_name("FILE");
}

CLI::Option* add_word_flag(CLI::App& command, const std::string& name,
                           std::string& value,
                           const std::vector<std::string>& words,
                           const std::string& what) {
  // CLI11 passes "true" for a flag without a word.
  const std::function<std::string(std::string)> word_of =
      [words](const std::string& word) {
        if (word == "true") return words[0];
        if (words.size() > 1 &&
            std::find(words.begin(), words.end(), word) == words.end())
          throw CLI::ValidationError(word + " not in {" + joined(words, ",") +
                                     "}");
        return word;
      };
  return command.add_flag(name, value, what)->transform(word_of);
}

void refuse_option(CLI::App& command, const std::string& name,
                   const std::string& reason) {
  command
      .add_option_function<std::string>(
          name,
          [name, reason](const std::string& value) {
            throw CLI::ValidationError(name + " " + value, reason);
          })
      ->group("");
}

void takes_only(CLI::App& command, const std::string& mode,
                const std::vector<std::string>& names) {
  command.parse_complete_callback([&command, mode, names] {
    if (command.count(mode) == 0) return;
    for (const CLI::Option* option : command.get_options()) {
      const std::string name = option->get_name(option->get_positional());
      if (option->count() > 0 && name != mode &&
          std::find(names.begin(), names.end(), name) == names.end())
        throw BesideMode{command.get_name() + " " + mode + " takes no " + name +
                         "; allowed: " + joined(names)};
    }
  });
}

void add_heading(CLI::App& command, const std::string& heading,
                 const std::vector<std::string>& names) {
  for (const std::string& name : names)
    command.get_option(name)->group(heading);
}

void add_footer(CLI::App& command, const std::string& text) {
  const std::string before = command.get_footer();
  command.footer(before.empty() ? text : before + "\n" + text);
}

CommandLine read_command_line(CLI::App& app, int argc, char** argv,
                              std::string* error) {
  *error = unknown_command(app, argc, argv);
  if (error->empty()) *error = empty_value(argc, argv);
  if (!error->empty()) return CommandLine::kWrong;
  refuse_empty_values(app);
  std::vector<char*> words(argv, argv + argc);
  char help[] = "--help";
  const auto all =
      std::find(words.begin(), words.end(), std::string_view("--help-all"));
  // A message names every option.
  if (all != words.end())
    *all = help;
  else if (std::any_of(words.begin(), words.end(), [](std::string_view word) {
             return word == "--help" || word == "-h";
           }))
    hide_without_heading(app);
  try {
    app.parse(argc, words.data());
    return CommandLine::kRun;
  } catch (const CLI::Success& shown) {
    app.exit(shown);
    return CommandLine::kShown;
  } catch (const CLI::ParseError& wrong) {
    *error = wrong.what();
    std::replace(error->begin(), error->end(), '\n', ' ');
    *error += " (--help shows what is allowed)";
  } catch (const BesideMode& wrong) {
    *error = wrong.text;
  }
  return CommandLine::kWrong;
}

std::string bad_output(const CLI::App& app) {
  std::vector<std::string> outputs;
  collect_files(app, &outputs);
  std::set<std::string> seen;
  for (const std::string& path : outputs) {
    if (!seen.insert(path).second) return path + ": is named for two outputs";
    if (std::string why = not_writable_reason(path); !why.empty()) return why;
  }
  return "";
}

}  // namespace qkvet::cli

// SPDX-License-Identifier: Apache-2.0
// Commands and options as a page to browse: cli/options.md.
#include <fmt/core.h>

#include "cli/describe/pages.h"
#include "report/lines.h"

namespace qkvet::cli {
namespace {

// Text in a cell of a table.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '*' || c == '<' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string row(const CLI::Option& option) {
  std::string values = joined(choices_of(option), "|");
  if (values.empty() && !option.get_positional()) values = type_of(option);
  return fmt::format("| `{}`{}{} | {}{} |\n", joined(names_of(option), "`, `"),
                     values.empty() ? "" : " ", cell(values),
                     cell(help_of(option)),
                     option.get_required() ? " (required)" : "");
}

std::string table(const CLI::App& command) {
  std::string rows;
  for (const CLI::Option* option : options_of(command))
    if (option != command.get_help_ptr()) rows += row(*option);
  return rows.empty() ? "" : "\n| option | what |\n|---|---|\n" + rows;
}

void add_section(const CLI::App& command, const std::string& name,
                 std::string& out) {
  out += fmt::format("\n## {}\n\n{}.\n{}", name,
                     cell(command.get_description()), table(command));
  for (const CLI::App* one : commands_of(command))
    add_section(*one, name + " " + one->get_name(), out);
}

}  // namespace

std::string markdown_page(const CLI::App& program) {
  std::string out =
      "# Commands and options\n\nAll of them, as the program describes "
      "itself: `qkvet man --markdown` writes this page, and a\ntest compares. "
      "Words without dashes stand where they are, in any order with options; "
      "`--help`\nis everywhere. What to type for what you have: "
      "[commands.md](commands.md).\n\n## qkvet\n";
  out += table(program);
  for (const CLI::App* command : commands_of(program))
    add_section(*command, "qkvet " + command->get_name(), out);
  return out;
}

}  // namespace qkvet::cli

// SPDX-License-Identifier: Apache-2.0
// Commands and options as a page to browse: cli/options.md.
#include <fmt/core.h>

#include "cli/describe/command_description.h"

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

std::string row(const OptionDescription& option) {
  std::string names;
  for (const std::string& name : option.names)
    names += (names.empty() ? "`" : ", `") + name + "`";
  std::string values;
  for (const std::string& one : option.choices)
    values += (values.empty() ? "" : "|") + one;
  if (values.empty() && !option.positional) values = option.type;
  std::string what = option.what;
  if (option.required) what += " (required)";
  return fmt::format("| {}{}{} | {} |\n", names, values.empty() ? "" : " ",
                     cell(values), cell(what));
}

bool is_help(const OptionDescription& option) {
  return option.names.back() == "--help";
}

std::string table(const CommandDescription& command) {
  std::string rows;
  for (const OptionDescription& option : command.options)
    if (!is_help(option)) rows += row(option);
  return rows.empty() ? "" : "\n| option | what |\n|---|---|\n" + rows;
}

void add_section(const CommandDescription& command, const std::string& name,
                 std::string& out) {
  out += fmt::format("\n## {}\n\n{}.\n{}", name, cell(command.what),
                     table(command));
  for (const CommandDescription& one : command.commands)
    add_section(one, name + " " + one.name, out);
}

}  // namespace

std::string markdown_page(const CommandDescription& program) {
  std::string out =
      "# Commands and options\n\nAll of them, as the program describes "
      "itself: `qkvet man --markdown` writes this page, and a\ntest compares. "
      "Words without dashes stand where they are, in any order with options; "
      "`--help`\nis everywhere. What to type for what you have: "
      "[commands.md](commands.md).\n\n## qkvet\n";
  out += table(program);
  for (const CommandDescription& command : program.commands)
    add_section(command, "qkvet " + command.name, out);
  return out;
}

}  // namespace qkvet::cli

// SPDX-License-Identifier: Apache-2.0
// The man page, in the macros of man(7), which groff and mandoc read.
#include <fmt/core.h>

#include "cli/describe/command_description.h"

namespace qkvet::cli {
namespace {

// Text for roff: a typed hyphen is no hyphenation, and a line that begins with
// a dot is no macro.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n'))
      out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if (c == '\'')
      out += "\\(aq";
    else if (c == '`')
      out += "\\(ga";
    else
      out += c;
  }
  return out;
}

// An argument of a macro.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : roff(text))
    out += c == '"' ? std::string("\\(dq") : std::string(1, c);
  return out + "\"";
}

std::string synopsis(const CommandDescription& command,
                     const std::string& name) {
  std::string out = name;
  if (!command.commands.empty()) out += " COMMAND";
  out += " [OPTIONS]";
  for (const OptionDescription& option : command.options) {
    if (!option.positional) continue;
    const std::string word = option.names[0] + (option.repeats ? "..." : "");
    out += option.required ? " " + word : " [" + word + "]";
  }
  return out;
}

std::string option_text(const OptionDescription& option) {
  std::string names;
  for (const std::string& name : option.names)
    names += (names.empty() ? "\\fB" : ", \\fB") + roff(name) + "\\fR";
  std::string type = option.positional ? "" : option.type;
  if (!option.choices.empty()) {
    type.clear();
    for (const std::string& one : option.choices)
      type += (type.empty() ? "" : "|") + one;
  }
  if (!type.empty()) names += " \\fI" + roff(type) + "\\fR";
  return fmt::format(".TP\n{}\n{}\n", names, roff(option.what));
}

void add_command(const CommandDescription& command, const std::string& name,
                 std::string& out) {
  out += fmt::format(".SS {}\n{}\n", quoted(synopsis(command, name)),
                     roff(command.what));
  for (const OptionDescription& option : command.options)
    out += option_text(option);
  for (const CommandDescription& one : command.commands)
    add_command(one, name + " " + one.name, out);
}

}  // namespace

std::string man_page(const CommandDescription& program,
                     const std::string& version) {
  // "Purpose.\nExit: meaning of the codes."
  const size_t end = program.what.find("\nExit: ");
  std::string out = fmt::format(
      ".\\\" Written by `qkvet man`.\n.TH QKVET 1 \"\" \"qkvet {}\" "
      "\"User Commands\"\n.SH NAME\nqkvet \\- vets attention kernels\n"
      ".SH SYNOPSIS\n\\fBqkvet\\fR COMMAND [OPTIONS]\n.SH DESCRIPTION\n{}\n",
      version, roff(program.what.substr(0, end)));
  if (end != std::string::npos)
    out += fmt::format(".SH EXIT STATUS\n{}\n",
                       roff(program.what.substr(end + 7)));
  out += ".SH OPTIONS\n";
  for (const OptionDescription& option : program.options)
    out += option_text(option);
  out += ".SH COMMANDS\n";
  for (const CommandDescription& command : program.commands)
    add_command(command, "qkvet " + command.name, out);
  return out;
}

}  // namespace qkvet::cli

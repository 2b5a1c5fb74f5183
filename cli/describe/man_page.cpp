// SPDX-License-Identifier: Apache-2.0
// The man page, in the macros of man(7), which groff and mandoc read.
#include <fmt/core.h>

#include "cli/describe/pages.h"
#include "report/lines.h"

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

std::string synopsis(const CLI::App& command, const std::string& name) {
  std::string out = name;
  if (!commands_of(command).empty()) out += " COMMAND";
  out += " [OPTIONS]";
  for (const CLI::Option* option : options_of(command)) {
    if (!option->get_positional()) continue;
    const std::string word =
        names_of(*option)[0] + (repeats(*option) ? "..." : "");
    out += option->get_required() ? " " + word : " [" + word + "]";
  }
  return out;
}

std::string option_text(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : names_of(option))
    names += (names.empty() ? "\\fB" : ", \\fB") + roff(name) + "\\fR";
  std::string type = joined(choices_of(option), "|");
  if (type.empty() && !option.get_positional()) type = type_of(option);
  if (!type.empty()) names += " \\fI" + roff(type) + "\\fR";
  return fmt::format(".TP\n{}\n{}\n", names, roff(help_of(option)));
}

void man_command(const CLI::App& command, const std::string& name,
                 std::string& out) {
  out += fmt::format(".SS {}\n{}\n", quoted(synopsis(command, name)),
                     roff(command.get_description()));
  for (const CLI::Option* option : options_of(command))
    out += option_text(*option);
  for (const CLI::App* one : commands_of(command))
    man_command(*one, name + " " + one->get_name(), out);
}

}  // namespace

std::string man_page(const CLI::App& program, const std::string& version) {
  // "Purpose.\nExit: meaning of the codes."
  const std::string what = program.get_description();
  const size_t end = what.find("\nExit: ");
  std::string out = fmt::format(
      ".\\\" Written by `qkvet man`.\n.TH QKVET 1 \"\" \"qkvet {}\" "
      "\"User Commands\"\n.SH NAME\nqkvet \\- vets attention kernels\n"
      ".SH SYNOPSIS\n\\fBqkvet\\fR COMMAND [OPTIONS]\n.SH DESCRIPTION\n{}\n",
      version, roff(what.substr(0, end)));
  if (end != std::string::npos)
    out += fmt::format(".SH EXIT STATUS\n{}\n", roff(what.substr(end + 7)));
  out += ".SH OPTIONS\n";
  for (const CLI::Option* option : options_of(program))
    out += option_text(*option);
  out += ".SH COMMANDS\n";
  for (const CLI::App* command : commands_of(program))
    man_command(*command, "qkvet " + command->get_name(), out);
  return out;
}

}  // namespace qkvet::cli

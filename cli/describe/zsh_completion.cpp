// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <string_view>

#include "cli/describe/command_description.h"

namespace qkvet::cli {
namespace {

// Text in a specification of _arguments, between single quotes.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
      continue;
    }
    if (std::string_view("[]:\\").find(c) != std::string_view::npos)
      out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string action(const OptionDescription& option) {
  if (option.choices.empty())
    return option.type == "LAW" ? "_qkvet_laws" : "_files";
  std::string out;
  for (const std::string& one : option.choices)
    out += (out.empty() ? "(" : " ") + one;
  return out + ")";
}

// '*'{-l,--law}'[Law, or a glob]:LAW:_qkvet_laws'
std::string specification(const OptionDescription& option) {
  if (option.positional)
    return fmt::format("'{}:{}:{}'", option.repeats ? "*" : "",
                       escaped(option.names[0]), action(option));
  std::string names;
  for (const std::string& name : option.names)
    names += (names.empty() ? "" : ",") + name;
  if (option.names.size() > 1) names = "{" + names + "}";
  const std::string value =
      option.type.empty()
          ? ""
          : fmt::format(":{}:{}", escaped(option.type), action(option));
  return fmt::format("{}{}'[{}]{}'", option.repeats ? "'*'" : "", names,
                     escaped(option.what), value);
}

void add_function(const CommandDescription& command, const std::string& name,
                  std::string& out) {
  out += fmt::format("{}() {{\n", name);
  std::string arguments;
  for (const OptionDescription& option : command.options)
    arguments += " \\\n    " + specification(option);
  if (command.commands.empty()) {
    out += fmt::format("  _arguments -s{}\n}}\n", arguments);
    return;
  }
  out += fmt::format(
      "  local state\n  local -a line commands\n  _arguments -C{} \\\n"
      "    '1:command:->command' '*::words:->words'\n"
      "  case $state in\n  command)\n    commands=(\n",
      arguments);
  for (const CommandDescription& one : command.commands)
    out += fmt::format("      '{}:{}'\n", one.name, escaped(one.what));
  out +=
      "    )\n    _describe command commands ;;\n  words)\n    case $line[1] "
      "in\n";
  for (const CommandDescription& one : command.commands)
    out += fmt::format("    {}) {}_{} ;;\n", one.name, name, one.name);
  out += "    esac ;;\n  esac\n}\n";
  for (const CommandDescription& one : command.commands)
    add_function(one, name + "_" + one.name, out);
}

}  // namespace

std::string zsh_completion(const CommandDescription& program) {
  std::string functions;
  add_function(program, "_qkvet", functions);
  return fmt::format(R"sh(#compdef qkvet
# Written by `qkvet completion zsh`.
_qkvet_laws() {{
  local -a laws
  laws=($(qkvet explain laws --json 2>/dev/null |
    sed -n 's/^{{"type":"law","id":"\([a-z0-9_]*\)".*/\1/p'))
  compadd -a laws
}}
{}if [[ $funcstack[1] == _qkvet ]]; then
  _qkvet "$@"
else
  compdef _qkvet qkvet
fi
)sh",
                     functions);
}

}  // namespace qkvet::cli

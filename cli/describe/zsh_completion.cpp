// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <string_view>

#include "cli/describe/pages.h"
#include "report/lines.h"

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

std::string action(const CLI::Option& option) {
  if (const auto choices = choices_of(option); !choices.empty())
    return "(" + joined(choices, " ") + ")";
  return type_of(option) == "LAW" ? "_qkvet_laws" : "_files";
}

// '*'{-l,--law}'[Law, or a glob]:LAW:_qkvet_laws'
std::string specification(const CLI::Option& option) {
  const std::vector<std::string> all = names_of(option);
  if (option.get_positional())
    return fmt::format("'{}:{}:{}'", repeats(option) ? "*" : "",
                       escaped(all[0]), action(option));
  const std::string names =
      all.size() > 1 ? "{" + joined(all, ",") + "}" : all[0];
  const std::string type = type_of(option);
  const std::string value =
      type.empty() ? "" : fmt::format(":{}:{}", escaped(type), action(option));
  return fmt::format("{}{}'[{}]{}'", repeats(option) ? "'*'" : "", names,
                     escaped(help_of(option)), value);
}

void add_function(const CLI::App& command, const std::string& name,
                  std::string& out) {
  out += fmt::format("{}() {{\n", name);
  std::string arguments;
  for (const CLI::Option* option : options_of(command))
    arguments += " \\\n    " + specification(*option);
  const auto commands = commands_of(command);
  if (commands.empty()) {
    out += fmt::format("  _arguments -s{}\n}}\n", arguments);
    return;
  }
  out += fmt::format(
      "  local state\n  local -a line commands\n  _arguments -C{} \\\n"
      "    '1:command:->command' '*::words:->words'\n"
      "  case $state in\n  command)\n    commands=(\n",
      arguments);
  for (const CLI::App* one : commands)
    out += fmt::format("      '{}:{}'\n", one->get_name(),
                       escaped(one->get_description()));
  out +=
      "    )\n    _describe command commands ;;\n  words)\n    case $line[1] "
      "in\n";
  for (const CLI::App* one : commands)
    out += fmt::format("    {0}) {1}_{0} ;;\n", one->get_name(), name);
  out += "    esac ;;\n  esac\n}\n";
  for (const CLI::App* one : commands)
    add_function(*one, name + "_" + one->get_name(), out);
}

}  // namespace

std::string zsh_completion(const CLI::App& program) {
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

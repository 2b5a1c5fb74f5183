// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "cli/describe/pages.h"
#include "report/lines.h"

namespace qkvet::cli {
namespace {

// Completions of a value: words, the laws, or, if there are none, files.
std::string reply(const CLI::Option& option) {
  if (const auto choices = choices_of(option); !choices.empty())
    return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$cur\"))",
                       joined(choices, " "));
  if (type_of(option) == "LAW")
    return "COMPREPLY=($(compgen -W \"$(_qkvet_laws)\" -- \"$cur\"))";
  return ":";
}

// "golden verify"; empty for the program.
std::string path_of(const std::string& path, const CLI::App& command) {
  return path + (path.empty() ? "" : " ") + command.get_name();
}

void add_values(const CLI::App& command, const std::string& path,
                std::string& out) {
  for (const CLI::Option* option : options_of(command)) {
    if (option->get_positional() || type_of(*option).empty()) continue;
    std::vector<std::string> names;
    for (const std::string& name : names_of(*option))
      names.push_back(fmt::format("'{}:{}'", path, name));
    out += fmt::format("    {}) {}; return ;;\n", joined(names, " | "),
                       reply(*option));
  }
  for (const CLI::App* one : commands_of(command))
    add_values(*one, path_of(path, *one), out);
}

void add_words(const CLI::App& command, const std::string& path,
               std::string& out) {
  std::vector<std::string> options, words;
  for (const CLI::Option* option : options_of(command)) {
    const bool is_word = option->get_positional();
    for (const std::string& one :
         is_word ? choices_of(*option) : names_of(*option))
      (is_word ? words : options).push_back(one);
  }
  for (const CLI::App* one : commands_of(command))
    words.push_back(one->get_name());
  out += fmt::format("    '{}') options='{}' words='{}' ;;\n", path,
                     joined(options, " "), joined(words, " "));
  for (const CLI::App* one : commands_of(command))
    add_words(*one, path_of(path, *one), out);
}

// The paths of all commands, as `case` has them.
void add_paths(const CLI::App& command, const std::string& path,
               std::vector<std::string>& out) {
  for (const CLI::App* one : commands_of(command)) {
    out.push_back(fmt::format("'{} {}'", path, one->get_name()));
    add_paths(*one, path_of(path, *one), out);
  }
}

}  // namespace

std::string bash_completion(const CLI::App& program) {
  std::vector<std::string> paths;
  add_paths(program, "", paths);
  std::string values, words;
  add_values(program, "", values);
  add_words(program, "", words);
  return fmt::format(R"sh(# Written by `qkvet completion bash`.
_qkvet_laws() {{
  "${{COMP_WORDS[0]}}" explain laws --json 2>/dev/null |
    sed -n 's/^{{"type":"law","id":"\([a-z0-9_]*\)".*/\1/p'
}}
_qkvet() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} path= options= words= i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$path ${{COMP_WORDS[i]}}" in
    {}) path=${{path:+$path }}${{COMP_WORDS[i]}} ;;
    esac
  done
  COMPREPLY=()
  case "$path:${{COMP_WORDS[COMP_CWORD - 1]}}" in
{}  esac
  case "$path" in
{}  esac
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$cur"))
  elif [[ -n $words ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
  fi
}}
# Where there is nothing else, files.
complete -o default -F _qkvet qkvet
)sh",
                     joined(paths, " | "), values, words);
}

}  // namespace qkvet::cli

// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "cli/describe/command_description.h"

namespace qkvet::cli {
namespace {

std::string with_between(const std::vector<std::string>& words,
                         const char* between) {
  std::string out;
  for (const std::string& word : words)
    out += (out.empty() ? "" : between) + word;
  return out;
}

// Completions of a value: words, the laws, or, if there are none, files.
std::string reply(const OptionDescription& option) {
  if (!option.choices.empty())
    return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$cur\"))",
                       with_between(option.choices, " "));
  if (option.type == "LAW")
    return "COMPREPLY=($(compgen -W \"$(_qkvet_laws)\" -- \"$cur\"))";
  return ":";
}

// `path` is "golden verify"; empty for the program.
void add_values(const CommandDescription& command, const std::string& path,
                std::string& out) {
  for (const OptionDescription& option : command.options) {
    if (option.positional || option.type.empty()) continue;
    std::vector<std::string> names;
    for (const std::string& name : option.names)
      names.push_back(fmt::format("'{}:{}'", path, name));
    out += fmt::format("    {}) {}; return ;;\n", with_between(names, " | "),
                       reply(option));
  }
  for (const CommandDescription& one : command.commands)
    add_values(one, path.empty() ? one.name : path + " " + one.name, out);
}

void add_words(const CommandDescription& command, const std::string& path,
               std::string& out) {
  std::vector<std::string> options, words;
  for (const OptionDescription& option : command.options) {
    if (!option.positional)
      options.insert(options.end(), option.names.begin(), option.names.end());
    else
      words.insert(words.end(), option.choices.begin(), option.choices.end());
  }
  for (const CommandDescription& one : command.commands)
    words.push_back(one.name);
  out += fmt::format("    '{}') options='{}' words='{}' ;;\n", path,
                     with_between(options, " "), with_between(words, " "));
  for (const CommandDescription& one : command.commands)
    add_words(one, path.empty() ? one.name : path + " " + one.name, out);
}

// The paths of all commands, as `case` has them.
void add_paths(const CommandDescription& command, const std::string& path,
               std::vector<std::string>& out) {
  for (const CommandDescription& one : command.commands) {
    out.push_back(fmt::format("'{} {}'", path, one.name));
    add_paths(one, path.empty() ? one.name : path + " " + one.name, out);
  }
}

}  // namespace

std::string bash_completion(const CommandDescription& program) {
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
                     with_between(paths, " | "), values, words);
}

}  // namespace qkvet::cli

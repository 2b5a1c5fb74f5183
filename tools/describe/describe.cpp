// SPDX-License-Identifier: Apache-2.0
// qkvet man, qkvet completion: the command line described by itself.
#include <cstdio>

#include "tools/base/written_file.h"
#include "tools/commands/flags.h"
#include "tools/describe/command_description.h"
#include "tools/report/select.h"

namespace qkvet::tools {
namespace {

// "TEXT:{small,medium}" are the words that it takes.
std::vector<std::string> choices_in(const std::string& type) {
  const size_t open = type.find('{'), close = type.rfind('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  std::vector<std::string> out;
  for (size_t from = open + 1; from < close;) {
    const size_t comma = std::min(type.find(',', from), close);
    out.push_back(type.substr(from, comma - from));
    from = comma + 1;
  }
  return out;
}

OptionDescription describe_option(const CLI::Option& option) {
  OptionDescription out;
  out.positional = option.get_positional();
  if (out.positional) out.names.push_back(option.get_name(true, false));
  if (!out.positional)
    for (const auto& name : option.get_snames())
      out.names.push_back("-" + name);
  if (!out.positional)
    for (const auto& name : option.get_lnames())
      out.names.push_back("--" + name);
  out.what = option.get_description();
  out.required = option.get_required();
  out.repeats = option.get_items_expected_max() > 1;
  if (option.get_items_expected_max() == 0) return out;
  out.type = option.get_type_name();
  out.choices = choices_in(out.type);
  // What it is, without how it is checked.
  for (const char* kind : {"INT:", "UINT:", "FLOAT:", "TEXT:"})
    if (out.type.rfind(kind, 0) == 0) out.type.resize(out.type.find(':'));
  if (!option.get_default_str().empty())
    out.what += " [" + option.get_default_str() + "]";
  return out;
}

struct ManOptions {
  const CLI::App* program = nullptr;
  std::string out;
  bool markdown = false;
};

struct CompletionOptions {
  const CLI::App* program = nullptr;
  std::string shell, out;
};

ExitCode give(const std::string& text, const std::string& out) {
  if (out.empty()) {
    std::fputs(text.c_str(), stdout);
    return ExitCode::kConforms;
  }
  if (const std::string error = write_file(out, text); !error.empty())
    return wrong_use(error);
  return ExitCode::kConforms;
}

ExitCode run_man(const ManOptions& options) {
  const CommandDescription program = describe(*options.program);
  return give(options.markdown ? markdown_page(program)
                               : man_page(program, QKVET_VERSION),
              options.out);
}

ExitCode run_completion(const CompletionOptions& options) {
  const CommandDescription program = describe(*options.program);
  return give(options.shell == "zsh" ? zsh_completion(program)
                                     : bash_completion(program),
              options.out);
}

void add_out(CLI::App& command, std::string& out) {
  command.add_option("-o,--out", out, "File, instead of stdout")
      ->type_name("FILE");
}

void add_man_flags(CLI::App& command, ManOptions& options) {
  options.program = command.get_parent();
  command.add_flag("--markdown", options.markdown, "The same in Markdown");
  add_out(command, options.out);
}

void add_completion_flags(CLI::App& command, CompletionOptions& options) {
  options.program = command.get_parent();
  command.add_option("shell", options.shell, "bash or zsh")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh"}));
  add_out(command, options.out);
}

}  // namespace

CommandDescription describe(const CLI::App& app) {
  CommandDescription out{app.get_name(), app.get_description(), {}, {}};
  // What is in no group is not in the help either.
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty())
      out.options.push_back(describe_option(*option));
  for (const CLI::App* command : app.get_subcommands({}))
    out.commands.push_back(describe(*command));
  return out;
}

void add_man(CLI::App& app, Chosen& chosen) {
  add_command<ManOptions>(app, chosen, "man", "Print the man page of qkvet",
                          add_man_flags, run_man);
}

void add_completion(CLI::App& app, Chosen& chosen) {
  add_command<CompletionOptions>(
      app, chosen, "completion",
      "Print what completes qkvet in a shell: source <(qkvet completion bash)",
      add_completion_flags, run_completion);
}

}  // namespace qkvet::tools

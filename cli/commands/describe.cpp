// SPDX-License-Identifier: Apache-2.0
// qkvet man, qkvet completion: the command line describes itself.
#include <cstdio>

#include "cli/commands/flags.h"
#include "cli/describe/command_description.h"
#include "cli/terminal/select.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

struct ManOptions {
  Command program;
  std::string out;
  bool markdown = false;
};

struct CompletionOptions {
  Command program;
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
  const CommandDescription program = options.program.describe();
  return give(options.markdown ? markdown_page(program)
                               : man_page(program, QKVET_VERSION),
              options.out);
}

ExitCode run_completion(const CompletionOptions& options) {
  const CommandDescription program = options.program.describe();
  return give(options.shell == "zsh" ? zsh_completion(program)
                                     : bash_completion(program),
              options.out);
}

void add_out(Command& command, std::string& out) {
  command.add_option("-o,--out", out, "Output file [stdout]")
      .type_name("FILE")
      .names_output();
}

void add_man_flags(Command& command, ManOptions& options) {
  options.program = command.program();
  command.add_flag("--markdown", options.markdown, "Print Markdown");
  add_out(command, options.out);
}

void add_completion_flags(Command& command, CompletionOptions& options) {
  options.program = command.program();
  command.add_option("shell", options.shell, "bash or zsh")
      .required()
      .one_of({"bash", "zsh"});
  add_out(command, options.out);
}

}  // namespace

void add_man(Command& app, Chosen& chosen) {
  add_command<ManOptions>(app, chosen, "man", "Print the man page of qkvet",
                          add_man_flags, run_man)
      .hide();
}

void add_completion(Command& app, Chosen& chosen) {
  add_command<CompletionOptions>(
      app, chosen, "completion",
      "Print shell completions: source <(qkvet completion bash)",
      add_completion_flags, run_completion)
      .hide();
}

}  // namespace qkvet::cli

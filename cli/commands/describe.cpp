// SPDX-License-Identifier: Apache-2.0
// qkvet man, qkvet completion: the command line describes itself.
#include <cstdio>

#include "cli/commands/flags.h"
#include "cli/describe/pages.h"
#include "cli/terminal/select.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

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
  return give(options.markdown ? markdown_page(*options.program)
                               : man_page(*options.program, QKVET_VERSION),
              options.out);
}

ExitCode run_completion(const CompletionOptions& options) {
  return give(options.shell == "zsh" ? zsh_completion(*options.program)
                                     : bash_completion(*options.program),
              options.out);
}

void add_out(CLI::App& command, std::string& out) {
  add_output(command, "-o,--out", out, "Output file [stdout]");
}

void add_man_flags(CLI::App& command, ManOptions& options) {
  options.program = command.get_parent();
  command.add_flag("--markdown", options.markdown, "Print Markdown");
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

void add_man(CLI::App& app, Chosen& chosen) {
  add_command<ManOptions>(app, chosen, "man", "Print the man page of qkvet",
                          add_man_flags, run_man)
      .group("");
}

void add_completion(CLI::App& app, Chosen& chosen) {
  add_command<CompletionOptions>(
      app, chosen, "completion",
      "Print shell completions: source <(qkvet completion bash)",
      add_completion_flags, run_completion)
      .group("");
}

}  // namespace qkvet::cli

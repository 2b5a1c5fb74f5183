// SPDX-License-Identifier: Apache-2.0
// How a command joins the command line, and the flags that several have.
#ifndef QKVET_TOOLS_COMMANDS_FLAGS_H_
#define QKVET_TOOLS_COMMANDS_FLAGS_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/base/exit_code.h"
#include "tools/kernels/kernels.h"
#include "tools/record/report_files.h"

namespace qkvet::tools {

// Runs the command that was asked for. Set by the parser.
using Chosen = std::function<ExitCode()>;

// Adds a command to `to`, the program or a group of commands: its flags write
// into an Options of its own, with which it is run.
template <class Options>
void add_command(CLI::App& to, Chosen& chosen, const char* name,
                 const char* what, void (*add_flags)(CLI::App&, Options&),
                 ExitCode (*run)(const Options&)) {
  CLI::App& command = *to.add_subcommand(name, what);
  const auto options = std::make_shared<Options>();
  add_flags(command, *options);
  command.callback([&chosen, options, run] {
    chosen = [options, run] { return run(*options); };
  });
}

// --plugin, and what stands for it: --python, --tvm-ffi
void add_plugins(CLI::App& command, std::vector<std::string>& plugins);
// --kernel, --plugin, --in-process
void add_kernels(CLI::App& command, KernelSelection& selection);
// Those and add_declaration().
void add_selection(CLI::App& command, KernelSelection& selection);
// --dialect, --precision, --cflags
void add_declaration(CLI::App& command, KernelSelection& selection);
// Kernels to compile, by their place in the line.
void add_sources(
    CLI::App& command, KernelSelection& selection,
    const char* what = "Kernels to compile: .c, .cpp, .cc, .cxx, .rs");
// --compile: the same where the line has other names.
void add_compiled(CLI::App& command, KernelSelection& selection);

void add_laws(CLI::App& command, std::vector<std::string>& laws,
              const char* what = "Law, or a glob");
void add_seed(CLI::App& command, std::string& seed,
              const char* what = "Number, or random");
void add_jobs(CLI::App& command, int& jobs);
void add_sizes(CLI::App& command, std::string& sizes);
void add_pin(CLI::App& command, std::string& pin);
void add_data(CLI::App& command, std::vector<std::string>& data);
void add_diagnose(CLI::App& command, int& most);
void add_json(CLI::App& command, std::string& json);
// --junit, --json
void add_reports(CLI::App& command, std::string& junit, std::string& json);
// --junit, --html, --sarif, --markdown, --github
void add_report_files(CLI::App& command, ReportFiles& files);

// A picture that a command writes.
struct PictureFile {
  std::string svg;     // "" for none
  bool force = false;  // replace what is there
};
// --svg, --force
void add_picture(CLI::App& command, PictureFile& file, const char* what);
// "" or why it cannot be written: before the work is done.
std::string misuse_of(const PictureFile& file);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_COMMANDS_FLAGS_H_

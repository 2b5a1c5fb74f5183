// SPDX-License-Identifier: Apache-2.0
// How a command joins the command line, and the flags that several have.
#ifndef QKVET_CLI_COMMANDS_FLAGS_H_
#define QKVET_CLI_COMMANDS_FLAGS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/describe/command_line.h"
#include "cli/kernels/kernels.h"
#include "golden/import/import_names.h"
#include "report/exit_code.h"
#include "report/report_files.h"

namespace qkvet::cli {

// Runs the chosen command. Set by the parser.
using Chosen = std::function<ExitCode()>;

// Adds a command to `to`, the program or a group of commands: its flags write
// into its own Options, with which it is run.
template <class Options>
CLI::App& add_command(CLI::App& to, Chosen& chosen, const char* name,
                      const char* what, void (*add_flags)(CLI::App&, Options&),
                      ExitCode (*run)(const Options&)) {
  CLI::App& command = *to.add_subcommand(name, what);
  const auto options = std::make_shared<Options>();
  add_flags(command, *options);
  command.callback([&chosen, options, run] {
    chosen = [options, run] { return run(*options); };
  });
  return command;
}

// SPEC ...: names of kernels, in any form.
void add_specs(CLI::App& command, KernelSelection& selection,
               const std::string& what = "Kernels");
// The same, with the extents of a model allowed among them (model_text.h).
void add_model(CLI::App& command, std::string& model,
               KernelSelection& selection, const std::string& what);
// --kernel, --in-process
void add_kernels(CLI::App& command, KernelSelection& selection);
// add_kernels() and add_declaration().
void add_selection(CLI::App& command, KernelSelection& selection);
// --dialect, --precision, --cflags
void add_declaration(CLI::App& command, KernelSelection& selection);

void add_laws(CLI::App& command, std::vector<std::string>& laws,
              const char* what = "Law id, or a glob; may be repeated");
void add_seed(CLI::App& command, std::string& seed,
              const char* what = "Seed, or random");
void add_jobs(CLI::App& command, int& jobs);
void add_sizes(CLI::App& command, std::string& sizes);
void add_pin(CLI::App& command, std::string& pin);
void add_data(CLI::App& command, std::vector<std::string>& data);
void add_diagnose(CLI::App& command, int& most);
// The same option for commands that judge one kernel, or each separately.
void add_whether_to_diagnose(CLI::App& command, int& diagnose);
void add_json(CLI::App& command, std::string& json);
// --case, --map, --layout: how a recorded call is read.
void add_recorded_call(CLI::App& command, std::string& value,
                       golden::ImportWords& words);
// --junit, --html, --sarif, --markdown, --github
void add_report_files(CLI::App& command, ReportFiles& files);

// A picture that a command writes.
struct PictureFile {
  std::string svg;     // "" for none
  bool force = false;  // replace existing files
};
// --out, --force
void add_picture(CLI::App& command, PictureFile& file, const char* what);
// "" or why it cannot be written: before the work is done.
std::string misuse_of(const PictureFile& file);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_COMMANDS_FLAGS_H_

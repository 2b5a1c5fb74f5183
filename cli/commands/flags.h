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
Command add_command(Command& to, Chosen& chosen, const char* name,
                    const char* what, void (*add_flags)(Command&, Options&),
                    ExitCode (*run)(const Options&)) {
  Command command = to.add_command(name, what);
  const auto options = std::make_shared<Options>();
  add_flags(command, *options);
  command.when_chosen([&chosen, options, run] {
    chosen = [options, run] { return run(*options); };
  });
  return command;
}

// SPEC ...: names of kernels, in any form.
void add_specs(Command& command, KernelSelection& selection,
               const std::string& what = "Kernels");
// The same, with the extents of a model allowed among them (model_text.h).
void add_model(Command& command, std::string& model, KernelSelection& selection,
               const std::string& what);
// --kernel, --in-process
void add_kernels(Command& command, KernelSelection& selection);
// add_kernels() and add_declaration().
void add_selection(Command& command, KernelSelection& selection);
// --dialect, --precision, --cflags
void add_declaration(Command& command, KernelSelection& selection);

void add_laws(Command& command, std::vector<std::string>& laws,
              const char* what = "Law id, or a glob; may be repeated");
void add_seed(Command& command, std::string& seed,
              const char* what = "Seed, or random");
void add_jobs(Command& command, int& jobs);
void add_sizes(Command& command, std::string& sizes);
void add_pin(Command& command, std::string& pin);
void add_data(Command& command, std::vector<std::string>& data);
void add_diagnose(Command& command, int& most);
// The same option for commands that judge one kernel, or each separately.
void add_whether_to_diagnose(Command& command, int& diagnose);
void add_json(Command& command, std::string& json);
// --case, --map, --layout: how a recorded call is read.
void add_recorded_call(Command& command, std::string& value,
                       golden::ImportWords& words);
// --junit, --html, --sarif, --markdown, --github
void add_report_files(Command& command, ReportFiles& files);

// A picture that a command writes.
struct PictureFile {
  std::string svg;     // "" for none
  bool force = false;  // replace existing files
};
// --out, --force
void add_picture(Command& command, PictureFile& file, const char* what);
// "" or why it cannot be written: before the work is done.
std::string misuse_of(const PictureFile& file);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_COMMANDS_FLAGS_H_

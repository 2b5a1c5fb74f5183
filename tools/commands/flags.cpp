// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/flags.h"

#include "tools/kernels/write_new.h"

namespace qkvet::tools {

void add_plugins(Command& command, std::vector<std::string>& plugins) {
  command
      .add_option("-p,--plugin", plugins,
                  "Shared library that exports qkvet_open; may be repeated")
      .type_name("FILE[:config]")
      .one_at_a_time();
  const auto add_marked = [&](const char* option, std::string_view mark,
                              const char* what, const char* type) {
    command
        .add_taker(
            option,
            [&plugins, mark](const std::vector<std::string>& targets) {
              for (const std::string& target : targets)
                plugins.push_back(std::string(mark) + target);
            },
            what)
        .type_name(type)
        .one_at_a_time();
  };
  add_marked("--python", kPythonMark,
             "Callable of Python, module:name or file.py:name; its worker is "
             "$QKVET_PYTHON [python3] with the package qkvet",
             "MODULE:NAME");
  add_marked("--tvm-ffi", kTvmFfiMark,
             "Function that a shared library exports by tvm-ffi, and the order "
             "of its arguments (tools/tvm_ffi.md)",
             "LIB:FUNCTION:MAP");
}

void add_kernels(Command& command, KernelSelection& selection) {
  command
      .add_option("-k,--kernel", selection.kernels,
                  "Kernel family/variant, or a glob; may be repeated")
      .type_name("NAME")
      .one_at_a_time();
  add_plugins(command, selection.plugins);
  command.add_flag("--in-process", selection.in_process,
                   "Run kernels in this process: for debuggers, for "
                   "sanitizers and libraries built for an engine");
}

void add_selection(Command& command, KernelSelection& selection) {
  add_kernels(command, selection);
  add_declaration(command, selection);
}

void add_declaration(Command& command, KernelSelection& selection) {
  command
      .add_option("--dialect", selection.dialect,
                  "File of dialect fields, or a convention, instead of the "
                  "kernel's own")
      .type_name("FILE|CONVENTION");
  command
      .add_option("--precision", selection.precision,
                  "File of precision fields, instead of the kernel's own")
      .type_name("FILE");
  command
      .add_option("--cflags", selection.cflags,
                  "Further words for the compiler of SOURCE")
      .type_name("FLAGS");
}

void add_sources(Command& command, KernelSelection& selection,
                 const char* what) {
  command.add_option("source", selection.sources, what);
}

void add_compiled(Command& command, KernelSelection& selection) {
  command
      .add_option("--compile", selection.sources,
                  "Kernel to compile: .c, .cpp, .cc, .cxx, .cu, .rs")
      .type_name("FILE")
      .one_at_a_time();
}

void add_laws(Command& command, std::vector<std::string>& laws,
              const char* what) {
  command.add_option("-l,--law", laws, what).type_name("LAW").one_at_a_time();
}

void add_seed(Command& command, std::string& seed, const char* what) {
  command.add_option("--seed", seed, what).shows_default();
}

void add_jobs(Command& command, int& jobs) {
  command.add_option("-j,--jobs", jobs, "Threads; 0: one per core")
      .within(0, 1024);
}

void add_sizes(Command& command, std::string& sizes) {
  command
      .add_option(
          "--sizes", sizes,
          "Largest cases: small (T, d <= 24), medium (80), large (300), "
          "long (few rows of up to 131,073 keys; hundreds of heads)")
      .one_of({"small", "medium", "large", "long"})
      .shows_default();
}

void add_pin(Command& command, std::string& pin) {
  command
      .add_option("--pin", pin,
                  "Extents that every case has, such as d=72,Tk=64")
      .type_name("EXTENTS");
}

void add_data(Command& command, std::vector<std::string>& data) {
  command
      .add_option("--data", data,
                  "File that the case takes its data from; may be repeated")
      .type_name("FILE")
      .one_at_a_time();
}

void add_diagnose(Command& command, int& most) {
  command
      .add_option("--diagnose", most,
                  "Failing kernels whose cause is looked for, at most")
      .shows_default()
      .within(0, 1000000);
}

void add_whether_to_diagnose(Command& command, int& diagnose) {
  command
      .add_option("--diagnose", diagnose, "0: look for no cause of what fails")
      .within(0, 1000000)
      .shows_default();
}

void add_json(Command& command, std::string& json) {
  command.add_option("--json", json, "JSON Lines")
      .type_name("FILE")
      .names_output();
}

void add_report_files(Command& command, ReportFiles& files) {
  const struct {
    const char* option;
    std::string* file;
    const char* what;
  } rows[] = {{"--junit", &files.junit, "JUnit XML"},
              {"--html", &files.html, "One page that needs nothing beside it"},
              {"--sarif", &files.sarif, "SARIF 2.1.0, for code scanning"},
              {"--markdown", &files.markdown, "Markdown"}};
  for (const auto& row : rows)
    command.add_option(row.option, *row.file, row.what)
        .type_name("FILE")
        .names_output();
  command.add_flag("--github", files.github,
                   "Annotations of GitHub on stdout, and Markdown to the file "
                   "that $GITHUB_STEP_SUMMARY names");
}

void add_picture(Command& command, PictureFile& file, const char* what) {
  command.add_option("--svg", file.svg, what).type_name("FILE").names_output();
  command.add_flag("--force", file.force, "Replace a picture that is there");
  // Scripts that ask for pixels are told; help is silent about it.
  command.refuse_option(
      "--png", "pictures are SVG; allowed is --svg FILE, which browsers show");
}

std::string misuse_of(const PictureFile& file) {
  if (file.svg.empty() || file.force) return "";
  const std::string reason = not_new_reason(file.svg);
  return reason.empty() ? "" : reason + " (--force does)";
}

}  // namespace qkvet::tools

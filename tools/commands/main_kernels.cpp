// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/main_kernels.h"

#include <CLI/CLI.hpp>

namespace qkvet::tools {

void add_plugins(CLI::App& command, std::vector<std::string>& plugins) {
  command
      .add_option("-p,--plugin", plugins,
                  "Shared library that exports qkvet_open; may be repeated")
      ->type_name("FILE[:config]")
      ->allow_extra_args(false);
  const auto add_marked = [&](const char* option, std::string_view mark,
                              const char* what, const char* type) {
    command
        .add_option_function<std::vector<std::string>>(
            option,
            [&plugins, mark](const std::vector<std::string>& targets) {
              for (const std::string& target : targets)
                plugins.push_back(std::string(mark) + target);
            },
            what)
        ->type_name(type)
        ->allow_extra_args(false);
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

void add_kernels(CLI::App& command, KernelSelection& selection) {
  command
      .add_option("-k,--kernel", selection.kernels,
                  "Kernel family/variant, or a glob; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  add_plugins(command, selection.plugins);
  command.add_flag("--in-process", selection.in_process,
                   "Run kernels in this process: for debuggers, for "
                   "sanitizers and libraries built for an engine");
}

void add_selection(CLI::App& command, KernelSelection& selection) {
  add_kernels(command, selection);
  command
      .add_option("--dialect", selection.dialect,
                  "File of dialect fields, or a convention, instead of the "
                  "kernel's own")
      ->type_name("FILE|CONVENTION");
  command
      .add_option("--precision", selection.precision,
                  "File of precision fields, instead of the kernel's own")
      ->type_name("FILE");
  command
      .add_option("--cflags", selection.cflags,
                  "Further words for the compiler of SOURCE")
      ->type_name("FLAGS");
}

}  // namespace qkvet::tools

// SPDX-License-Identifier: Apache-2.0
#include "tools/main_kernels.h"

#include <CLI/CLI.hpp>

namespace qkvet {

void add_plugins(CLI::App& command, std::vector<std::string>& plugins) {
  command
      .add_option("-p,--plugin", plugins,
                  "Shared library that exports qkvet_open; may be repeated")
      ->type_name("FILE[:config]")
      ->allow_extra_args(false);
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

}  // namespace qkvet

// SPDX-License-Identifier: Apache-2.0
// Sources of kernels: the families that are built with QKVet, found relative to
// the program, and the user's plug-ins.
#ifndef QKVET_CLI_KERNELS_KERNELS_H_
#define QKVET_CLI_KERNELS_KERNELS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/door/executor.h"
#include "properties/run/runner.h"

namespace qkvet::cli {

// A row of impl/CMakeLists.txt, even if it was not built.
struct Family {
  const char* name;
  bool is_default;    // judged when no kernel is named
  const char* lacks;  // "" or why this build of the program lacks it
  const char* what;   // one line for lists
};
std::span<const Family> families();
// The family of wrong kernels with causes known to diagnoses.
const Family& faults_family();

// Program, worker and family paths, relative to the running program, or to the
// program at this path if another program is running.
void use_program(const std::string& path);
std::string program_directory();
std::string worker_path();
std::string family_path(const Family& family);
// "" or one line: "the family faulty is not built; `cmake --build build/release
// --target qkvet_faulty` builds it".
std::string why_missing(const Family& family);
// The same for several: one line for all that one command builds.
std::vector<std::string> why_missing(const std::vector<const Family*>& wanted);

// Forms of kernel names on the command line, distinguished by form alone.
enum class SpecKind : uint8_t {
  kName,     // scalar/plain, 'eigen/*': built-in kernels, by name or glob
  kSource,   // mine.cpp: a source that is compiled
  kLibrary,  // ./libmine.so, ./libmine.so:config: exports qkvet_open
  kPython,   // module:function, file.py:function, with ":{declaration}" perhaps
  kFfi       // ffi:library.so:function:map, exported by tvm-ffi (tvm_ffi.md)
};
SpecKind kind_of_spec(const std::string& spec);
inline constexpr const char* kSpecForms =
    "a name or glob (scalar/plain), ./lib.so, mine.cpp (.c .cc .cxx .cu .rs), "
    "module:function, file.py:function or ffi:lib.so:function:map";

// $QKVET_PYTHON, or python3.
std::string python_interpreter();

// A library, a callable of $QKVET_PYTHON or python3, which is then the worker,
// or a function of a library. In "FILE:config" the last colon separates if the
// part before it is a file.
LibrarySpec parse_plugin(const std::string& spec);

struct KernelSelection {
  std::vector<std::string>
      kernels;  // globs over family/variant: of any library
  std::vector<std::string> plugins;  // as parse_plugin() takes them
  bool in_process = false;
  std::vector<std::string> sources = {};   // to be compiled (build_cache.h)
  std::vector<std::string> built_in = {};  // globs of built-in kernels only
  std::string cflags = {};                 // further words for the compiler
  bool hints = true;        // use hints at paths in sources and workspaces
  bool ends_waits = false;  // LibrarySpec::ends_waits
  bool calls = true;        // false: only read declarations
  // Files with declarations; "" for none.
  std::string dialect = {};
  std::string precision = {};

  void add(const std::string& spec);
  bool names_nothing() const {
    return kernels.empty() && plugins.empty() && sources.empty() &&
           built_in.empty();
  }
};

struct SelectedKernels {
  std::vector<LibrarySpec> libraries;
  std::vector<std::string> names;  // per library: how a user names it, as
                                   // arguments; "": a family
  std::vector<size_t> held = {};   // per library: kernels in it, selected or
                                   // not; absent: only the selected ones
  std::string declarations;        // " --dialect FILE ...": for every kernel
  std::vector<KernelUnderTest> kernels;
  bool by_default = false;         // no selection: the default families
  std::vector<std::string> notes;  // families that were not built
  std::string error;               // one line; if set, ignore the other fields
  // For recorded answers: the command that judges them again. They cannot be
  // repeated or shrunk.
  std::string again = {};
};

// Opens the selected kernels and reads their declarations. Undeclared fields
// are probed.
SelectedKernels select_kernels(const KernelSelection& selection);

// The same for a library that is linked into this program.
SelectedKernels select_linked(const LibrarySpec& library,
                              const std::vector<std::string>& kernels);

// "" or why the kernel cannot run on this machine, found out by one tiny call.
std::string unavailable_reason(Executor& executor, int kernel);

// For run_plan().
ExecutorFactory executor_factory(const SelectedKernels& selected,
                                 bool in_process);

// Every library, in its order. "" or one line.
std::string open_all(const SelectedKernels& selected, bool in_process,
                     std::vector<std::unique_ptr<Executor>>* executors);

// The arguments that name this kernel again: "--kernel scalar/plain",
// "./libmine.so" or "mine.cpp".
std::string kernel_arguments(const SelectedKernels& selected,
                             const KernelUnderTest& kernel);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_KERNELS_KERNELS_H_

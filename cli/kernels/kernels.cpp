// SPDX-License-Identifier: Apache-2.0
#include "cli/kernels/kernels.h"

#include <fnmatch.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "cli/base/host_limits.h"
#include "cli/base/perhaps.h"
#include "cli/kernels/build_cache.h"
#include "cli/kernels/compiler.h"
#include "cli/kernels/source_hints.h"
#include "core/base/read_file.h"
#include "core/capability/declaration.h"
#include "properties/checking/probe.h"
#include "properties/checking/workspace_hints.h"
#include "properties/conventions/conventions.h"
#include "reference/arithmetic/precision.h"
#include "report/lines.h"

namespace qkvet::cli {
namespace {

namespace fs = std::filesystem;

constexpr Family kFamilies[] = {
#include QKVET_FAMILY_ROWS
};

std::string named_program;  // use_program()

constexpr std::string_view kFfiMark = "ffi:";
constexpr std::string_view kSourceEndings[] = {".c",   ".cpp", ".cc",
                                               ".cxx", ".cu",  ".rs"};

bool has_glob(const std::string& text) {
  return text.find_first_of("*?[") != std::string::npos;
}

bool matches(const std::string& glob, const std::string& name) {
  return fnmatch(glob.c_str(), name.c_str(), 0) == 0;
}

// A family that could hold a kernel of this name.
bool may_hold(const Family& family, const std::string& glob) {
  const std::string prefix = std::string(family.name) + "/";
  if (!has_glob(glob)) return glob.starts_with(prefix);
  const size_t slash = glob.find('/');
  return slash == std::string::npos
             ? matches(glob, prefix)
             : matches(glob.substr(0, slash), family.name);
}

Opened open_library(const LibrarySpec& library, bool in_process) {
  if (in_process && !library.interpreter.empty())
    return {nullptr, library.path + ": its worker is " + library.interpreter +
                         ", which is another process; allowed: no "
                         "--in-process, or qkvet.check() in Python"};
  // The interpreter that imports the file would wait for a pipe.
  const std::string file = library.path.substr(0, library.path.rfind(':'));
  std::error_code code;
  if (!library.interpreter.empty() && file.ends_with(".py") &&
      fs::exists(file, code))
    if (std::string wrong = not_readable_reason(file); !wrong.empty())
      return {nullptr, file + ": " + wrong};
  if (in_process || library.entry != nullptr) return open_in_process(library);
  SandboxOptions options;
  options.worker = worker_path();
  return open_sandbox(library, options);
}

// A kernel as it is judged: its declaration, fields that files of the selection
// replace, and the results of the probes. "" or an error.
std::string judged_kernel(const KernelSelection& selection, Executor& executor,
                          int index, JudgedKernel& judged) {
  KernelInfo& info = judged.info;
  info = executor.kernels()[static_cast<size_t>(index)];
  std::string error;
  if (!selection.dialect.empty())
    error = read_declaration(selection.dialect, info);
  if (error.empty() && !selection.precision.empty())
    error = read_precision(selection.precision, info.precision);
  if (!error.empty()) return error;
  const ResolvedPrecision precision = resolve_precision(info.precision);
  if (!precision.error.empty()) return info.name + ": " + precision.error;
  judged.model = precision.model;
  judged.looser_than_generic = precision.looser_than_generic;
  // In this process a probe could end the program before anything is judged.
  if (!selection.in_process && selection.calls)
    judged.assumed = probe_dialect(executor, index, info, &judged.pace);
  return "";
}

// Hints are for a user's kernel; built-in kernels declare where they branch.
// The file of a callable is the one that its worker runs; that of a plug-in may
// be any.
std::vector<Hint> hints_of(const KernelSelection& selection,
                           const LibrarySpec& library, Executor& executor,
                           int index, const KernelInfo& info) {
  std::vector<Hint> hints;
  // In this process a call could end the program before anything is judged.
  if (!selection.in_process) hints = workspace_hints(executor, index, info);
  if (library.interpreter.empty()) return hints;
  for (Hint& hint : source_hints_of_file(info.source_file, Language::kPython,
                                         info.source_line))
    hints.push_back(std::move(hint));
  return hints;
}

// Adds a library and those of its kernels that `wanted` accepts; returns how
// many, or -1 with selected.error.
template <class Wanted>
int add_library(SelectedKernels& selected, const LibrarySpec& library,
                const std::string& name, const KernelSelection& selection,
                Wanted wanted) {
  LibrarySpec spec = library;
  spec.ends_waits = selection.ends_waits;
  const Opened opened = open_library(spec, selection.in_process);
  if (opened.executor == nullptr) {
    selected.error = opened.error;
    return -1;
  }
  int added = 0;
  const size_t count = opened.executor->kernels().size();
  for (size_t i = 0; i < count; ++i) {
    if (!wanted(opened.executor->kernels()[i])) continue;
    KernelUnderTest kernel;
    kernel.library = selected.libraries.size();
    kernel.index = static_cast<int>(i);
    selected.error =
        judged_kernel(selection, *opened.executor, kernel.index, kernel.judged);
    if (!selected.error.empty()) return -1;
    if (selection.hints && !name.empty())
      kernel.hints = hints_of(selection, library, *opened.executor,
                              kernel.index, kernel.judged.info);
    selected.kernels.push_back(std::move(kernel));
    ++added;
  }
  if (added > 0) {
    selected.libraries.push_back(std::move(spec));
    selected.names.push_back(name);
    selected.held.push_back(count);
  }
  return added;
}

// The globs of names, and which of them have matched.
struct Globs {
  std::vector<std::string> globs;
  size_t of_any;  // so many are of any library, the others of families only
  std::vector<bool> used = std::vector<bool>(globs.size());
  std::vector<std::string> seen = {};  // names that were compared with them
  std::string left_out = {};           // "" or a named library without a match

  bool accept(const std::string& name, bool of_family) {
    seen.push_back(name);
    const size_t count = of_family ? globs.size() : of_any;
    bool wanted = count == 0;
    for (size_t i = 0; i < count; ++i)
      if (matches(globs[i], name)) wanted = used[i] = true;
    return wanted;
  }
};

// The error for a named library without a selected kernel.
std::string why_none(const std::string& named, Globs& globs) {
  if (globs.of_any == 0) return named + ": holds no kernel";
  std::string words;
  for (size_t i = 0; i < globs.of_any; ++i)
    words += " --kernel " + globs.globs[i];
  if (globs.left_out.empty())
    globs.left_out = named + ": none of its kernels is named by" + words +
                     "; allowed: a glob for each of them, or no --kernel";
  return "";  // unless a glob matched nothing, which is the better message
}

// The command that builds the families, if the program is in a build tree, with
// the tree's shortest name from here.
std::string build_command(const std::vector<const Family*>& wanted) {
  std::error_code code;
  const fs::path tree = fs::path(program_directory()).parent_path();
  if (!fs::exists(tree / "CMakeCache.txt", code)) return "";
  const fs::path near = fs::proximate(tree, code);
  const bool is_below = !code && !near.empty() && *near.begin() != "..";
  std::string command = "cmake --build " +
                        shell_quoted(is_below ? near.string() : tree.string()) +
                        " --target";
  for (const Family* family : wanted)
    command += std::string(" qkvet_") + family->name;
  return command;
}

// The families that could hold a kernel of this name.
std::vector<const Family*> candidates(const std::string& glob) {
  std::vector<const Family*> found;
  for (const Family& family : kFamilies)
    if (may_hold(family, glob)) found.push_back(&family);
  return found;
}

// Suggestions: kernels that were read, or the family with the word after the
// slash.
std::string perhaps_kernels(const std::string& glob,
                            std::vector<std::string> names) {
  const size_t slash = std::min(glob.find('/'), glob.size());
  if (candidates(glob).empty())
    for (const Family& family : kFamilies)
      names.push_back(family.name + glob.substr(slash));
  return perhaps(glob, names);
}

// Why a glob matched nothing.
std::string why_unmatched(const std::string& glob, const Globs& globs) {
  const std::string missing = joined(why_missing(candidates(glob)), "; ");
  return missing.empty() ? "no kernel is named \"" + glob + "\"" +
                               perhaps_kernels(glob, globs.seen) +
                               "; `qkvet explain kernels` shows all"
                         : glob + ": " + missing;
}

void add_families(SelectedKernels& selected, const KernelSelection& selection,
                  Globs& globs) {
  std::vector<const Family*> wanted;
  for (const Family& family : kFamilies) {
    bool relevant = selected.by_default && family.is_default;
    for (const std::string& glob : globs.globs)
      relevant |= may_hold(family, glob);
    if (relevant) wanted.push_back(&family);
  }
  selected.notes = why_missing(wanted);
  for (const Family* family : wanted) {
    if (const std::string why = why_missing(*family); !why.empty()) {
      // Default families belong to every build that can have them: without one
      // of them the run would prove less than it seems to.
      if (selected.by_default && *family->lacks == 0) {
        selected.error = why;
        return;
      }
      continue;
    }
    const int added = add_library(
        selected, {family_path(*family), ""}, "", selection,
        [&](const KernelInfo& info) { return globs.accept(info.name, true); });
    if (added < 0) return;
  }
}

void add_plugins(SelectedKernels& selected, const KernelSelection& selection,
                 Globs& globs) {
  for (const std::string& plugin : selection.plugins) {
    const int added = add_library(
        selected, parse_plugin(plugin), shell_quoted(plugin), selection,
        [&](const KernelInfo& info) { return globs.accept(info.name, false); });
    if (added < 0) return;
    if (added == 0) selected.error = why_none(plugin, globs);
    if (!selected.error.empty()) return;
  }
}

// To the kernels of the library that was added last.
void add_source_hints(const std::string& source, SelectedKernels& selected) {
  Language language = Language::kCxx;
  if (!source_language(source, &language).empty()) return;
  const std::vector<Hint> hints = source_hints_of_file(source, language);
  for (KernelUnderTest& kernel : selected.kernels)
    if (kernel.library + 1 == selected.libraries.size())
      kernel.hints.insert(kernel.hints.end(), hints.begin(), hints.end());
}

void add_sources(SelectedKernels& selected, const KernelSelection& selection,
                 Globs& globs) {
  std::string flags;
  if (!selection.cflags.empty())
    flags = " --cflags " + shell_quoted(selection.cflags);
  for (const std::string& source : selection.sources) {
    const BuiltKernel built = build_kernel(source, selection.cflags);
    if (!built.error.empty()) {
      selected.error = built.error;
      return;
    }
    const int added = add_library(
        selected, {built.library, ""}, shell_quoted(source) + flags, selection,
        [&](const KernelInfo& info) { return globs.accept(info.name, false); });
    if (selection.hints && added > 0) add_source_hints(source, selected);
    if (added > 0) continue;
    // The library's name would not help the user.
    const std::string lead = built.library + ": ";
    if (selected.error.starts_with(lead))
      selected.error = source + ": " + selected.error.substr(lead.size());
    else if (added == 0)
      selected.error = why_none(source, globs);
    if (!selected.error.empty()) return;
  }
}

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family& faults_family() {
  return *std::find_if(
      std::begin(kFamilies), std::end(kFamilies),
      [](const Family& one) { return std::string_view(one.name) == "faulty"; });
}

void use_program(const std::string& path) {
  named_program = fs::path(path).parent_path().string();
}

std::string program_directory() {
  if (!named_program.empty()) return named_program;
  std::error_code code;
  fs::path self = fs::read_symlink("/proc/self/exe", code);
  // Without /proc: as it was started.
  const auto* const name = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  if (code && name != nullptr) self = fs::canonical(name, code);
  return code ? "." : self.parent_path().string();
}

std::string worker_path() { return program_directory() + "/qkvet-worker"; }

namespace {

std::string module_path(const std::string& name) {
  const fs::path path =
      fs::path(program_directory()) / ".." / "lib" / "qkvet" / (name + ".so");
  return path.lexically_normal().string();
}

}  // namespace

std::string family_path(const Family& family) {
  return module_path("qkvet_" + std::string(family.name));
}

std::vector<std::string> why_missing(const std::vector<const Family*>& wanted) {
  std::vector<std::string> lines;
  std::vector<const Family*> unbuilt;
  std::string names;
  for (const Family* family : wanted) {
    std::error_code code;
    if (fs::exists(family_path(*family), code)) continue;
    if (*family->lacks != 0) {
      lines.push_back(std::string("the family ") + family->name +
                      " is not built: " + family->lacks);
      continue;
    }
    unbuilt.push_back(family);
    names += (names.empty() ? "" : ", ") + std::string(family->name);
  }
  if (unbuilt.empty()) return lines;
  const bool one = unbuilt.size() == 1;
  const std::string lead = (one ? "the family " : "the families ") + names +
                           (one ? " is " : " are ");
  const std::string command = build_command(unbuilt);
  lines.push_back(lead + (command.empty()
                              ? "no part of this installation"
                              : "not built; `" + command + "` builds " +
                                    (one ? "it" : "them")));
  return lines;
}

std::string why_missing(const Family& family) {
  const std::vector<std::string> lines = why_missing(std::vector{&family});
  return lines.empty() ? "" : lines[0];
}

namespace {

// "MODULE:NAME" or "MODULE:NAME:{declaration}".
LibrarySpec parse_callable(const std::string& text) {
  const size_t name = text.find(':');
  const size_t config =
      name == std::string::npos ? name : text.find(':', name + 1);
  LibrarySpec library;
  library.path = text.substr(0, config);
  if (config != std::string::npos) library.config = text.substr(config + 1);
  library.interpreter = python_interpreter();
  return library;
}

}  // namespace

namespace {

// "module", "package.module", "function"
bool is_dotted_name(std::string_view text) {
  return !text.empty() &&
         std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '.';
         });
}

// "MODULE:NAME", "FILE.py:NAME", and a declaration after another colon.
bool is_callable(std::string_view spec) {
  const size_t colon = spec.find(':');
  if (colon == std::string_view::npos) return false;
  const std::string_view module = spec.substr(0, colon);
  std::string_view name = spec.substr(colon + 1);
  name = name.substr(0, name.find(':'));
  return is_dotted_name(name) &&
         (module.ends_with(".py") ||
          (is_dotted_name(module) && !module.ends_with(".so")));
}

}  // namespace

SpecKind kind_of_spec(const std::string& spec) {
  if (spec.starts_with(kFfiMark)) return SpecKind::kFfi;
  const std::string ending = fs::path(spec).extension().string();
  if (std::find(std::begin(kSourceEndings), std::end(kSourceEndings), ending) !=
      std::end(kSourceEndings))
    return SpecKind::kSource;
  if (is_callable(spec)) return SpecKind::kPython;
  // A kernel's name contains no point and is not absolute.
  return spec.starts_with('/') || spec.find('.') != std::string::npos
             ? SpecKind::kLibrary
             : SpecKind::kName;
}

void KernelSelection::add(const std::string& spec) {
  switch (kind_of_spec(spec)) {
    case SpecKind::kName:
      return built_in.push_back(spec);
    case SpecKind::kSource:
      return sources.push_back(spec);
    default:
      return plugins.push_back(spec);
  }
}

std::string python_interpreter() {
  const char* python = std::getenv("QKVET_PYTHON");
  return python == nullptr || *python == 0 ? "python3" : python;
}

LibrarySpec parse_plugin(const std::string& spec) {
  switch (kind_of_spec(spec)) {
    case SpecKind::kPython:
      return parse_callable(spec);
    case SpecKind::kFfi:
      return {module_path("qkvet_tvm_ffi"), spec.substr(kFfiMark.size())};
    default:
      break;
  }
  const size_t colon = spec.rfind(':');
  std::error_code code;
  if (colon == std::string::npos || fs::exists(spec, code)) return {spec, ""};
  return {spec.substr(0, colon), spec.substr(colon + 1)};
}

SelectedKernels select_kernels(const KernelSelection& selection) {
  SelectedKernels selected;
  selected.error = host_obstacle();
  if (!selected.error.empty()) return selected;
  if (!selection.dialect.empty())
    selected.declarations = " --dialect " + shell_quoted(selection.dialect);
  if (!selection.precision.empty())
    selected.declarations +=
        " --precision " + shell_quoted(selection.precision);
  selected.by_default = selection.names_nothing();
  Globs globs{selection.kernels, selection.kernels.size()};
  globs.globs.insert(globs.globs.end(), selection.built_in.begin(),
                     selection.built_in.end());
  globs.used.resize(globs.globs.size());
  add_families(selected, selection, globs);
  if (selected.error.empty()) add_plugins(selected, selection, globs);
  if (selected.error.empty()) add_sources(selected, selection, globs);
  for (size_t i = 0; i < globs.globs.size() && selected.error.empty(); ++i)
    if (!globs.used[i]) selected.error = why_unmatched(globs.globs[i], globs);
  if (selected.error.empty()) selected.error = globs.left_out;
  return selected;
}

SelectedKernels select_linked(const LibrarySpec& library,
                              const std::vector<std::string>& kernels) {
  SelectedKernels selected;
  Globs globs{kernels, kernels.size()};
  // Probed in this process: the laws that follow run in it, too, and the
  // verdict must be the same as for the kernel in a worker.
  add_library(
      selected, library, "", KernelSelection{},
      [&](const KernelInfo& info) { return globs.accept(info.name, false); });
  for (size_t i = 0; i < kernels.size() && selected.error.empty(); ++i)
    if (!globs.used[i])
      selected.error =
          library.path + ": holds no kernel named \"" + kernels[i] + "\"";
  return selected;
}

std::string unavailable_reason(Executor& executor, int kernel) {
  const KernelInfo& info = executor.kernels()[static_cast<size_t>(kernel)];
  const double one = 1;  // a finite number in each storage type
  const auto* data = reinterpret_cast<const std::byte*>(&one);
  KernelCall call;
  // An undeclared type would be refused before the device is called.
  KernelUnderTest asked;
  asked.judged.info = info;
  const StorageTypes types = declared_dtypes({asked})[0];
  call.q_dtype = types.q;
  call.kv_dtype = types.kv;
  call.o_dtype = types.o;
  if (info.has_forward) {
    call.q = call.k = call.v = data;
  } else if (info.has_cache) {
    call.operation = Operation::kCacheCreate;
    call.tokens = 1;
  } else if (info.has_merge && !info.has_layer) {
    call.operation = Operation::kMerge;
    call.states = call.states_lse = data;
  } else {
    call.operation = Operation::kLayer;
    call.shape.D = 1;
    call.x = call.w_q = call.w_k = call.w_v = call.w_o = data;
  }
  const std::vector<CallOutcome> outcomes = executor.run(kernel, {&call, 1});
  return outcomes[0].status == CallStatus::kUnavailable ? outcomes[0].text : "";
}

ExecutorFactory executor_factory(const SelectedKernels& selected,
                                 bool in_process) {
  return [libraries = selected.libraries, in_process](size_t library) {
    return open_library(libraries[library], in_process);
  };
}

std::string open_all(const SelectedKernels& selected, bool in_process,
                     std::vector<std::unique_ptr<Executor>>* executors) {
  const ExecutorFactory open = executor_factory(selected, in_process);
  for (size_t i = 0; i < selected.libraries.size(); ++i) {
    Opened opened = open(i);
    if (opened.executor == nullptr) return opened.error;
    executors->push_back(std::move(opened.executor));
  }
  return "";
}

std::string kernel_arguments(const SelectedKernels& selected,
                             const KernelUnderTest& kernel) {
  const std::string& library = selected.names[kernel.library];
  std::string name = "--kernel " + kernel.judged.info.name;
  if (library.empty()) return name + selected.declarations;
  const bool alone = kernel.library >= selected.held.size() ||
                     selected.held[kernel.library] == 1;
  return library + (alone ? "" : " " + name) + selected.declarations;
}

}  // namespace qkvet::cli

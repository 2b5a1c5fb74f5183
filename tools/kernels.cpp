// SPDX-License-Identifier: Apache-2.0
#include "tools/kernels.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "core/declaration.h"
#include "properties/conventions.h"
#include "properties/probe.h"
#include "reference/precision.h"
#include "tools/build_cache.h"
#include "tools/compiler.h"

namespace qkvet {
namespace {

namespace fs = std::filesystem;

constexpr std::array<Family, 11> kFamilies = {{
    {"scalar", true, Needs::kNothing, "readable loops: attention and a layer"},
    {"eigen", true, Needs::kNothing,
     "Eigen matrix products: attention and a layer"},
    {"avx2", true, Needs::kX86, "tiled online softmax with AVX2"},
    {"kv_cache", true, Needs::kNothing, "KV caches, of every kind"},
    {"kv_cache_avx2", false, Needs::kX86, "the same, built with AVX2 and FMA"},
    {"serving", true, Needs::kNothing,
     "attention over pages, and appending to them"},
    {"serving_avx2", false, Needs::kX86, "the same, built with AVX2 and FMA"},
    {"simt", false, Needs::kNothing,
     "the CUDA kernels, on an emulator of a GPU"},
    {"cuda", false, Needs::kNvcc, "the CUDA kernels, on a GPU"},
    {"controls", false, Needs::kNothing,
     "correct kernels with other arithmetic"},
    {"faulty", false, Needs::kNothing, "wrong kernels that laws must fail"},
}};

#if defined(__x86_64__)
constexpr bool kIsX86 = true;
#else
constexpr bool kIsX86 = false;
#endif

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
  if (in_process || library.entry != nullptr) return open_in_process(library);
  SandboxOptions options;
  options.worker = worker_path();
  return open_sandbox(library, options);
}

// A kernel as it is judged: its declaration, what the files of the selection
// say instead, and what the probes find. "" or what is wrong with it.
std::string judged_kernel(const KernelSelection& selection, Executor& executor,
                          int index, JudgedKernel& judged) {
  KernelInfo& info = judged.info;
  info = executor.kernels()[static_cast<size_t>(index)];
  std::string error;
  if (!selection.dialect.empty())
    error = read_dialect_or_convention(selection.dialect, info.dialect);
  if (error.empty() && !selection.precision.empty())
    error = read_precision(selection.precision, info.precision);
  if (!error.empty()) return error;
  const ResolvedPrecision precision = resolve_precision(info.precision);
  if (!precision.error.empty()) return info.name + ": " + precision.error;
  judged.model = precision.model;
  judged.looser_than_generic = precision.looser_than_generic;
  // In this process a probe could end the program before anything is judged.
  if (!selection.in_process)
    judged.assumed = probe_dialect(executor, index, info);
  return "";
}

// Adds a library and those of its kernels that `wanted` accepts; returns how
// many, or -1 with selected.error.
template <class Wanted>
int add_library(SelectedKernels& selected, const LibrarySpec& library,
                const std::string& name, const KernelSelection& selection,
                Wanted wanted) {
  const Opened opened = open_library(library, selection.in_process);
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
    selected.kernels.push_back(std::move(kernel));
    ++added;
  }
  if (added > 0) {
    selected.libraries.push_back(library);
    selected.names.push_back(name);
  }
  return added;
}

// The globs of --kernel, and which of them have found something.
struct Globs {
  const std::vector<std::string>& globs;
  std::vector<bool> used = std::vector<bool>(globs.size());

  bool accept(const std::string& name) {
    bool wanted = globs.empty();
    for (size_t i = 0; i < globs.size(); ++i)
      if (matches(globs[i], name)) wanted = used[i] = true;
    return wanted;
  }
};

const char* why_missing(const Family& family) {
  return family.needs == Needs::kNvcc ? "it takes nvcc"
                                      : "this is no x86-64 machine";
}

void add_families(SelectedKernels& selected, const KernelSelection& selection,
                  Globs& globs) {
  for (const Family& family : kFamilies) {
    bool relevant = selected.by_default && family.is_default;
    for (const std::string& glob : selection.kernels)
      relevant |= may_hold(family, glob);
    if (!relevant) continue;
    if (!family_exists(family)) {
      selected.notes.push_back(std::string(family.name) + ": not built, " +
                               why_missing(family));
      continue;
    }
    const int added = add_library(
        selected, {family_path(family), ""}, "", selection,
        [&](const KernelInfo& info) { return globs.accept(info.name); });
    if (added < 0) return;
  }
}

void add_plugins(SelectedKernels& selected, const KernelSelection& selection,
                 Globs& globs) {
  for (const std::string& plugin : selection.plugins) {
    const int added = add_library(
        selected, parse_plugin(plugin), "--plugin " + shell_quoted(plugin),
        selection,
        [&](const KernelInfo& info) { return globs.accept(info.name); });
    if (added < 0) return;
    if (added == 0 && selection.kernels.empty()) {
      selected.error = plugin + ": holds no kernel";
      return;
    }
  }
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
        [&](const KernelInfo& info) { return globs.accept(info.name); });
    if (added > 0) continue;
    // The library's name would say nothing to the user.
    const std::string lead = built.library + ": ";
    if (selected.error.starts_with(lead))
      selected.error = source + ": " + selected.error.substr(lead.size());
    else if (added == 0 && selection.kernels.empty())
      selected.error = source + ": holds no kernel";
    if (!selected.error.empty()) return;
  }
}

}  // namespace

std::span<const Family> families() { return kFamilies; }

std::string program_directory() {
  std::error_code code;
  const fs::path self = fs::read_symlink("/proc/self/exe", code);
  return code ? "." : self.parent_path().string();
}

std::string worker_path() { return program_directory() + "/qkvet-worker"; }

std::string family_path(const Family& family) {
  const fs::path path = fs::path(program_directory()) / ".." / "lib" / "qkvet" /
                        ("qkvet_" + std::string(family.name) + ".so");
  return path.lexically_normal().string();
}

bool family_exists(const Family& family) {
  if (family.needs == Needs::kX86) return kIsX86;
  return family.needs != Needs::kNvcc || fs::exists(family_path(family));
}

LibrarySpec parse_plugin(const std::string& text) {
  const size_t colon = text.rfind(':');
  std::error_code code;
  if (colon == std::string::npos || fs::exists(text, code)) return {text, ""};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

SelectedKernels select_kernels(const KernelSelection& selection) {
  SelectedKernels selected;
  if (!selection.dialect.empty())
    selected.declarations = " --dialect " + shell_quoted(selection.dialect);
  if (!selection.precision.empty())
    selected.declarations +=
        " --precision " + shell_quoted(selection.precision);
  selected.by_default = selection.kernels.empty() &&
                        selection.plugins.empty() && selection.sources.empty();
  Globs globs{selection.kernels};
  add_families(selected, selection, globs);
  if (selected.error.empty()) add_plugins(selected, selection, globs);
  if (selected.error.empty()) add_sources(selected, selection, globs);
  for (size_t i = 0; i < globs.globs.size() && selected.error.empty(); ++i)
    if (!globs.used[i])
      selected.error =
          "no kernel is named \"" + globs.globs[i] + "\"; " +
          (selected.notes.empty() ? "`qkvet list kernels` shows all"
                                  : selected.notes.back());
  return selected;
}

SelectedKernels select_linked(const LibrarySpec& library,
                              const std::vector<std::string>& kernels) {
  SelectedKernels selected;
  Globs globs{kernels};
  // Probed although it runs in this process: the laws that follow do so, too,
  // and the verdict must be that of the same kernel in a worker.
  add_library(selected, library, "", KernelSelection{},
              [&](const KernelInfo& info) { return globs.accept(info.name); });
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
  // A type that is not declared would be refused before the device is asked.
  KernelUnderTest asked;
  asked.judged.info = info;
  call.q_dtype = call.kv_dtype = call.o_dtype = declared_dtypes({asked})[0];
  if (info.has_forward) {
    call.q = call.k = call.v = data;
  } else if (info.has_cache) {
    call.operation = Operation::kCacheCreate;
    call.tokens = 1;
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

std::string kernel_arguments(const SelectedKernels& selected,
                             const KernelUnderTest& kernel) {
  const std::string& library = selected.names[kernel.library];
  std::string name = "--kernel " + kernel.judged.info.name;
  if (library.empty()) return name + selected.declarations;
  const auto siblings =
      std::count_if(selected.kernels.begin(), selected.kernels.end(),
                    [&](const KernelUnderTest& other) {
                      return other.library == kernel.library;
                    });
  return library + (siblings > 1 ? " " + name : "") + selected.declarations;
}

}  // namespace qkvet

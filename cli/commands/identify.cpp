// SPDX-License-Identifier: Apache-2.0
// qkvet identify: finds the declaration of an undeclared kernel.
#include "cli/identify/identify.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "cli/base/arguments.h"
#include "cli/commands/flags.h"
#include "cli/kernels/write_new.h"
#include "cli/terminal/select.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

struct IdentifyWords {
  KernelSelection selection;
  int64_t cases = IdentifyOptions().cases;
  std::string seed = std::to_string(IdentifyOptions().seed);
  int jobs = 0;
  std::string out;   // FILE.c, or OUT of OUT.dialect and so on; "" for none
  std::string json;  // a file; "" for none
};

// "" or why a file cannot be written.
std::string write_parts(const std::string& out, const Identified& found) {
  if (out.ends_with(".c"))
    return write_file(out,
                      "#include \"qkvet/kernel.h\"\n\n" + identified_c(found));
  for (const auto& [part, ending] :
       {std::pair{Part::kDialect, ".dialect"},
        std::pair{Part::kPrecision, ".precision"}}) {
    const std::string text = identified_file(found, part);
    if (text.empty()) continue;
    if (const std::string error = write_file(out + ending, text);
        !error.empty())
      return error;
  }
  return "";
}

// "" or the error in the words, before the kernel is called.
std::string misuse_of(const IdentifyWords& words) {
  if (words.selection.names_nothing())
    return std::string("identify takes a kernel: ") + kSpecForms +
           "; none is named";
  if (words.out.empty()) return "";
  if (words.out.ends_with(".c")) return not_new_reason(words.out);
  for (const char* ending : {".dialect", ".precision"})
    if (std::string reason = not_new_reason(words.out + ending);
        !reason.empty())
      return reason;
  return "";
}

ExitCode run(const IdentifyWords& words) {
  std::string error = misuse_of(words);
  if (!error.empty()) return wrong_use(error);
  IdentifyOptions options;
  options.cases = words.cases;
  options.jobs = jobs_or_cores(words.jobs);
  const auto seed = parse_seed(words.seed, &error);
  if (!seed) return wrong_use(error);
  options.seed = *seed;
  const SelectedKernels selected = select_kernels(words.selection);
  if (!selected.error.empty()) return wrong_use(selected.error);
  if (!words.out.empty() && selected.kernels.size() > 1)
    return wrong_use("--out " + words.out + ": takes one kernel; " +
                     std::to_string(selected.kernels.size()) + " are named");

  ExitCode worst = kConforms;
  std::string lines;
  for (const KernelUnderTest& kernel : selected.kernels) {
    const Identified found = identify_kernel(selected.libraries[kernel.library],
                                             kernel.index, options);
    std::fputs(identified_text(found).c_str(), stdout);
    if (selected.kernels.size() > 1) std::fputs("\n", stdout);
    std::fflush(stdout);
    lines += identified_json(found);
    // 4 > 1 > 3 > 0.
    constexpr ExitCode kOrder[] = {kConforms, kNothingChecked, kLawFailed,
                                   kKernelDied};
    const auto rank = [&](ExitCode code) {
      return std::find(std::begin(kOrder), std::end(kOrder), code);
    };
    if (rank(found.exit_code()) > rank(worst)) worst = found.exit_code();
    if (!words.out.empty() && found.holds())
      if (error = write_parts(words.out, found); !error.empty())
        return wrong_use(error);
  }
  if (!words.json.empty())
    if (error = write_file(words.json, lines); !error.empty())
      return wrong_use(error);
  return worst;
}

void add_flags(CLI::App& command, IdentifyWords& words) {
  add_specs(command, words.selection);
  add_kernels(command, words.selection);
  command
      .add_option("--cflags", words.selection.cflags,
                  "Further words for the compiler of SOURCE")
      ->type_name("FLAGS");
  command
      .add_option("-n,--cases", words.cases,
                  "Number of cases to verify the declaration with")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}))
      ->capture_default_str();
  add_seed(command, words.seed, "Seed of these cases");
  add_jobs(command, words.jobs);
  command
      .add_option("-o,--out", words.out,
                  "Write OUT.dialect and OUT.precision, or OUT.c")
      ->type_name("OUT");
  add_json(command, words.json);
}

}  // namespace

void add_identify(CLI::App& app, Chosen& chosen) {
  add_command<IdentifyWords>(
      app, chosen, "identify",
      "Determine the conventions and the arithmetic of a kernel", add_flags,
      run);
}

}  // namespace qkvet::cli

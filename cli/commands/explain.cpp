// SPDX-License-Identifier: Apache-2.0
// qkvet explain: a law, a fault or an exit code in words, and an example that
// is run at once: a fault, and the smallest case in which the law catches it.
// Conventions are in convention_text.cpp, lists in lists.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "cli/base/perhaps.h"
#include "cli/commands/convention_text.h"
#include "cli/commands/flags.h"
#include "cli/commands/lists.h"
#include "cli/terminal/report.h"
#include "cli/terminal/select.h"
#include "properties/conventions/conventions.h"
#include "properties/judging/law.h"
#include "report/lines.h"

namespace qkvet::cli {
namespace {

// `what` may also be a law, a fault, a convention or an exit code.
using ExplainOptions = ListOptions;

// Enough for every law and every fault that names it.
constexpr int64_t kExampleCases = 1500;
constexpr std::string_view kFaulty = "faulty/";

struct Meaning {
  const char *what, *how;
};
constexpr std::array<Meaning, 5> kExitCodes = {
    {{"conforms",
      "Every selected kernel passed the laws that it could be asked, and none "
      "failed."},
     {"a law failed",
      "The report shows the smallest case. Reading or writing outside of a "
      "tensor is a failure of the law reads_only_its_inputs."},
     {"wrong use",
      "One line on stderr names the thing, what is wrong with it and what is "
      "allowed. Nothing was judged."},
     {"nothing was checked, or not enough",
      "No law failed, but a kernel that was asked for passed none, or a "
      "verdict "
      "is open: gave up, or mistrusted. Its line says why."},
     {"a kernel died",
      "By a signal, abort(), exit(), an exception, an endless loop or all of "
      "the memory. The run went on without it; the report has the case."}}};

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

const FaultInfo& fault_of(const KernelUnderTest& kernel) {
  return *kernel.judged.info.fault;
}

std::string short_name(const KernelUnderTest& fault) {
  return fault.judged.info.name.substr(kFaulty.size());
}

// Faults that declare that the law fails them. Those that name it first come
// first: they are about this law only.
std::vector<const KernelUnderTest*> faults_of(const Law& law,
                                              const SelectedKernels& faults) {
  std::vector<const KernelUnderTest*> found;
  const auto place = [&](const KernelUnderTest& kernel) {
    const auto& laws = fault_of(kernel).killed_by;
    return std::find(laws.begin(), laws.end(), law.id) - laws.begin();
  };
  for (const KernelUnderTest& kernel : faults.kernels)
    if (place(kernel) < std::ssize(fault_of(kernel).killed_by))
      found.push_back(&kernel);
  std::stable_sort(
      found.begin(), found.end(),
      [&](const auto* a, const auto* b) { return place(*a) < place(*b); });
  return found;
}

struct Example {
  std::string text;
  bool has_number = false;  // the wrong value is a number, not NaN
};

// The report on the first case in which the law fails the fault, shrunk.
Example example(const KernelUnderTest& fault, const Law& law,
                const SelectedKernels& faults) {
  RunOptions options;
  options.laws = {&law};
  options.cases = kExampleCases;
  options.scope.dtypes = declared_dtypes({fault});
  const RunResult result = run_plan(
      {fault}, executor_factory(faults, /*in_process=*/false), options);
  if (!result.error.empty()) return {field("example", result.error)};
  const KernelResult& kernel = result.kernels[0];
  if (kernel.cells.empty() || !kernel.cells[0].failure)
    return {wrapped_field(
        "example", fmt::format("{} cases did not show it on {}", options.cases,
                               fault.judged.info.name))};
  const Failure& failure = *kernel.cells[0].failure;
  const ReportInput report{result, options, faults, /*in_process=*/false};
  const auto& finding = failure.judgement.finding;
  return {"\n" + failure_text(report, kernel, failure) + "\n",
          finding && finding->actual.find_first_of("0123456789") == 0};
}

// The most informative example among these faults: a wrong number is better
// than NaN.
std::string telling_example(const std::vector<const KernelUnderTest*>& caught,
                            const Law& law, const SelectedKernels& faults) {
  constexpr size_t kMostTried = 4;
  std::string first;
  for (size_t i = 0; i < std::min(caught.size(), kMostTried); ++i) {
    Example one = example(*caught[i], law, faults);
    if (one.has_number) return one.text;
    if (i == 0) first = std::move(one.text);
  }
  return first;
}

ExitCode explain_law(const Law& law, const SelectedKernels& faults) {
  print(fmt::format("{}   a law about {}\n", law.id,
                    subject_text(law.domain.subject)));
  const struct {
    const char *name, *text;
  } rows[] = {{"law", law.sentence},           {"formula", law.formula},
              {"holds for", law.precondition}, {"because", law.reason},
              {"rounding", law.rounding},      {"kept for", law.kept_for}};
  for (const auto& row : rows) print(wrapped_field(row.name, row.text));
  if (const std::string missing = why_missing(faults_family());
      !missing.empty()) {
    print(field("example", missing));
    return kConforms;
  }
  const auto caught = faults_of(law, faults);
  std::vector<std::string> names;
  for (const KernelUnderTest* fault : caught)
    names.push_back(short_name(*fault));
  if (names.empty()) return kConforms;
  print(wrapped_field("catches", joined(names)));
  print(telling_example(caught, law, faults));
  return kConforms;
}

ExitCode explain_fault(const KernelUnderTest& kernel,
                       const SelectedKernels& faults) {
  const FaultInfo& fault = fault_of(kernel);
  print(fmt::format("{}   a known fault\n", short_name(kernel)));
  const struct {
    const char* name;
    std::string text;
  } rows[] = {{"cause", fault.cause},
              {"fix", fault.fix},
              {"shows with", fault.when.empty() ? "every call, or as the data "
                                                  "decides"
                                                : fault.when},
              {"source", fault.source},
              {"caught by", joined(fault.killed_by)}};
  for (const auto& row : rows) print(wrapped_field(row.name, row.text));
  const Law* law =
      fault.killed_by.empty() ? nullptr : find_law(fault.killed_by[0]);
  if (law != nullptr) print(example(kernel, *law, faults).text);
  return kConforms;
}

ExitCode explain_exit_code(size_t code) {
  print(fmt::format("exit code {}   {}\n", code, kExitCodes[code].what));
  print(wrapped_field("means", kExitCodes[code].how));
  print(wrapped_field("order",
                      "Where several apply, 2 goes before 4, 1, 3 and "
                      "0, in this order."));
  return kConforms;
}

std::string suggestions(const std::string& word,
                        const SelectedKernels& faults) {
  std::vector<std::string> names;
  for (const Law* law : all_laws()) names.push_back(law->id);
  for (const Convention& convention : built_in_conventions().values)
    names.push_back(convention.id);
  for (const KernelUnderTest& fault : faults.kernels)
    names.push_back(short_name(fault));
  return perhaps(word, names);
}

ExitCode run(const ExplainOptions& options) {
  const std::string& name = options.what;
  if (kind_of_spec(name) != SpecKind::kName) return list_library(options);
  if (name.empty() ||
      std::find(std::begin(kLists), std::end(kLists), name) != std::end(kLists))
    return show_lists(options);
  if (options.json)
    return wrong_use(
        "explain " + name + " --json: allowed for lists: " +
        joined(std::vector<std::string>(std::begin(kLists), std::end(kLists))));
  if (name.size() == 1 && name[0] >= '0' &&
      static_cast<size_t>(name[0] - '0') < kExitCodes.size())
    return explain_exit_code(static_cast<size_t>(name[0] - '0'));
  if (const Convention* convention = find_convention(name))
    return explain_convention(*convention);
  // Laws are explained without them, too.
  const std::string missing = why_missing(faults_family());
  SelectedKernels faults;
  if (missing.empty()) {
    KernelSelection selection;
    selection.kernels = {std::string(kFaulty) + "*"};
    faults = select_kernels(selection);
    if (!faults.error.empty()) return wrong_use(faults.error);
  }
  if (const Law* law = find_law(name)) return explain_law(*law, faults);
  for (const KernelUnderTest& fault : faults.kernels)
    if (name == fault.judged.info.name || name == short_name(fault))
      return explain_fault(fault, faults);
  if (!missing.empty())
    return wrong_use(fmt::format(
        "\"{}\" is no law, no convention and no exit code (0 .. 4){}"
        "; no fault is known here: {}",
        name, suggestions(name, faults), missing));
  return wrong_use(fmt::format(
      "\"{}\" is no law, no fault, no convention and no exit code (0 .. 4){}; "
      "`qkvet explain` and `qkvet explain conventions` show all",
      name, suggestions(name, faults)));
}

void add_flags(CLI::App& command, ExplainOptions& options) {
  command.add_option(
      "name", options.what,
      "Law, fault, convention, exit code, list, ./lib.so or mine.cpp");
  add_footer(command, "Lists: " +
                          joined(std::vector<std::string>(std::begin(kLists),
                                                          std::end(kLists))) +
                          ". Without a name: the first three.");
  command.add_flag("--json", options.json, "Print a list as JSON Lines");
}

}  // namespace

void add_explain(CLI::App& app, Chosen& chosen) {
  add_command<ExplainOptions>(
      app, chosen, "explain",
      "Explain a law, a fault, a convention or an exit code; list them",
      add_flags, run);
}

}  // namespace qkvet::cli

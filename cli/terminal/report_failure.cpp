// SPDX-License-Identifier: Apache-2.0
// The report on one failure.
#include <fmt/core.h>

#include <algorithm>
#include <sstream>

#include "cli/kernels/compiler.h"
#include "cli/terminal/report.h"
#include "core/case/file_data.h"
#include "diagnosis/stage/described_cause.h"
#include "properties/conventions/domain.h"
#include "report/lines.h"

namespace qkvet::cli {
namespace {

std::string source_text(const KernelInfo& info) {
  if (info.source_file.empty()) return "";
  return fmt::format("{}:{}", info.source_file, info.source_line);
}

std::string headline(const KernelResult& kernel, const Failure& failure) {
  const bool crash = failure.judgement.kind == FailureKind::kCrash ||
                     failure.judgement.kind == FailureKind::kHang;
  const std::string found = failure.recorded.empty()
                                ? fmt::format("case {}", failure.number)
                                : failure.recorded;
  return fmt::format(
      "{:<5} {}   {}   {}   {}, {:.1f} s\n", crash ? "CRASH" : "FAIL",
      failure.law->id, kernel.kernel.judged.info.name,
      source_text(kernel.kernel.judged.info), found, failure.seconds);
}

// " --data sets/uniform.safetensors" if the case has data from there.
std::string data_argument(const Case& value) {
  const auto data = find_file_data(value.file);
  return data == nullptr ? "" : " --data " + data->path;
}
// The diagnosis of the failure itself, not of others with the same cause.
const CauseOfFailures* own_cause(const ReportInput& input,
                                 const Failure& failure) {
  const CauseOfFailures* cause = cause_of(input.diagnoses, failure);
  return cause != nullptr && cause->best == &failure ? cause : nullptr;
}

bool earlier_calls_decide(const ReportInput& input, const Failure& failure) {
  const CauseOfFailures* cause = own_cause(input, failure);
  return cause != nullptr && cause->diagnosis.earlier.decide();
}

// " --after f32,...": the calls without which the case passes.
std::string after_argument(const ReportInput& input, const Failure& failure) {
  std::string out;
  if (const CauseOfFailures* cause = own_cause(input, failure))
    for (const Case& one : cause->diagnosis.earlier.before)
      out += " --after " + to_string(one);
  return out;
}
}  // namespace

std::string replay_line(const ReportInput& input, const KernelResult& kernel,
                        const Failure& failure) {
  if (!input.selected.again.empty()) return input.selected.again;
  if (input.selected.libraries[kernel.kernel.library].entry != nullptr)
    return fmt::format("this test, with .only(\"{}\") behind its entry",
                       to_string(failure.smallest));
  return fmt::format(
      "qkvet replay {}{}{} --law {} {}", to_string(failure.smallest),
      after_argument(input, failure), data_argument(failure.smallest),
      failure.law->id, kernel_arguments(input.selected, kernel.kernel));
}

namespace {

// The command that searches for the repairing edit, for a kernel that is
// compiled from source.
std::string repair_line(const ReportInput& input, const KernelResult& kernel) {
  const SelectedKernels& selected = input.selected;
  const size_t library = kernel.kernel.library;
  if (!selected.again.empty() || library >= selected.names.size()) return "";
  std::vector<std::string> words;
  Language language = Language::kPython;
  if (!split_words(selected.names[library], &words) || words.empty() ||
      !source_language(words[0], &language).empty() ||
      language == Language::kPython)
    return "";
  return "qkvet mutate --repair " + selected.names[library] +
         selected.declarations;
}

std::string optional_field(std::string_view name, std::string_view text,
                           size_t width) {
  return text.empty() ? "" : wrapped_field(name, text, width);
}

std::string finding_text(const ReportInput& input, const Failure& failure) {
  const size_t width = input.width;
  if (!failure.judgement.finding) return "";
  const Finding& finding = *failure.judgement.finding;
  std::string out = field("at", finding.where);
  out +=
      field("expected", finding.allowed.empty()
                            ? finding.expected
                            : fmt::format("{:<14} allowed {}", finding.expected,
                                          finding.allowed));
  out +=
      field("actual", finding.ratio == 0
                          ? finding.actual
                          : fmt::format("{:<14} error/bound {}", finding.actual,
                                        ratio_text(finding.ratio)));
  for (const Reach& reach : failure.story.reaches)
    out += wrapped_field("", reach_text(reach), width);
  out += optional_field("looks", looks_text(input, failure), width);
  std::istringstream printed(finding.printed);
  const char* name = "printed";
  for (std::string line; std::getline(printed, line); name = "")
    out += field(name, line);
  return out;
}

// "window_off_by_one_left, sure: 9 of 9 failing probes agree, ..." Without
// known faults, "sure" is impossible.
std::string certainty_text(const Diagnosis& diagnosis, bool has_faults) {
  const std::string agree = fmt::format(
      "{} of {} failing probes and {} passing ones agree", diagnosis.predicted,
      diagnosis.failing, diagnosis.probes - diagnosis.failing);
  if (!has_faults)
    return fmt::format("{}, likely: {}", diagnosis.name(), agree);
  if (diagnosis.certainty == Certainty::kSure)
    return fmt::format("{}, sure: {}, no other known fault does",
                       diagnosis.name(), agree);
  if (diagnosis.earlier.decide() && diagnosis.causes.size() == 1)
    return fmt::format(
        "{}, likely: {}; on normal data the kernel is wrong "
        "without it as well",
        diagnosis.name(), agree);
  std::string others;
  for (size_t i = 1; i < diagnosis.causes.size(); ++i)
    others += (i == 1 ? "" : ", ") + diagnosis.causes[i].name;
  const char* few = diagnosis.probes > diagnosis.failing
                        ? "; there were too few to be sure"
                        : "; nothing passes that would make it sure";
  return fmt::format(
      "{}, likely: {}{}", diagnosis.name(), agree,
      others.empty() ? few : "; they do not tell it apart from " + others);
}

// An unknown cause, and the findings that are certain all the same.
std::string unknown_cause(const Diagnosis& diagnosis) {
  if (const auto described = described_cause(diagnosis.instead))
    return fmt::format("{}: likely, {}; no known fault does it",
                       described->cause, described->evidence);
  if (diagnosis.probes == 0) return "unknown: it could not be looked into";
  if (!diagnosis.seen.empty())
    return "unknown: " + diagnosis.seen + ", which many faults end in";
  return fmt::format(
      "unknown: no known fault does what this kernel does in {} probes, of "
      "which {} fail",
      diagnosis.probes, diagnosis.failing);
}

std::string fix_of(const Diagnosis& diagnosis) {
  if (!diagnosis.causes.empty()) return joined_causes(diagnosis, &Cause::fix);
  const auto described = described_cause(diagnosis.instead);
  return described ? described->fix : "";
}

std::string cause_text(const ReportInput& input, const Failure& failure) {
  const CauseOfFailures* cause = own_cause(input, failure);
  // An unsteady kernel would answer probes differently.
  if (cause == nullptr ||
      (!unsteady_text(failure).empty() && !cause->diagnosis.earlier.decide()))
    return "";
  const Diagnosis& diagnosis = cause->diagnosis;
  const std::string& no_faults = input.diagnoses->no_faults;
  // Observations come before conclusions.
  std::string out =
      optional_field("fails", diagnosis.where.text(), input.width) +
      optional_field("stage", diagnosis.instead.stage_sentence(), input.width) +
      optional_field("instead", diagnosis.instead.text(), input.width);
  if (!diagnosis.causes.empty()) {
    out += wrapped_field("cause", joined_causes(diagnosis, &Cause::cause),
                         input.width);
    out += wrapped_field("", certainty_text(diagnosis, no_faults.empty()),
                         input.width);
  } else if (no_faults.empty()) {
    out += wrapped_field("cause", unknown_cause(diagnosis), input.width);
  }
  // In one line, because it contains a command.
  if (!no_faults.empty())
    out += diagnosis.causes.empty()
               ? field("cause", "not looked up: " + no_faults)
               : field("", "known faults were not looked up: " + no_faults);
  if (!diagnosis.left_out.empty())
    out += wrapped_field("", diagnosis.left_out, input.width);
  out += optional_field("hidden", diagnosis.hidden, input.width);
  out += optional_field("fix", fix_of(diagnosis), input.width);
  return out;
}

// If a law fails for several causes: how often for this one.
std::string alike_text(const KernelResult& kernel, const Failure& failure) {
  const auto has = [&failure](const Failure& other) {
    return &other == &failure;
  };
  for (const Cell& cell : kernel.cells) {
    if (cell.others.empty() || !cell.failure) continue;
    if (!has(*cell.failure) &&
        std::none_of(cell.others.begin(), cell.others.end(), has))
      continue;
    int64_t all = cell.failure->alike;
    for (const Failure& other : cell.others) all += other.alike;
    return field("seen", fmt::format("{} of {} failing cases of the law are "
                                     "like this one",
                                     failure.alike, all));
  }
  return "";
}

}  // namespace

std::string joined_causes(const Diagnosis& diagnosis,
                          std::string Cause::*text) {
  std::string out;
  for (const Cause& one : diagnosis.causes)
    if (out.find(one.*text) == std::string::npos)
      out += (out.empty() ? "" : " Or: ") + one.*text;
  return out;
}

std::string unsteady_text(const Failure& failure) {
  if (failure.repeats_failed == failure.repeats) return "";
  return fmt::format(
      "{} of {} further runs failed; the case was not shrunk. The answer is "
      "made of more than the inputs: state that is kept between calls, such as "
      "scratch or a cache, memory that nobody wrote, or threads that race. If "
      "it fails with one thread in a process of its own, it is no race.",
      failure.repeats_failed, failure.repeats);
}

std::string looks_text(const ReportInput& input, const Failure& failure) {
  const auto& finding = failure.judgement.finding;
  return finding && unsteady_text(failure).empty() &&
                 !earlier_calls_decide(input, failure)
             ? finding->looks
             : "";
}

std::string failure_text(const ReportInput& input, const KernelResult& kernel,
                         const Failure& failure) {
  std::string out = headline(kernel, failure);
  out += wrapped_field("law", failure.law->sentence, input.width);
  out += field("case", to_string(failure.smallest));
  if (!(failure.found == failure.smallest))
    out += field("", fmt::format("shrunk from {} in {} step{}",
                                 to_string(failure.found), failure.shrink_steps,
                                 failure.shrink_steps == 1 ? "" : "s"));
  if (!earlier_calls_decide(input, failure))
    out += optional_field("unsteady", unsteady_text(failure), input.width);
  out += alike_text(kernel, failure);
  const Domain& domain = failure.law->domain;
  out += field("inputs", fmt::format("digest {:08x}{}", failure.digest,
                                     !domain.free_data ? "; the law sets some"
                                     : !domain.free_v  ? "; the law sets v"
                                                       : ""));
  for (const std::string& line : failure.judgement.picture)
    out += field("", line);
  out += finding_text(input, failure);
  out += optional_field("whose", failure.story.whose, input.width);
  out += optional_field("dialect", failure.dialect, input.width);
  out += cause_text(input, failure);
  if (!failure.where.empty()) out += field("where", failure.where);
  out += field("again", replay_line(input, kernel, failure));
  if (const std::string line = repair_line(input, kernel); !line.empty())
    out += field("repair", line);
  // Findings of guard pages or of the worker are best debugged in place.
  if (failure.judgement.kind != FailureKind::kLaw && !input.in_process) {
    const size_t library = kernel.kernel.library;
    const bool python = library < input.selected.libraries.size() &&
                        !input.selected.libraries[library].interpreter.empty();
    out += field("debug",
                 python ? "qkvet.replay(case, function, isolated=False)"
                        : "gdb --args " + replay_line(input, kernel, failure) +
                              " --in-process");
  }
  out.pop_back();
  return out;
}

std::string found_text(const ReportInput& input, const KernelResult& kernel,
                       const Failure& failure) {
  std::string out = headline(kernel, failure);
  out += wrapped_field("law", failure.law->sentence, input.width);
  out += field("case", to_string(failure.smallest));
  if (const auto& finding = failure.judgement.finding) {
    out += field("expected", finding->expected);
    out += field("actual", finding->actual);
  }
  return out + field("again", replay_line(input, kernel, failure));
}

std::string remedy_text(const ReportInput& input, const KernelResult& kernel,
                        const Failure& failure) {
  const CauseOfFailures* cause = own_cause(input, failure);
  std::string what, fix;
  if (!unsteady_text(failure).empty() &&
      !earlier_calls_decide(input, failure)) {
    what = fmt::format("unsteady: {} of {} further runs failed",
                       failure.repeats_failed, failure.repeats);
  } else if (cause != nullptr) {
    const Diagnosis& diagnosis = cause->diagnosis;
    if (!diagnosis.causes.empty())
      what = joined_causes(diagnosis, &Cause::cause);
    else if (const auto described = described_cause(diagnosis.instead))
      what = described->cause;
    else if (const std::string where = diagnosis.where.text(); !where.empty())
      what = "unknown; it fails " + where;
    else if (input.diagnoses->no_faults.empty())
      what = unknown_cause(diagnosis);
    fix = fix_of(diagnosis);
  }
  const std::string repair = fix.empty() ? repair_line(input, kernel) : "";
  return optional_field("cause", what, input.width) +
         optional_field("fix", fix, input.width) +
         (repair.empty() ? "" : field("repair", repair)) +
         field("again", replay_line(input, kernel, failure));
}

}  // namespace qkvet::cli

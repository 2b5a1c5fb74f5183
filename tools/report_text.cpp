// SPDX-License-Identifier: Apache-2.0
// The report for people.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "properties/admit.h"
#include "properties/small_scope.h"
#include "tools/lines.h"
#include "tools/report.h"

namespace qkvet {
namespace {

std::string counted(size_t n, const char* what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::string painted(const std::string& text, const char* code, bool colour) {
  return colour ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
}

bool is_known(const ReportInput& input, const KernelResult& kernel,
              const Cell& cell) {
  return known_state(input, kernel, cell) == KnownState::kAsKnown;
}

// The failures of a kernel that are not accepted and have one cause; the first
// is the one to report. Those whose cause was not looked for are together.
std::vector<std::vector<const Failure*>> failures_by_cause(
    const ReportInput& input, const KernelResult& kernel) {
  std::vector<std::vector<const Failure*>> groups;
  std::vector<const CauseOfFailures*> causes;
  for (const Cell& cell : kernel.cells) {
    if (!cell.failure || is_known(input, kernel, cell)) continue;
    const CauseOfFailures* cause = cause_of(input.diagnoses, *cell.failure);
    const auto place =
        std::find(causes.begin(), causes.end(), cause) - causes.begin();
    if (place == std::ssize(causes)) {
      causes.push_back(cause);
      groups.emplace_back();
    }
    auto& group = groups[static_cast<size_t>(place)];
    const bool best = cause != nullptr && cause->best == &*cell.failure;
    group.insert(best ? group.begin() : group.end(), &*cell.failure);
  }
  return groups;
}

// One report per cause, under the law that says most about it; the other laws
// are named.
std::string kernel_failures(const ReportInput& input,
                            const KernelResult& kernel, bool colour) {
  std::string out;
  for (const auto& group : failures_by_cause(input, kernel)) {
    const std::string text = failure_text(input, kernel, *group[0]);
    const size_t head = text.find(' ');
    out += painted(text.substr(0, head), "1;31", colour) + text.substr(head) +
           "\n";
    for (size_t i = 1; i < group.size(); ++i)
      out += field(i == 1 ? "also" : "",
                   fmt::format("{}   {}", group[i]->law->id,
                               to_string(group[i]->smallest)));
    out += "\n";
  }
  return out;
}

std::string verdict_text(const Cell& cell, bool known) {
  if (known) return "known";
  if (cell.crashed()) return "CRASH";
  return std::string(verdict_name(cell.verdict));
}

std::string table(const ReportInput& input, bool colour) {
  size_t name_width = 6, law_width = 3;
  for (const KernelResult& kernel : input.result.kernels)
    name_width = std::max(name_width, kernel.kernel.judged.info.name.size());
  for (const Law* law : input.options.laws)
    law_width = std::max(law_width, std::string_view(law->id).size());
  std::string out = fmt::format(
      "{:<{}}  {:<{}}  {:<11}  {:>7}  {:>11}  {:>8}\n", "kernel", name_width,
      "law", law_width, "verdict", "checked", "error/bound", "time");
  for (const KernelResult& kernel : input.result.kernels)
    for (const Cell& cell : kernel.cells) {
      const bool known = is_known(input, kernel, cell);
      const bool bad = cell.verdict == Verdict::kFailed && !known;
      const std::string ratio =
          cell.worst_ratio > 0 ? ratio_text(cell.worst_ratio) : "-";
      out += fmt::format(
          "{:<{}}  {:<{}}  {}  {:>7}  {:>11}  {:>6.2f} s\n",
          kernel.kernel.judged.info.name, name_width, cell.law->id, law_width,
          painted(fmt::format("{:<11}", verdict_text(cell, known)),
                  bad ? "1;31" : "32", colour),
          cell.checked, ratio, cell.seconds);
      if (!cell.reason.empty() && cell.verdict != Verdict::kPassed &&
          cell.verdict != Verdict::kFailed)
        out += fmt::format("{:<{}}    {}\n", "", name_width, cell.reason);
    }
  return out;
}

// What was not declared and what it was taken to be.
std::string assumed_text(const ReportInput& input) {
  std::vector<std::string> lines;
  const auto add = [&lines](const std::string& line) {
    if (std::find(lines.begin(), lines.end(), line) == lines.end())
      lines.push_back(line);
  };
  bool precision = false;
  for (const KernelResult& kernel : input.result.kernels) {
    const JudgedKernel& judged = kernel.kernel.judged;
    precision |= judged.info.precision.struct_size == 0;
    for (const Assumption& one : judged.assumed)
      add("." + one.field + " = " + one.constant);
  }
  const bool probed = !lines.empty();
  if (precision) add("precision generic");
  if (input.options.allow_loose) add("declared precision looser than generic");
  std::string out;
  for (const std::string& line : lines) out += (out.empty() ? "" : "; ") + line;
  if (probed) out += " (found by probes; declare it in qkvet_dialect)";
  return out.empty() ? "" : wrapped_field("assumed", out);
}

// What the laws about memory cannot see there.
std::string device_text(const ReportInput& input) {
  const auto& kernels = input.result.kernels;
  const bool any =
      std::any_of(kernels.begin(), kernels.end(), [](const auto& kernel) {
        return kernel.kernel.judged.info.device() != QKVET_DEVICE_CPU;
      });
  return any ? wrapped_field("device",
                             "tensors in memory of a device lie between NaN, "
                             "not between guard pages: a read beside one is "
                             "seen where its NaN reaches an output")
             : "";
}

// Declared options that a kernel mostly refuses.
std::string hollow_text(const ReportInput& input) {
  std::string out;
  for (const KernelResult& kernel : input.result.kernels)
    for (const std::string& line : kernel.hollow)
      out +=
          wrapped_field(out.empty() ? "hollow" : "",
                        kernel.kernel.judged.info.name + " declares " + line);
  return out;
}

// What passed with a warning.
std::string warnings_text(const ReportInput& input) {
  std::string out;
  for (const KernelResult& kernel : input.result.kernels)
    for (const Cell& cell : kernel.cells) {
      if (cell.warned == 0) continue;
      out += wrapped_field(
          out.empty() ? "warning" : "",
          fmt::format("{}, {}: {} of {} cases, up to {} of the bound; the "
                      "first, case {}: {}",
                      kernel.kernel.judged.info.name, cell.law->id, cell.warned,
                      cell.checked, ratio_text(cell.worst_ratio),
                      cell.warning_number, cell.warning));
    }
  return out;
}

std::string not_judged_text(const ReportInput& input) {
  bool lse = false, weights = false;
  uint64_t declared = 0;
  for (const KernelResult& kernel : input.result.kernels) {
    const KernelInfo& info = kernel.kernel.judged.info;
    declared |= info.capabilities.options;
    lse |= !wants_lse(info) && !info.has_layer;
    weights |= !wants_weights(info) && info.has_forward;
  }
  bool attention = false, cache = false, layer = false, backward = false;
  bool layer_backward = false;
  for (const KernelResult& kernel : input.result.kernels) {
    attention |= has_subject(kernel.kernel.judged.info, Subject::kAttention);
    cache |= has_subject(kernel.kernel.judged.info, Subject::kCache);
    layer |= has_subject(kernel.kernel.judged.info, Subject::kLayer);
    backward |= has_subject(kernel.kernel.judged.info, Subject::kBackward);
    layer_backward |=
        has_subject(kernel.kernel.judged.info, Subject::kLayerBackward);
  }
  // Of attention; for caches and layers no bound has been derived.
  const bool f64 =
      std::any_of(input.result.kernels.begin(), input.result.kernels.end(),
                  [](const KernelResult& kernel) {
                    const KernelInfo& info = kernel.kernel.judged.info;
                    return info.has_forward && takes_dtype(info, Dtype::kF64);
                  });
  std::string out = f64 ? "" : "f64 (not declared); ";
  out += (declared & QKVET_OPTION_DROPOUT) != 0
             ? "dropout beside RoPE, ALiBi and packed batches"
             : "dropout (not declared)";
  if (!backward && !layer_backward)
    out += "; gradients (not declared)";
  else if (layer && !layer_backward)
    out += "; gradients of layers (not declared)";
  else if (attention && !backward)
    out += "; gradients of attention (not declared)";
  const std::string options =
      attention ? undeclared_options(declared | QKVET_OPTION_DROPOUT)
                : "attention calls";
  if (!options.empty()) out += "; " + options + " (not declared)";
  if (!cache) out += "; caches (not declared)";
  if (!layer) out += "; layers (not declared)";
  if (lse) out += "; lse where a kernel returns none";
  if (weights) out += "; weights where a kernel returns none";
  return wrapped_field("not judged", out);
}

// Where the vote of the kernels goes against the oracle.
std::string suspicion_text(const ReportInput& input, bool colour) {
  const auto& suspicion = input.result.suspicion;
  if (!suspicion) return "";
  std::string kernels;
  for (const std::string& kernel : suspicion->kernels)
    kernels += (kernels.empty() ? "" : ", ") + kernel;
  return painted("SUSPECT", "1;33", colour) +
         fmt::format("  the oracle of QKVet, not the kernels   case {}\n",
                     suspicion->number) +
         wrapped_field("vote",
                       kernels +
                           " agree with each other, and none of them with the "
                           "oracle") +
         field("case", to_string(suspicion->value)) +
         field("at", suspicion->where) +
         field("cases", std::to_string(input.result.suspicions)) +
         wrapped_field("please",
                       "report this case: either the oracle is wrong, or all "
                       "of them share one mistake") +
         "\n";
}

// Cases that a kernel which passed otherwise did not take.
std::string refused_text(const ReportInput& input) {
  std::string out;
  for (const KernelResult& kernel : input.result.kernels) {
    int64_t cases = 0;
    const std::string* reason = nullptr;
    for (const Cell& cell : kernel.cells) {
      cases += cell.unsupported;
      if (cell.unsupported > 0 && reason == nullptr) reason = &cell.reason;
    }
    if (reason != nullptr)
      out += wrapped_field(
          out.empty() ? "refused" : "",
          fmt::format("{}: {} cases; the first: {}",
                      kernel.kernel.judged.info.name, cases, *reason));
  }
  return out;
}

std::string time_text(const ReportInput& input, int64_t checked) {
  const TimeUse& time = input.result.time;
  const double all = std::max(time.total(), 1e-9);  // only against 0/0
  const auto percent = [all](double part) { return 100 * part / all; };
  return field("time",
               fmt::format("{:.0f} checked cases per second and core; cases "
                           "{:.0f} %, oracle {:.0f} %,",
                           static_cast<double>(checked) / all,
                           percent(time.generate), percent(time.oracle))) +
         field("",
               fmt::format("bound {:.0f} %, kernels {:.0f} %, judging {:.0f} %",
                           percent(time.bound), percent(time.kernel),
                           percent(time.judge)));
}

std::string plan_text(const ReportInput& input) {
  if (input.options.exhaustive)
    return wrapped_field(
        "plan", fmt::format("all {} cases of the small scope: {}",
                            input.result.planned_cases, SmallScope::text()));
  const bool stopped = input.options.fail_fast && !input.options.budget &&
                       input.result.planned_cases < input.options.cases;
  return field(
      "plan",
      fmt::format("seed {}, {} cases per kernel{}{}", input.options.seed,
                  input.result.planned_cases,
                  input.options.budget
                      ? fmt::format(" in {} whole rounds", input.result.rounds)
                      : "",
                  stopped ? ", no more behind the first failure" : ""));
}

std::string last_lines(const ReportInput& input, bool colour) {
  int64_t checked = 0, failed = 0, known = 0, passed = 0, other = 0;
  std::set<const Law*> laws;
  for (const KernelResult& kernel : input.result.kernels)
    for (const Cell& cell : kernel.cells) {
      laws.insert(cell.law);
      checked += cell.checked;
      const bool accepted = is_known(input, kernel, cell);
      known += accepted;
      failed += cell.verdict == Verdict::kFailed && !accepted;
      passed += cell.verdict == Verdict::kPassed;
      other +=
          cell.verdict != Verdict::kFailed && cell.verdict != Verdict::kPassed;
    }
  const ExitCode code = exit_code_of(input);
  const char* word = code == kConforms         ? "PASSED"
                     : code == kNothingChecked ? "NOT CHECKED"
                                               : "FAILED";
  std::string out =
      painted(word, code == kConforms ? "1;32" : "1;31", colour) +
      fmt::format(
          "  {}, {}: {} passed, {} failed, {}{} other; "
          "{} checked cases, {:.1f} s   exit {}\n",
          counted(input.result.kernels.size(), "kernel"),
          counted(laws.size(), "law"), passed, failed,
          input.known == nullptr ? "" : fmt::format("{} known, ", known), other,
          checked, input.result.wall_seconds, static_cast<int>(code));
  out += known_text(input);
  out += plan_text(input);
  out += time_text(input, checked);
  out += assumed_text(input);
  out += warnings_text(input);
  out += device_text(input);
  out += refused_text(input);
  out += hollow_text(input);
  out += not_judged_text(input);
  if (input.diagnoses != nullptr && input.diagnoses->not_looked_at > 0)
    out += wrapped_field(
        "causes",
        fmt::format("not looked for in {} (--diagnose N takes "
                    "N failing kernels)",
                    counted(static_cast<size_t>(input.diagnoses->not_looked_at),
                            "failing kernel")));
  for (const std::string& note : input.selected.notes)
    out += wrapped_field("note", note);
  return out;
}

}  // namespace

std::string text_report(const ReportInput& input, bool colour) {
  std::string out;
  for (const KernelResult& kernel : input.result.kernels)
    out += kernel_failures(input, kernel, colour);
  return out + suspicion_text(input, colour) + table(input, colour) + "\n" +
         last_lines(input, colour);
}

ExitCode exit_code_of(const ReportInput& input) {
  bool died = false, failed = false, open = false, any_passed = false;
  for (const KernelResult& kernel : input.result.kernels) {
    bool passed = false, unsupported = true;
    for (const Cell& cell : kernel.cells) {
      const KnownState state = known_state(input, kernel, cell);
      const bool known = state == KnownState::kAsKnown;
      died |= cell.crashed() && !known;
      failed |= (cell.verdict == Verdict::kFailed && !known) ||
                state == KnownState::kGone;
      passed |= cell.verdict == Verdict::kPassed;
      unsupported &= cell.verdict == Verdict::kUnsupported;
      open |= cell.verdict == Verdict::kGaveUp ||
              cell.verdict == Verdict::kMistrusted;
    }
    any_passed |= passed;
    open |= !passed && !(unsupported && input.selected.by_default);
  }
  return died                  ? kKernelDied
         : failed              ? kLawFailed
         : open || !any_passed ? kNothingChecked
                               : kConforms;
}

}  // namespace qkvet

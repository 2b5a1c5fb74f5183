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

// Lines of the short report, without those of other laws (report_text.cpp).
constexpr int64_t kMostLines = 16;

// The short report has no part of kWhole, and leaves out those with the largest
// rank until it is short enough.
enum Rank : uint8_t { kKept, kStage, kPrinted, kLooks, kHid, kWhole };

// The fields of the report on a failure.
class Fields {
 public:
  Fields(Detail detail, size_t width) : detail_(detail), width_(width) {}

  bool is_short() const { return detail_ == Detail::kShort; }
  void add(Rank rank, std::string lines) {
    if (!lines.empty() && (rank < kWhole || !is_short()))
      parts_.push_back({rank, std::move(lines)});
  }
  // In `most` lines of a short report. Nothing if the text is empty.
  void add(Rank rank, std::string_view name, std::string_view text,
           int64_t most) {
    if (text.empty()) return;
    std::string lines = wrapped_field(name, text, width_);
    if (is_short() && line_count(lines) > most) cut(lines, most);
    add(rank, std::move(lines));
  }
  // Without a final newline.
  std::string text() {
    if (is_short()) shorten();
    std::string out;
    for (const Part& part : parts_) out += part.lines;
    out.pop_back();
    return out;
  }

 private:
  struct Part {
    Rank rank;
    std::string lines;
  };

  static int64_t line_count(const std::string& lines) {
    return std::count(lines.begin(), lines.end(), '\n');
  }
  // Leaves the first lines, and a sign that there are more.
  static void cut(std::string& lines, int64_t kept) {
    size_t end = 0;
    for (int64_t n = 0; n < kept; ++n) end = lines.find('\n', end) + 1;
    lines.replace(end - 1, std::string::npos, " ...\n");
  }
  // Leaves parts out, then the last line of the last of the longest ones.
  void shorten() {
    const auto count = [](const Part& part) { return line_count(part.lines); };
    for (;;) {
      int64_t all = 0;
      for (const Part& part : parts_) all += count(part);
      if (all <= kMostLines) return;
      const auto last = std::ranges::max_element(parts_, {}, &Part::rank);
      const auto longest = std::max_element(
          parts_.rbegin(), parts_.rend(),
          [&](const Part& a, const Part& b) { return count(a) < count(b); });
      if (last->rank > kKept)
        parts_.erase(last);
      else if (count(*longest) > 1)
        cut(longest->lines, count(*longest) - 1);
      else
        return;
    }
  }

  Detail detail_;
  size_t width_;
  std::vector<Part> parts_;
};

std::string source_text(const KernelInfo& info) {
  if (info.source_file.empty()) return "";
  return fmt::format("{}:{}", info.source_file, info.source_line);
}

std::string headline(const KernelResult& kernel, const Failure& failure) {
  const std::string found = failure.recorded.empty()
                                ? fmt::format("case {}", failure.number)
                                : failure.recorded;
  return fmt::format("{:<5} {}   {}   {}   {}, {:.1f} s\n",
                     is_death(failure) ? "CRASH" : "FAIL", failure.law->id,
                     kernel.kernel.judged.info.name,
                     source_text(kernel.kernel.judged.info), found,
                     failure.seconds);
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

void add_finding(const ReportInput& input, const Failure& failure,
                 bool is_explained, Fields& fields) {
  if (!failure.judgement.finding) return;
  const Finding& finding = *failure.judgement.finding;
  fields.add(kKept, field("at", finding.where));
  fields.add(kKept, field("expected", finding.allowed.empty()
                                          ? finding.expected
                                          : fmt::format("{:<14} allowed {}",
                                                        finding.expected,
                                                        finding.allowed)));
  fields.add(
      kKept,
      field("actual", finding.ratio == 0
                          ? finding.actual
                          : fmt::format("{:<14} error/bound {}", finding.actual,
                                        ratio_text(finding.ratio))));
  for (const Reach& reach : failure.story.reaches)
    fields.add(kKept, "", reach_text(reach), 2);
  fields.add(is_explained ? kWhole : kLooks, "looks",
             looks_text(input, failure), 2);
  std::istringstream printed(finding.printed);
  std::string lines;
  for (std::string line; std::getline(printed, line);)
    lines += field(lines.empty() ? "printed" : "", line);
  fields.add(kPrinted, lines);
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

// "scale_twice, likely; or scale_squared"
std::string short_certainty(const Diagnosis& diagnosis, bool has_faults) {
  const bool sure = has_faults && diagnosis.certainty == Certainty::kSure;
  std::string others;
  for (size_t i = 1; i < diagnosis.causes.size(); ++i)
    others += (i == 1 ? "; or " : ", ") + diagnosis.causes[i].name;
  return diagnosis.name() + (sure ? ", sure" : ", likely") + others;
}

// The diagnosis that is printed: an unsteady kernel would answer probes
// differently.
const Diagnosis* shown_diagnosis(const ReportInput& input,
                                 const Failure& failure) {
  const CauseOfFailures* cause = own_cause(input, failure);
  return cause == nullptr || (!unsteady_text(failure).empty() &&
                              !cause->diagnosis.earlier.decide())
             ? nullptr
             : &cause->diagnosis;
}

// Observations come before conclusions.
void add_cause(const ReportInput& input, const Diagnosis& diagnosis,
               Fields& fields) {
  const bool is_known = !diagnosis.causes.empty();
  const std::string& no_faults = input.diagnoses->no_faults;
  fields.add(kKept, "fails", diagnosis.where.text(), 3);
  fields.add(is_known ? kWhole : kStage, "stage",
             diagnosis.instead.stage_sentence(), 1);
  fields.add(is_known ? kWhole : kStage, "instead", diagnosis.instead.text(),
             3);
  if (is_known) {
    fields.add(kKept, "cause", joined_causes(diagnosis, &Cause::cause), 3);
    fields.add(kKept, "",
               fields.is_short() ? short_certainty(diagnosis, no_faults.empty())
                                 : certainty_text(diagnosis, no_faults.empty()),
               2);
  } else if (no_faults.empty()) {
    fields.add(kKept, "cause", unknown_cause(diagnosis), 3);
  }
  // In one line, because it contains a command.
  if (!no_faults.empty())
    fields.add(kKept, is_known ? field("", "known faults were not looked up: " +
                                               no_faults)
                               : field("cause", "not looked up: " + no_faults));
  fields.add(kWhole, "", diagnosis.left_out, 1);
  fields.add(kHid, "hidden", diagnosis.hidden, 2);
  fields.add(kKept, "fix", fix_of(diagnosis), 3);
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

bool is_death(const Failure& failure) {
  return failure.judgement.kind == FailureKind::kCrash ||
         failure.judgement.kind == FailureKind::kHang;
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
                         const Failure& failure, Detail detail) {
  Fields fields(detail, input.width);
  fields.add(kKept, headline(kernel, failure));
  fields.add(kKept, "law", failure.law->sentence, 3);
  fields.add(kKept, field("case", to_string(failure.smallest)));
  if (!(failure.found == failure.smallest))
    fields.add(
        kWhole,
        field("", fmt::format("shrunk from {} in {} step{}",
                              to_string(failure.found), failure.shrink_steps,
                              failure.shrink_steps == 1 ? "" : "s")));
  if (!earlier_calls_decide(input, failure))
    fields.add(kKept, "unsteady", unsteady_text(failure), 5);
  fields.add(kWhole, alike_text(kernel, failure));
  const Domain& domain = failure.law->domain;
  fields.add(kWhole, field("inputs",
                           fmt::format("digest {:08x}{}", failure.digest,
                                       !domain.free_data ? "; the law sets some"
                                       : !domain.free_v  ? "; the law sets v"
                                                         : "")));
  for (const std::string& line : failure.judgement.picture)
    fields.add(kWhole, field("", line));
  const Diagnosis* diagnosis = shown_diagnosis(input, failure);
  add_finding(input, failure,
              diagnosis != nullptr && !diagnosis->causes.empty(), fields);
  fields.add(kKept, "whose", failure.story.whose, 4);
  fields.add(kKept, "dialect", failure.dialect, 3);
  if (diagnosis != nullptr) add_cause(input, *diagnosis, fields);
  if (!failure.where.empty()) fields.add(kKept, field("where", failure.where));
  fields.add(kKept, field("again", replay_line(input, kernel, failure)));
  if (const std::string line = repair_line(input, kernel); !line.empty())
    fields.add(
        diagnosis != nullptr && !fix_of(*diagnosis).empty() ? kWhole : kKept,
        field("repair", line));
  // Findings of guard pages or of the worker are best debugged in place.
  if (failure.judgement.kind != FailureKind::kLaw && !input.in_process) {
    const size_t library = kernel.kernel.library;
    const bool python = library < input.selected.libraries.size() &&
                        !input.selected.libraries[library].interpreter.empty();
    fields.add(
        kWhole,
        field("debug", python ? "qkvet.replay(case, function, isolated=False)"
                              : "gdb --args " +
                                    replay_line(input, kernel, failure) +
                                    " --in-process"));
  }
  return fields.text();
}

}  // namespace qkvet::cli

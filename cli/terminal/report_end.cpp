// SPDX-License-Identifier: Apache-2.0
// The verdict, and its basis.
#include <fmt/core.h>

#include <algorithm>
#include <tuple>

#include "cli/terminal/baseline.h"
#include "cli/terminal/report_parts.h"
#include "core/capability/declaration.h"
#include "core/capability/paths.h"
#include "properties/calls/subject_calls.h"
#include "properties/cases/small_scope.h"
#include "properties/conventions/domain.h"
#include "report/pairs_text.h"

namespace qkvet::cli {
namespace {

// Lines of one name. A screen shows the first of them.
class Lines {
 public:
  void add(std::string line) { lines_.push_back(std::move(line)); }
  std::string text(const char* name, const ReportStyle& style) const {
    constexpr size_t kMostShown = 3;
    const size_t shown =
        style.verbose ? lines_.size() : std::min(kMostShown, lines_.size());
    std::string out;
    for (size_t i = 0; i < shown; ++i)
      out += wrapped_field(i == 0 ? name : "", lines_[i], style.width);
    if (shown < lines_.size())
      out += field("", fmt::format("and {} more (--verbose shows all)",
                                   lines_.size() - shown));
    return out;
  }

 private:
  Texts lines_;
};

// Conventions that no kernel declares and that probes have found, each once: as
// a dialect in C, or as a file of fields.
Texts assumed(const RunRecord& record, bool in_c) {
  Texts lines;
  for (const KernelLine& kernel : record.kernels)
    for (const AssumedField& one : kernel.assumed)
      if (std::string line = in_c ? "." + one.field + " = " + one.value
                                  : one.field + " = " + one.word;
          std::find(lines.begin(), lines.end(), line) == lines.end())
        lines.push_back(std::move(line));
  return lines;
}

// Undeclared fields and their assumed values.
std::string assumed_text(const Shown& shown) {
  Texts lines = assumed(shown.record, /*in_c=*/true);
  const bool probed = !lines.empty();
  const auto& kernels = shown.record.kernels;
  if (!std::all_of(kernels.begin(), kernels.end(),
                   [](const auto& one) { return one.precision_declared; }))
    lines.emplace_back("precision generic");
  std::string out = joined(lines, "; ");
  if (probed) out += " (found by probes; declare it in qkvet_dialect)";
  return out.empty() ? "" : wrapped_field("assumed", out, shown.style.width);
}

// Declarations that are looser than those assumed of an undeclared kernel.
std::string precision_text(const Shown& shown) {
  Lines lines;
  for (const KernelLine& kernel : shown.record.kernels)
    if (!kernel.looser.empty())
      lines.add(kernel.kernel + ": looser than generic: " + kernel.looser);
  return lines.text("precision", shown.style);
}

// Declared options that a kernel mostly refuses.
std::string hollow_text(const Shown& shown) {
  Lines lines;
  for (const KernelLine& kernel : shown.record.kernels)
    for (const std::string& line : kernel.hollow)
      lines.add(kernel.kernel + " declares " + line);
  return lines.text("hollow", shown.style);
}

// "mine/fast: ", if there are other kernels.
std::string lead_of(const KernelLine& kernel, const Shown& shown) {
  return shown.record.kernels.size() > 1 ? kernel.kernel + ": " : "";
}

// The number of calls for each declared option.
std::string drawn_text(const Shown& shown) {
  std::string out;
  for (const KernelLine& kernel : shown.record.kernels) {
    std::string line;
    for (const DrawnCalls& one : kernel.drawn)
      line += fmt::format("{}{} {}", line.empty() ? "calls with " : "; ",
                          one.what, one.calls);
    if (!line.empty())
      out += wrapped_field("drawn", lead_of(kernel, shown) + line,
                           shown.style.width);
  }
  return out;
}

// The settings that met in one call.
std::string pairs_of_kernels(const Shown& shown) {
  std::string out;
  for (const KernelLine& kernel : shown.record.kernels)
    if (const std::string line = pairs_text(kernel.pairs); !line.empty())
      out += wrapped_field("pairs", lead_of(kernel, shown) + line,
                           shown.style.width);
  return out;
}

// Hints of undeclared paths; a pass requires no calls near them.
std::string hints_text(const Shown& shown) {
  Lines lines;
  for (const KernelLine& kernel : shown.record.kernels)
    for (const NearHint& hint : kernel.hints)
      if (hint.calls > 0)
        lines.add(fmt::format("{}looked near {}, from {}: {}",
                              lead_of(kernel, shown), hint.path, hint.from,
                              counted(hint.calls, "call")));
  return lines.text("hints", shown.style);
}

// Declared options that no call had. They decide only over a whole plan.
std::string never_drawn_text(const Shown& shown) {
  const bool decides = is_whole_plan(shown.record);
  if (!decides && !shown.style.verbose) return "";
  Lines lines;
  for (const KernelLine& kernel : shown.record.kernels) {
    if (kernel.never_drawn.empty()) continue;
    lines.add(fmt::format("{} declares {}: no answered call had {}{}",
                          kernel.kernel, joined(kernel.never_drawn),
                          kernel.never_drawn.size() == 1 ? "it" : "these",
                          decides ? ", so this is no pass" : ""));
  }
  return lines.text("never drawn", shown.style);
}

// Results that passed with a warning.
std::string warnings_text(const Shown& shown) {
  Lines lines;
  for (const ResultLine& result : shown.record.results)
    if (const Tally& counts = result.counts; counts.warned > 0)
      lines.add(fmt::format(
          "{}, {}: {} of {} cases, up to {} of the bound; the first, case "
          "{}: {}",
          result.kernel, result.law, counts.warned, counts.checked,
          ratio_text(counts.worst_ratio), counts.warning.number,
          counts.warning.text));
  return lines.text("warning", shown.style);
}

// Why no law made calls of several threads at once, if none could.
std::string not_at_once_text(const ReportInput& input) {
  bool declared = false, on_device = false;
  for (const KernelResult& kernel : input.result.kernels) {
    const KernelInfo& info = kernel.kernel.judged.info;
    if (!info.has_flag(QKVET_FLAG_REENTRANT)) continue;
    if (not_at_once_reason(info).empty()) return "";
    declared = true;
    on_device |= info.device() != QKVET_DEVICE_CPU;
  }
  if (!declared) return "calls at once (not declared)";
  return on_device ? "calls at once (declared, but on a device they are made "
                     "one by one)"
                   : "calls at once (declared, but nondeterministic)";
}

// The kernel's reason for the first case that it refused.
std::string first_refusal(const std::vector<const ResultLine*>& results) {
  const auto found =
      std::find_if(results.begin(), results.end(), [](const ResultLine* one) {
        return one->verdict != RowVerdict::kUnsupported &&
               one->counts.unsupported > 0;
      });
  return found == results.end() ? "" : (*found)->counts.refusal.text;
}

// Kernels that refuse too much to pass.
std::string refused_too_much_text(const Shown& shown) {
  Lines lines;
  for (const KernelLine& kernel : shown.record.kernels) {
    const auto results = shown.record.results_of(kernel);
    if (counts_of(results).refused == 0) continue;
    std::string why = refused_too_much(results);
    if (const std::string few = too_few_checked(shown.record, results);
        why.empty() && !few.empty())
      why = " was " + few;
    if (!why.empty())
      lines.add(fmt::format(
          "{}{}, so this is no pass: declare what it refuses (extent rules, "
          "QKVET_FLAG_CAUSAL_ONLY, options); the first: {}",
          kernel.kernel, why, first_refusal(results)));
  }
  return lines.text("refused", shown.style);
}

// Refused cases of laws that apply to the kernel.
std::string refused_text(const Shown& shown) {
  Lines lines;
  for (const KernelLine& kernel : shown.record.kernels) {
    const auto results = shown.record.results_of(kernel);
    if (const int64_t cases = counts_of(results).refused; cases > 0)
      lines.add(fmt::format("{}: {}; the first: {}", kernel.kernel,
                            counted(cases, "case"), first_refusal(results)));
  }
  if (const int64_t replaced = shown.record.end.replaced_cases; replaced > 0)
    lines.add(counted(replaced, "case") + " asked in place of refused ones");
  return lines.text("refused", shown.style);
}

std::string time_text(const RunRecord& record) {
  const int64_t checked = counts_of(record.results_of()).checked;
  const TimeUse& time = record.end.thread_seconds;
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

std::string plan_text(const ReportInput& input, size_t width) {
  const RunOptions& options = input.options;
  if (options.exhaustive)
    return wrapped_field(
        "plan",
        fmt::format("all {} cases of the small scope: {}",
                    input.result.planned_cases, SmallScope::text()),
        width);
  const bool stopped = options.fail_fast && !options.budget &&
                       input.result.planned_cases < most_cases(options);
  std::string end;
  if (options.shards > 1)
    end =
        fmt::format(", of these shard {} of {}", options.shard, options.shards);
  end += input.result.interrupted ? ", then interrupted"
         : stopped                ? ", no more after the first failure"
                                  : "";
  if (options.cases_per_law > 0)
    return wrapped_field(
        "plan",
        fmt::format("short: seed {}, {} cases for every law and kernel{}; "
                    "--cases {} looks deeper",
                    options.seed, options.cases_per_law, end, kDefaultCases),
        width);
  return field("plan",
               fmt::format("seed {}, {} cases per kernel{}{}", options.seed,
                           input.result.planned_cases,
                           options.budget ? fmt::format(" in {} whole rounds",
                                                        input.result.rounds)
                                          : "",
                           end));
}

// "98 % of pairs drawn, 141 cases refused, 11 features not judged (...)"
std::string coverage_text(const RunRecord& record) {
  Texts parts;
  int64_t seen = 0, possible = 0, never = 0;
  for (const KernelLine& kernel : record.kernels) {
    seen += kernel.pairs.seen();
    possible += kernel.pairs.possible();
    never += std::ssize(kernel.never_drawn);
  }
  const int64_t refused = counts_of(record.results_of()).refused;
  if (possible > 0)
    parts.push_back(fmt::format("{} % of pairs drawn", 100 * seen / possible));
  if (never > 0 && !is_whole_plan(record))
    parts.push_back(counted(never, "declared option") + " never drawn");
  if (refused > 0) parts.push_back(counted(refused, "case") + " refused");
  parts.push_back(counted(std::ssize(record.end.not_judged), "feature") +
                  " not judged");
  return joined(parts) + " (-v)";
}

// "403 passed, 0 failed, 2 open", and any other states.
std::string verdicts_text(const RecordCounts& counts, bool with_known) {
  std::string out =
      fmt::format("{} passed, {} failed", counts.passed(), counts.failed());
  const struct {
    RowState state;
    const char* what;
    bool always;
  } rows[] = {{RowState::kKnown, "known", with_known},
              {RowState::kUnsupported, "unsupported", false},
              {RowState::kOpen, "open", false}};
  for (const auto& row : rows)
    if (counts.of(row.state) > 0 || row.always)
      out += fmt::format(", {} {}", counts.of(row.state), row.what);
  return out;
}

// "PASSED " and the parts, each on a separate line if the screen is too narrow.
std::string verdict_line(const std::string& word, const char* colour,
                         const Texts& parts, const ReportStyle& style) {
  const std::string indent(word.size() + 2, ' ');
  std::string out = painted(word, colour, style.colour) + "  ";
  size_t column = indent.size();
  for (const std::string& part : parts) {
    if (column > indent.size() && column + part.size() > style.width) {
      out.back() = '\n';  // in place of the blank
      out += indent;
      column = indent.size();
    }
    out += part;
    column += part.size();
  }
  return out + "\n";
}

}  // namespace

std::string assumed_word(const JudgedKernel& judged, const Assumption& one) {
  for (const DeclaredWord& word : declared_words(judged.info.dialect))
    if (word.field == one.field) return word.word;
  return one.constant;
}

Texts not_judged(const ReportInput& input) {
  bool lse = false, weights = false, device = false;
  uint64_t declared = 0;
  for (const KernelResult& kernel : input.result.kernels) {
    const KernelInfo& info = kernel.kernel.judged.info;
    declared |= info.capabilities.options;
    device |= info.device() != QKVET_DEVICE_CPU;
    lse |= !wants_lse(info) && (info.has_forward || info.has_cache);
    weights |= !wants_weights(info) && info.has_forward;
  }
  bool attention = false, cache = false, layer = false, backward = false;
  bool layer_backward = false, merge = false, plans = false;
  for (const KernelResult& kernel : input.result.kernels) {
    attention |= has_subject(kernel.kernel.judged.info, Subject::kAttention);
    cache |= has_subject(kernel.kernel.judged.info, Subject::kCache);
    layer |= has_subject(kernel.kernel.judged.info, Subject::kLayer);
    backward |= has_subject(kernel.kernel.judged.info, Subject::kBackward);
    layer_backward |=
        has_subject(kernel.kernel.judged.info, Subject::kLayerBackward);
    merge |= has_subject(kernel.kernel.judged.info, Subject::kMerge);
    plans |= kernel.kernel.judged.info.has_plan;
  }
  // Only attention: for caches and layers no bound has been derived.
  const bool f64 =
      std::any_of(input.result.kernels.begin(), input.result.kernels.end(),
                  [](const KernelResult& kernel) {
                    const KernelInfo& info = kernel.kernel.judged.info;
                    return info.has_forward && takes_dtype(info, Dtype::kF64);
                  });
  Texts out;
  if (!f64) out.push_back("f64 (not declared)");
  if (const SizeClass largest = input.options.scope.largest;
      largest != SizeClass::kLong)
    out.push_back(fmt::format("T and d above {} (--sizes {})",
                              largest_extent(largest),
                              size_class_name(largest)));
  out.push_back((declared & QKVET_OPTION_DROPOUT) != 0
                    ? "dropout beside RoPE, ALiBi and packed batches"
                    : "dropout (not declared)");
  if (!backward && !layer_backward)
    out.push_back("gradients (not declared)");
  else if (layer && !layer_backward)
    out.push_back("gradients of layers (not declared)");
  else if (attention && !backward)
    out.push_back("gradients of attention (not declared)");
  const std::string options =
      attention ? undeclared_options(declared | QKVET_OPTION_DROPOUT)
                : "attention calls";
  if (!options.empty()) out.push_back(options + " (not declared)");
  for (const FlagWord& row : kFlagWords) {
    const bool all_refuse =
        std::all_of(input.result.kernels.begin(), input.result.kernels.end(),
                    [&](const auto& one) {
                      return one.kernel.judged.info.has_flag(row.flag);
                    });
    if (row.refused != nullptr && all_refuse)
      out.push_back(std::string(row.refused) + " (declared as refused)");
  }
  if (std::string at_once = not_at_once_text(input); !at_once.empty())
    out.push_back(std::move(at_once));
  if (!cache) out.push_back("caches (not declared)");
  if (!layer) out.push_back("layers (not declared)");
  if (!merge) out.push_back("merges of states (not declared)");
  if (attention && !plans) out.push_back("plans (not declared)");
  if (lse) out.push_back("lse where a kernel returns none");
  if (weights) out.push_back("weights where a kernel returns none");
  if (device)
    out.push_back(
        "reads beside a tensor in memory of a device whose NaN reaches no "
        "output (there are no guard pages)");
  return out;
}

std::string coverage_lines(const Shown& shown) {
  const ReportInput& input = shown.input;
  const size_t width = shown.style.width;
  std::string out = known_text(input);
  out += baseline_text(shown);
  // A failure needs no basis, a pass does.
  const bool is_failure = counts_of(shown.record.results_of()).failed() > 0;
  if (shown.style.verbose || !is_failure) out += plan_text(input, width);
  out += assumed_text(shown);
  out += precision_text(shown);
  out += warnings_text(shown);
  out += never_drawn_text(shown);
  out += refused_too_much_text(shown);
  out += hollow_text(shown);
  if (shown.style.verbose) {
    out += time_text(shown.record);
    out += drawn_text(shown);
    out += pairs_of_kernels(shown);
    out += hints_text(shown);
    out += refused_text(shown);
    out += wrapped_field("not judged",
                         joined(shown.record.end.not_judged, "; "), width);
  } else if (!is_failure) {
    out += wrapped_field("coverage", coverage_text(shown.record), width);
  }
  if (input.diagnoses != nullptr && input.diagnoses->not_looked_at > 0)
    out += wrapped_field(
        "causes",
        fmt::format(
            "not looked for in {} (--diagnose N takes N failing kernels)",
            counted(input.diagnoses->not_looked_at, "failing kernel")),
        width);
  for (const std::string& note : shown.record.end.notes)
    out += wrapped_field("note", note, width);
  return out;
}

std::string verdict_lines(const Shown& shown) {
  const RunRecord& record = shown.record;
  const auto& [code, why] = std::tie(record.end.exit, record.end.why);
  const RecordCounts all = counts_of(record.results_of());
  const Texts taken = assumed(record, /*in_c=*/false);
  const Texts parts = {
      fmt::format(
          "{}, {} asked: ", counted(std::ssize(record.kernels), "kernel"),
          counted(laws_asked(record), "law")),
      verdicts_text(all, shown.has_known()) + "; ",
      code == kConforms && !taken.empty()
          ? "assumed " + joined(taken, ", ") + "; "
          : "",
      fmt::format("{} checked cases, {:.1f} s   exit {}", grouped(all.checked),
                  record.end.wall_seconds, static_cast<int>(code))};
  const char* colour = code == kConforms         ? "1;32"
                       : code == kNothingChecked ? "1;33"
                                                 : "1;31";
  return verdict_line(verdict_word(code), colour, parts, shown.style) +
         (why.empty() ? "" : wrapped_field("why", why, shown.style.width));
}

}  // namespace qkvet::cli

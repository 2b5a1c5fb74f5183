// SPDX-License-Identifier: Apache-2.0
// The verdict, and what it rests on.
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "core/capability/declaration.h"
#include "core/capability/paths.h"
#include "properties/cases/small_scope.h"
#include "properties/conventions/domain.h"
#include "properties/run/at_once.h"
#include "tools/record/result_counts.h"
#include "tools/report/baseline.h"
#include "tools/report/report_parts.h"

namespace qkvet::tools {
namespace {

// Lines of one name, of which a screen shows the first.
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
  std::vector<std::string> lines_;
};

// Conventions that no kernel declares and that probes have found, each once: as
// a dialect in C, or as a file of fields.
std::vector<std::string> assumed(const ReportInput& input, bool in_c) {
  std::vector<std::string> lines;
  for (const KernelResult& kernel : input.result.kernels) {
    const JudgedKernel& judged = kernel.kernel.judged;
    for (const Assumption& one : judged.assumed)
      if (std::string line =
              in_c ? "." + one.field + " = " + one.constant
                   : one.field + " = " + assumed_word(judged, one);
          std::find(lines.begin(), lines.end(), line) == lines.end())
        lines.push_back(std::move(line));
  }
  return lines;
}

// What was not declared and what it was taken to be.
std::string assumed_text(const ReportInput& input, size_t width) {
  std::vector<std::string> lines = assumed(input, /*in_c=*/true);
  const bool probed = !lines.empty();
  const auto& kernels = input.result.kernels;
  if (std::any_of(kernels.begin(), kernels.end(), [](const auto& kernel) {
        return kernel.kernel.judged.info.precision.struct_size == 0;
      }))
    lines.emplace_back("precision generic");
  std::string out = joined(lines, "; ");
  if (probed) out += " (found by probes; declare it in qkvet_dialect)";
  return out.empty() ? "" : wrapped_field("assumed", out, width);
}

// Declarations that allow more than what an undeclared kernel is held to.
std::string precision_text(const ReportInput& input, const ReportStyle& style) {
  Lines lines;
  for (const KernelResult& kernel : input.result.kernels) {
    const JudgedKernel& judged = kernel.kernel.judged;
    const std::string looser = looser_text(judged, input.options.scope);
    if (!looser.empty())
      lines.add(judged.info.name + ": looser than generic: " + looser);
  }
  return lines.text("precision", style);
}

// Declared options that a kernel mostly refuses.
std::string hollow_text(const ReportInput& input, const ReportStyle& style) {
  Lines lines;
  for (const KernelResult& kernel : input.result.kernels)
    for (const std::string& line : kernel.hollow)
      lines.add(kernel.kernel.judged.info.name + " declares " + line);
  return lines.text("hollow", style);
}

// How many calls had what a kernel declares.
std::string drawn_text(const ReportInput& input, const ReportStyle& style) {
  std::string out;
  for (const KernelResult& kernel : input.result.kernels) {
    std::string line;
    for (const std::string& one : kernel.drawn)
      line += (line.empty() ? "calls with " : "; ") + one;
    if (line.empty()) continue;
    if (input.result.kernels.size() > 1)
      line = kernel.kernel.judged.info.name + ": " + line;
    out += wrapped_field("drawn", line, style.width);
  }
  return out;
}

// Which settings met in one call.
std::string pairs_of_kernels(const ReportInput& input,
                             const ReportStyle& style) {
  std::string out;
  for (const KernelResult& kernel : input.result.kernels) {
    std::string line = pairs_text(kernel.pairs);
    if (line.empty()) continue;
    if (input.result.kernels.size() > 1)
      line = kernel.kernel.judged.info.name + ": " + line;
    out += wrapped_field("pairs", line, style.width);
  }
  return out;
}

// Where something hints at a path that nobody declares: nothing is owed there.
std::string hints_text(const ReportInput& input, const ReportStyle& style) {
  Lines lines;
  for (const KernelResult& kernel : input.result.kernels)
    for (size_t i = 0; i < kernel.near_hints.size(); ++i) {
      const Hint& hint = kernel.kernel.hints[i];
      const std::string lead = input.result.kernels.size() > 1
                                   ? kernel.kernel.judged.info.name + ": "
                                   : "";
      if (kernel.near_hints[i] > 0)
        lines.add(fmt::format("{}looked near {}, from {}: {}", lead,
                              path_text(hint.path), hint.from,
                              counted(kernel.near_hints[i], "call")));
    }
  return lines.text("hints", style);
}

// What was declared and no call had. It decides only over a whole plan.
std::string never_drawn_text(const ReportInput& input,
                             const ReportStyle& style) {
  const bool decides = is_whole_plan(input);
  if (!decides && !style.verbose) return "";
  Lines lines;
  for (const KernelResult& kernel : input.result.kernels) {
    if (kernel.never_drawn.empty()) continue;
    lines.add(fmt::format("{} declares {}: no answered call had {}{}",
                          kernel.kernel.judged.info.name,
                          joined(kernel.never_drawn),
                          kernel.never_drawn.size() == 1 ? "it" : "these",
                          decides ? ", so this is no pass" : ""));
  }
  return lines.text("never drawn", style);
}

// What passed with a warning.
std::string warnings_text(const ReportInput& input, const ReportStyle& style) {
  Lines lines;
  for (const KernelResult& kernel : input.result.kernels)
    for (const Cell& cell : kernel.cells)
      if (cell.warned > 0)
        lines.add(fmt::format(
            "{}, {}: {} of {} cases, up to {} of the bound; the first, case "
            "{}: {}",
            kernel.kernel.judged.info.name, cell.law->id, cell.warned,
            cell.checked, ratio_text(cell.worst_ratio), cell.warning_number,
            cell.warning));
  return lines.text("warning", style);
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

// Why a kernel refused the first of the cases that it did not take.
std::string first_refusal(const KernelResult& kernel) {
  const auto cell =
      std::find_if(kernel.cells.begin(), kernel.cells.end(),
                   [](const Cell& one) { return refused_cases(one) > 0; });
  return cell == kernel.cells.end() ? "" : cell->refusal;
}

// Kernels whose refusals leave no pass.
std::string refused_too_much_text(const ReportInput& input,
                                  const ReportStyle& style) {
  Lines lines;
  const RunRecord facts = verdict_facts(input);
  for (const KernelResult& kernel : input.result.kernels) {
    if (counts_of(input, kernel).refused == 0) continue;
    const std::string& name = kernel.kernel.judged.info.name;
    std::string why = refused_too_much(facts.results_of(name));
    if (why.empty())
      if (const std::string few = too_few_checked(facts.results_of(name));
          !few.empty())
        why = " was " + few;
    if (!why.empty())
      lines.add(fmt::format(
          "{}{}, so this is no pass: declare what it refuses (extent rules, "
          "QKVET_FLAG_CAUSAL_ONLY, options); the first: {}",
          name, why, first_refusal(kernel)));
  }
  return lines.text("refused", style);
}

// Cases that a kernel did not take of laws that it can be asked for.
std::string refused_text(const ReportInput& input, const ReportStyle& style) {
  Lines lines;
  for (const KernelResult& kernel : input.result.kernels)
    if (const int64_t cases = counts_of(input, kernel).refused; cases > 0)
      lines.add(fmt::format("{}: {}; the first: {}",
                            kernel.kernel.judged.info.name,
                            counted(cases, "case"), first_refusal(kernel)));
  if (input.result.replaced_cases > 0)
    lines.add(counted(input.result.replaced_cases, "case") +
              " asked in place of refused ones");
  return lines.text("refused", style);
}

std::string time_text(const ReportInput& input) {
  int64_t checked = 0;
  for (const KernelResult& kernel : input.result.kernels)
    checked += counts_of(input, kernel).checked;
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
std::string coverage_text(const ReportInput& input) {
  std::vector<std::string> parts;
  int64_t seen = 0, possible = 0, refused = 0, never = 0;
  for (const KernelResult& kernel : input.result.kernels) {
    seen += kernel.pairs.seen();
    possible += kernel.pairs.possible();
    refused += counts_of(input, kernel).refused;
    never += std::ssize(kernel.never_drawn);
  }
  if (possible > 0)
    parts.push_back(fmt::format("{} % of pairs drawn", 100 * seen / possible));
  if (never > 0 && !is_whole_plan(input))
    parts.push_back(counted(never, "declared option") + " never drawn");
  if (refused > 0) parts.push_back(counted(refused, "case") + " refused");
  parts.push_back(counted(std::ssize(not_judged(input)), "feature") +
                  " not judged");
  return joined(parts) + " (-v)";
}

// "403 passed, 0 failed, 2 open", with what else there was.
std::string verdicts_text(const LawCounts& counts, bool with_known) {
  std::string out =
      fmt::format("{} passed, {} failed", counts.passed, counts.failed);
  const struct {
    int64_t count;
    const char* what;
    bool always;
  } rows[] = {{counts.known, "known", with_known},
              {counts.unsupported, "unsupported", false},
              {counts.open, "open", false}};
  for (const auto& row : rows)
    if (row.count > 0 || row.always)
      out += fmt::format(", {} {}", row.count, row.what);
  return out;
}

// "PASSED  " and the parts, each on a line of its own where the screen is too
// narrow.
std::string verdict_line(const std::string& word, const char* colour,
                         const std::vector<std::string>& parts,
                         const ReportStyle& style) {
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

std::vector<std::string> not_judged(const ReportInput& input) {
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
  std::vector<std::string> out;
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

std::string coverage_lines(const ReportInput& input, const ReportStyle& style) {
  std::string out = known_text(input);
  out += baseline_text(input, style.width);
  out += plan_text(input, style.width);
  out += assumed_text(input, style.width);
  out += precision_text(input, style);
  out += warnings_text(input, style);
  out += never_drawn_text(input, style);
  out += refused_too_much_text(input, style);
  out += hollow_text(input, style);
  if (style.verbose) {
    out += time_text(input);
    out += drawn_text(input, style);
    out += pairs_of_kernels(input, style);
    out += hints_text(input, style);
    out += refused_text(input, style);
    out += wrapped_field("not judged", joined(not_judged(input), "; "),
                         style.width);
  } else {
    out += wrapped_field("coverage", coverage_text(input), style.width);
  }
  if (input.diagnoses != nullptr && input.diagnoses->not_looked_at > 0)
    out += wrapped_field(
        "causes",
        fmt::format(
            "not looked for in {} (--diagnose N takes N failing kernels)",
            counted(input.diagnoses->not_looked_at, "failing kernel")),
        style.width);
  for (const std::string& note : input.selected.notes)
    out += wrapped_field("note", note, style.width);
  return out;
}

std::string verdict_lines(const ReportInput& input, const ReportStyle& style) {
  LawCounts all;
  std::set<const Law*> asked;
  for (const KernelResult& kernel : input.result.kernels) {
    all.add(counts_of(input, kernel));
    for (const Cell& cell : kernel.cells)
      if (!is_undeclared(cell)) asked.insert(cell.law);
  }
  const auto& [code, why] = verdict_of(verdict_facts(input));
  std::vector<std::string> parts = {
      fmt::format(
          "{}, {} asked: ", counted(std::ssize(input.result.kernels), "kernel"),
          counted(std::ssize(asked), "law")),
      verdicts_text(all, input.known != nullptr || input.baseline != nullptr) +
          "; ",
      code == kConforms && !assumed(input, /*in_c=*/false).empty()
          ? "assumed " + joined(assumed(input, /*in_c=*/false), ", ") + "; "
          : "",
      fmt::format("{} checked cases, {:.1f} s   exit {}", grouped(all.checked),
                  input.result.wall_seconds, static_cast<int>(code))};
  const char* colour = code == kConforms         ? "1;32"
                       : code == kNothingChecked ? "1;33"
                                                 : "1;31";
  return verdict_line(verdict_word(code), colour, parts, style) +
         (why.empty() ? "" : wrapped_field("why", why, style.width));
}

}  // namespace qkvet::tools

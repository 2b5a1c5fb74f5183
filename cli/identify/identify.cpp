// SPDX-License-Identifier: Apache-2.0
#include "cli/identify/identify.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/identify/asking.h"
#include "cli/identify/parts_found.h"
#include "cli/kernels/kernels.h"
#include "core/capability/declaration.h"
#include "core/sandbox/undeclared.h"
#include "properties/cases/scope.h"
#include "properties/judging/subject.h"
#include "properties/run/runner.h"
#include "report/lines.h"

namespace qkvet::cli {
namespace {

Opened open_asked(const LibrarySpec& library) {
  SandboxOptions options;
  options.worker = worker_path();
  return open_undeclared(library, options);
}

// Declares the findings so far in `judged`. "" or an error.
std::string declared_by(const Identified& found, JudgedKernel& judged) {
  Convention convention;
  std::string error, dialect, precision;
  for (const auto& [field, value] : lines_of(found, Part::kCapabilities)) {
    error = declare(field, value, convention);
    if (!error.empty()) return error;
  }
  judged.info.capabilities = convention.declared.capabilities;
  error = parse_dialect("", identified_file(found, Part::kDialect),
                        judged.info.dialect);
  if (error.empty())
    error = parse_precision("", identified_file(found, Part::kPrecision),
                            judged.info.precision);
  if (!error.empty()) return error;
  const auto precise = reference::resolve_precision(judged.info.precision);
  judged.model = precise.model;
  judged.looser_than_generic = precise.looser_than_generic;
  return precise.error;
}

// Judges the kernel with the found declaration, by the law that has a bound for
// all.
void hold(const LibrarySpec& library, int index, const IdentifyOptions& options,
          Identified& found) {
  KernelUnderTest kernel;
  kernel.index = index;
  JudgedKernel& judged = kernel.judged;
  if (const std::string error = declared_by(found, judged); !error.empty()) {
    found.fails = error;
    return;
  }
  judged.info.name = found.kernel;
  RunOptions run;
  run.laws = {&agreement_about(Subject::kAttention)};
  run.cases = options.cases;
  run.seed = options.seed;
  run.jobs = options.jobs;
  run.allow_loose = true;
  run.scope.largest = SizeClass::kMedium;
  run.scope.dtypes = declared_dtypes({kernel});
  keep_scope_to({kernel}, run.scope);
  const RunResult result = run_plan(
      {kernel}, [&](size_t) { return open_asked(library); }, run);
  if (!result.error.empty()) {
    found.fails = result.error;
    return;
  }
  found.checked = 0;
  for (const Cell& cell : result.kernels[0].cells) {
    found.checked += cell.checked;
    found.calls += cell.checked;
    if (!cell.failure && cell.checked == 0)
      found.fails = "no case was judged: " +
                    (cell.reason.empty() ? cell.refusal : cell.reason);
    if (!cell.failure) continue;
    const Failure& failure = *cell.failure;
    found.fails = to_string(failure.smallest);
    if (failure.judgement.finding)
      found.fails += ": " + failure.judgement.finding->where + " is " +
                     failure.judgement.finding->actual + ", not " +
                     failure.judgement.finding->expected;
    else
      found.fails += ": " + failure.judgement.reason;
  }
}

// Replaces the measured knobs by those of a softmax that is computed wholly in
// the half type of the scores. No single weight shows it.
std::vector<FoundField> softmax_in_half(const Identified& found) {
  std::vector<FoundField> fields;
  std::string type;
  for (const FoundField& one : found.fields) {
    if (one.field == "score_dtype") type = one.value;
    const bool is_replaced = one.field == "score_dtype" ||
                             one.field == "p_dtype" ||
                             one.field == "p_normalised";
    if (one.part != Part::kPrecision || !is_replaced) fields.push_back(one);
  }
  if (type.empty()) return {};
  fields.push_back({Part::kPrecision, "softmax_dtype", type,
                    "by trial: scores in " + type + " alone do not hold (" +
                        found.fails + ")"});
  return fields;
}

// Knobs that do not hold are taken back: the conventions may hold without them.
void hold_or_take_back(const LibrarySpec& library, int index,
                       const IdentifyOptions& options, Identified& found) {
  hold(library, index, options, found);
  const auto is_precision = [](const FoundField& one) {
    return one.part == Part::kPrecision;
  };
  if (found.fails.empty() ||
      std::none_of(found.fields.begin(), found.fields.end(), is_precision))
    return;
  Identified other = found;
  other.fields = softmax_in_half(found);
  other.fails.clear();
  if (!other.fields.empty()) {
    hold(library, index, options, other);
    if (other.fails.empty()) {
      found = std::move(other);
      return;
    }
  }
  other = found;
  other.fails.clear();
  std::erase_if(other.fields, is_precision);
  hold(library, index, options, other);
  if (!other.fails.empty()) return;
  for (const FoundField& one : found.fields)
    if (is_precision(one))
      other.rest.push_back(
          {NotFound::Why::kNotTold, one.field + " = " + one.value,
           one.evidence + ". Not declared: with it, " + found.fails});
  found = std::move(other);
}

// False if no call can be made as intended, for lack of a scale.
bool find_scaled_options(Asker& asker, Identified& found) {
  const uint64_t options = find_options(asker, found);
  if ((options & (QKVET_OPTION_SCALE | QKVET_OPTION_DEFAULT_SCALE)) != 0)
    return true;
  found.is_attention = false;
  for (const NotFound& one : found.rest)
    if (one.what == "default_scale" || one.what == "scale")
      found.not_attention += (found.not_attention.empty() ? "" : "; ") +
                             one.what + ": " + one.evidence;
  return false;
}

}  // namespace

ExitCode Identified::exit_code() const {
  if (died) return kKernelDied;
  if (!error.empty()) return kNothingChecked;
  return holds() ? kConforms : kLawFailed;
}

Identified identify_kernel(const LibrarySpec& library, int index,
                           const IdentifyOptions& options) {
  Identified found;
  const Opened opened = open_asked(library);
  if (opened.executor == nullptr) {
    found.error = opened.error;
    return found;
  }
  Asker asker(*opened.executor, index);
  found.kernel = asker.info().name;
  if (!asker.info().has_forward) {
    found.error = "it has no forward(): only attention is identified";
    return found;
  }
  if (find_base(asker, found)) {
    find_storage(asker, found);
    find_extents(asker, found);
    find_flags(asker, found);
    if (!find_scaled_options(asker, found)) {
      found.calls += asker.calls();
      return found;
    }
    JudgedKernel so_far;
    found.fails = declared_by(found, so_far);
    find_dialect(asker, so_far.info, found);
    find_arithmetic(asker, found);
    find_paths(asker, found);
    hold_or_take_back(library, index, options, found);
  }
  found.calls += asker.calls();
  return found;
}

std::vector<std::pair<std::string, std::string>> lines_of(
    const Identified& found, Part part) {
  std::vector<std::pair<std::string, std::string>> lines;
  for (const FoundField& one : found.fields) {
    if (one.part != part) continue;
    const auto line =
        std::find_if(lines.begin(), lines.end(),
                     [&](const auto& x) { return x.first == one.field; });
    if (line == lines.end())
      lines.emplace_back(one.field, one.value);
    else
      line->second += " " + one.value;
  }
  return lines;
}

}  // namespace qkvet::cli

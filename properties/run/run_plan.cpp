// SPDX-License-Identifier: Apache-2.0
// A run in parts: the kernels that declare a subject, and the laws about it.
#include <algorithm>
#include <memory>
#include <utility>

#include "core/capability/capability.h"
#include "core/capability/extents.h"
#include "core/capability/paths.h"
#include "properties/cases/small_scope.h"
#include "properties/judging/subject.h"
#include "properties/run/own_plan.h"
#include "properties/run/runner.h"

namespace qkvet::properties {
namespace {

// The kernels and laws of one subject.
struct Part {
  std::vector<KernelUnderTest> kernels;
  std::vector<size_t> numbers;  // of the kernels in the whole run
  RunOptions options;
};

// If data is exact, agreement alone covers index logic.
void plan_small_scope(Part& part) {
  part.options.laws = {find_law("agrees_with_oracle")};
  const auto scope = std::make_shared<SmallScope>(part.options.scope);
  part.options.cases = scope->size();
  part.options.planned = [scope](int64_t number) { return scope->at(number); };
}

// Whether kernels of several declarations have one plan. The short one is for
// many kernels at once, and replaces cases that a kernel cannot take; a shard
// and a run that ends with its first failure replace none.
bool shares_plan(const RunOptions& options) {
  return options.planned || options.exhaustive ||
         (options.cases_per_law > 0 && options.shards == 1 &&
          !options.fail_fast);
}

// The kernels of the subject, those of one plan together.
std::vector<Part> kernels_in_parts(const std::vector<KernelUnderTest>& kernels,
                                   const RunOptions& options, Subject subject) {
  std::vector<Part> parts;
  const std::vector<size_t> declaration = declarations_of(kernels);
  std::vector<size_t> part_of(kernels.size(), kernels.size());
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (!has_subject(kernels[i].judged.info, subject)) continue;
    size_t& part = part_of[shares_plan(options) ? 0 : declaration[i]];
    if (part == kernels.size()) {
      part = parts.size();
      parts.emplace_back();
    }
    parts[part].kernels.push_back(kernels[i]);
    parts[part].numbers.push_back(i);
  }
  return parts;
}

// The part of one subject, in a run of several plans.
void plan_part(const RunOptions& options, Subject subject, size_t plans,
               Part& part) {
  part.options = options;
  if (shares_plan(options))
    keep_scope_to(part.kernels, part.options.scope);
  else
    part.options.scope = own_scope(part.kernels[0], options.scope);
  std::erase_if(part.options.laws, [subject](const Law* law) {
    return law->domain.subject != subject;
  });
  if (options.cases_per_law > 0)
    part.options.cases = options.cases_per_law * std::ssize(part.options.laws);
  if (options.exhaustive) plan_small_scope(part);
  // Every law gets the same share of a budget, and every plan.
  if (options.budget)
    part.options.budget = *options.budget *
                          static_cast<double>(part.options.laws.size()) /
                          static_cast<double>(options.laws.size() * plans);
}

std::vector<Part> parts_of(const std::vector<KernelUnderTest>& kernels,
                           const RunOptions& options) {
  std::vector<Part> parts;
  for (const SubjectRow& row : all_subjects()) {
    if (options.exhaustive && row.subject != Subject::kAttention) continue;
    std::vector<Part> mine = kernels_in_parts(kernels, options, row.subject);
    for (Part& part : mine) {
      plan_part(options, row.subject, mine.size(), part);
      if (!part.options.laws.empty()) parts.push_back(std::move(part));
    }
  }
  return parts;
}

int64_t planned_of(const Part& part) {
  return part.options.cases * std::ssize(part.kernels);
}

void add_part(const Part& part, RunResult result, RunResult& all) {
  for (size_t i = 0; i < part.numbers.size(); ++i) {
    std::vector<Cell>& cells = all.kernels[part.numbers[i]].cells;
    for (Cell& cell : result.kernels[i].cells) cells.push_back(std::move(cell));
    KernelResult& whole = all.kernels[part.numbers[i]];
    for (const auto lines : {&KernelResult::hollow, &KernelResult::drawn,
                             &KernelResult::never_drawn})
      for (std::string& line : result.kernels[i].*lines)
        (whole.*lines).push_back(std::move(line));
    if (!result.kernels[i].near_hints.empty())
      whole.near_hints = std::move(result.kernels[i].near_hints);
    whole.pairs.add(result.kernels[i].pairs);
  }
  all.replaced_cases += result.replaced_cases;
  all.added_cases += result.added_cases;
  all.planned_cases = std::max(all.planned_cases, result.planned_cases);
  all.rounds += result.rounds;
  all.interrupted |= result.interrupted;
  all.wall_seconds += result.wall_seconds;
  all.time.add(result.time);
  all.suspicions += result.suspicions;
  if (!all.suspicion) all.suspicion = std::move(result.suspicion);
}

}  // namespace

bool some_failed(const RunResult& result) {
  return std::any_of(
      result.kernels.begin(), result.kernels.end(),
      [](const KernelResult& kernel) {
        return std::any_of(
            kernel.cells.begin(), kernel.cells.end(),
            [](const Cell& cell) { return cell.failure.has_value(); });
      });
}

bool takes_dtype(const KernelInfo& kernel, const StorageTypes& types) {
  KernelCall call;
  call.q_dtype = types.q;
  call.kv_dtype = types.kv;
  call.o_dtype = types.o;
  return takes_storage(kernel, call);
}

std::string looser_text(const JudgedKernel& kernel, const Scope& scope) {
  if (kernel.looser_than_generic) {
    const std::string text = resolve_precision(kernel.info.precision).looser;
    return text.empty() ? "its declaration" : text;
  }
  for (const StorageTypes& types : scope.dtypes)
    if (takes_dtype(kernel.info, types) &&
        looser_for_storage(kernel.model, types.kv))
      return "what is rounded in " + to_string(types) + " storage";
  return "";
}

std::string mistrust_in(const JudgedKernel& kernel, const RunOptions& options) {
  if (!options.strict) return "";
  const std::string looser =
      options.allow_loose ? "" : looser_text(kernel, options.scope);
  if (!looser.empty())
    return "--strict: the declared precision is looser than generic: " +
           looser + " (--strict=dialect accepts it)";
  if (kernel.assumed.empty()) return "";
  std::string text = "--strict: not declared:";
  for (const Assumption& one : kernel.assumed) text += " " + one.field;
  return text;
}

namespace {

bool is_among(const qkvet_path& path, const std::vector<qkvet_path>& paths) {
  return std::any_of(paths.begin(), paths.end(),
                     [&path](const qkvet_path& had) {
                       return had.axis == path.axis && had.at == path.at;
                     });
}

void add_path(const qkvet_path& path, std::vector<qkvet_path>& paths) {
  if (!is_among(path, paths)) paths.push_back(path);
}

// Extents on which kernels disagree are free; kernels that do not take a case
// refuse it.
void keep_common(const DeclaredExtents& mine, DeclaredExtents& all) {
  for (size_t n = 0; n < kExtentCount; ++n)
    if (!is_same(all.rules[n], mine.rules[n])) all.rules[n] = {};
  const auto same = [](const qkvet_width& a, const qkvet_width& b) {
    return a.d == b.d && a.dv == b.dv;
  };
  if (!std::equal(all.widths.begin(), all.widths.end(), mine.widths.begin(),
                  mine.widths.end(), same))
    all.widths.clear();
}

}  // namespace

void keep_scope_to(const std::vector<KernelUnderTest>& kernels, Scope& scope) {
  if (kernels.empty()) return;
  scope.options = 0;
  scope.layouts = scope.cache_options = scope.layer_options = 0;
  scope.merge_options = 0;
  std::optional<qkvet_extent_rule> states;
  scope.plans = false;
  scope.truncates = scope.evicts = scope.forks = scope.reorders = false;
  scope.extents = extents_of(kernels[0].judged.info.capabilities);
  scope.page_sizes.clear();
  scope.paths.clear();
  scope.hints.clear();
  scope.pages_only = scope.groups_only = scope.in_keys_only =
      scope.causal_only = scope.few_shapes = true;
  scope.refusals = ~uint64_t{0};
  uint64_t merge_refusals = QKVET_MERGE_LSE_HEADS_FIRST_ONLY;
  bool any_page = false;
  for (const KernelUnderTest& kernel : kernels) {
    const qkvet_capabilities& mine = kernel.judged.info.capabilities;
    scope.options |= mine.options;
    scope.layouts |= mine.layouts != 0 ? mine.layouts : QKVET_LAYOUT_BHTD;
    scope.cache_options |= kernel.judged.info.cache_options;
    scope.layer_options |= kernel.judged.info.layer_options;
    scope.merge_options |= kernel.judged.info.merge_options;
    if (const KernelInfo& info = kernel.judged.info; info.has_merge) {
      merge_refusals &= info.merge_options;
      const qkvet_extent_rule own = {info.min_states, info.max_states, 0};
      states = states && !is_same(*states, own) ? qkvet_extent_rule{} : own;
    }
    scope.plans |= kernel.judged.info.has_plan;
    scope.truncates |= kernel.judged.info.has_truncate;
    scope.evicts |= kernel.judged.info.has_evict;
    scope.forks |= kernel.judged.info.has_fork;
    scope.reorders |= kernel.judged.info.has_reorder;
    keep_common(extents_of(mine), scope.extents);
    if (const KernelInfo& info = kernel.judged.info; info.has_forward) {
      scope.pages_only &= info.has_flag(QKVET_FLAG_PAGES_ONLY);
      scope.groups_only &= info.has_flag(QKVET_FLAG_CHANNEL_GROUPS_ONLY);
      scope.in_keys_only &= info.has_flag(QKVET_FLAG_VALUES_IN_KEYS_ONLY);
    }
    scope.few_shapes &=
        kernel.judged.info.has_flag(QKVET_FLAG_COMPILES_PER_SHAPE);
    scope.causal_only &= kernel.judged.info.has_flag(QKVET_FLAG_CAUSAL_ONLY);
    scope.refusals &= mine.flags;
    // A kernel without a list of sizes takes any; the others may refuse some.
    const auto count = std::clamp<int32_t>(mine.page_size_count, 0, 16);
    constexpr uint64_t kPages = QKVET_OPTION_PAGED | QKVET_OPTION_PAGED_CSR;
    any_page |= count == 0 && (mine.options & kPages) != 0;
    for (const qkvet_path& path : paths_of(mine)) add_path(path, scope.paths);
    scope.page_sizes.insert(scope.page_sizes.end(), mine.page_sizes,
                            mine.page_sizes + count);
  }
  for (const KernelUnderTest& kernel : kernels)
    for (const Hint& hint : kernel.hints)
      if (!is_among(hint.path, scope.paths)) add_path(hint.path, scope.hints);
  if (any_page) scope.page_sizes.clear();
  scope.merge_options &= ~QKVET_MERGE_LSE_HEADS_FIRST_ONLY | merge_refusals;
  scope.states = states.value_or(qkvet_extent_rule{});
}

// In the order of the declarations, those that can be judged.
void add_mixtures(const KernelInfo& kernel, std::vector<StorageTypes>& all) {
  const qkvet_capabilities& can = kernel.capabilities;
  for (int n = 0; n < std::clamp<int32_t>(can.dtype_count, 0, 16); ++n) {
    const auto q = dtype_from_abi(can.dtypes[n].q);
    const auto kv = dtype_from_abi(can.dtypes[n].kv);
    const auto o = dtype_from_abi(can.dtypes[n].o);
    if (!q || !kv || !o) continue;
    const StorageTypes types(*q, *kv, *o);
    Case value;
    store_as(types, value);
    if (not_judged_reason(value).empty() &&
        std::find(all.begin(), all.end(), types) == all.end())
      all.push_back(types);
  }
}

std::vector<StorageTypes> declared_dtypes(
    const std::vector<KernelUnderTest>& kernels) {
  std::vector<StorageTypes> dtypes;
  for (const Dtype dtype :
       {Dtype::kF32, Dtype::kBf16, Dtype::kF16, Dtype::kF64}) {
    const auto takes = [dtype](const KernelUnderTest& kernel) {
      return takes_dtype(kernel.judged.info, dtype);
    };
    if (std::any_of(kernels.begin(), kernels.end(), takes))
      dtypes.push_back(dtype);
  }
  for (const KernelUnderTest& kernel : kernels)
    add_mixtures(kernel.judged.info, dtypes);
  // A kernel of other types still gets cases, and refuses them visibly.
  if (dtypes.empty()) dtypes.push_back(Dtype::kF32);
  return dtypes;
}

int64_t most_cases(const RunOptions& options) {
  if (options.cases_per_law <= 0) return options.cases;
  int64_t most = 0;
  for (const SubjectRow& row : all_subjects())
    most = std::max<int64_t>(
        most, std::count_if(options.laws.begin(), options.laws.end(),
                            [&row](const Law* law) {
                              return law->domain.subject == row.subject;
                            }));
  return most * options.cases_per_law;
}

namespace {

// The progress of the parts, reported as that of one run.
class Progress {
 public:
  Progress(std::vector<Part>& parts, const RunOptions& options)
      : say_(options.progress), own_(parts.size()) {
    if (!say_) return;
    for (size_t i = 0; i < parts.size(); ++i) {
      planned_ += options.budget ? 0 : planned_of(parts[i]);
      parts[i].options.progress = [this, i](const RunProgress& own) {
        own_[i] = own;
        RunProgress all{0, planned_, 0, own.shrinking};
        for (const RunProgress& one : own_) {
          all.done += one.done;
          all.failures += one.failures;
        }
        say_(all);
      };
    }
  }

 private:
  const std::function<void(const RunProgress&)>& say_;
  std::vector<RunProgress> own_;
  int64_t planned_ = 0;
};

// The parts take turns, so that the first failure does not wait for the whole
// plan of a part that passes.
RunResult run_in_turns(std::vector<Part>& parts, SharedExecutors& executors,
                       RunResult all) {
  std::vector<ExecutorFactory> opens;
  for (size_t i = 0; i < parts.size(); ++i)
    opens.push_back(executors.for_part());
  std::vector<std::unique_ptr<SubjectRun>> runs;
  std::vector<SubjectRun*> going;
  for (size_t i = 0; i < parts.size(); ++i) {
    runs.push_back(begin_subject(parts[i].kernels, opens[i], parts[i].options));
    going.push_back(runs.back().get());
  }
  const SubjectRun* failed = nullptr;
  while (!going.empty() && failed == nullptr)
    std::erase_if(going, [&failed](SubjectRun* run) {
      if (failed != nullptr) return false;
      const bool more = run->round();
      if (run->has_failed()) failed = run;
      return !more;
    });
  for (size_t i = 0; i < parts.size(); ++i) {
    RunResult result =
        runs[i]->finish(failed == nullptr || failed == runs[i].get());
    if (!result.error.empty()) return result;
    const double wall = std::max(all.wall_seconds, result.wall_seconds);
    add_part(parts[i], std::move(result), all);
    all.wall_seconds = wall;  // of all at once
    if (some_failed(all)) failed = runs[i].get();
  }
  return all;
}

}  // namespace

RunResult run_plan(const std::vector<KernelUnderTest>& kernels,
                   const ExecutorFactory& open, const RunOptions& options) {
  RunResult all;
  for (const KernelUnderTest& kernel : kernels)
    all.kernels.push_back({kernel, {}, {}});
  std::vector<Part> parts = parts_of(kernels, options);
  const Progress progress(parts, options);
  SharedExecutors executors(open);
  if (options.fail_fast && !options.budget)
    return run_in_turns(parts, executors, std::move(all));
  for (Part& part : parts) {
    RunResult result =
        run_subject(part.kernels, executors.for_part(), part.options);
    if (!result.error.empty()) return result;
    add_part(part, std::move(result), all);
    if (some_failed(all))
      for (Part& other : parts) other.options.first_failure = nullptr;
    if (all.interrupted || (options.fail_fast && some_failed(all))) break;
  }
  return all;
}

}  // namespace qkvet::properties

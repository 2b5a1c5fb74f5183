// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal/select.h"

#include <fmt/core.h>
#include <fnmatch.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "cli/base/arguments.h"
#include "cli/base/perhaps.h"
#include "cli/kernels/compiler.h"
#include "core/base/printable.h"
#include "properties/conventions/domain.h"
#include "properties/judging/law.h"
#include "properties/run/fault_of.h"
#include "properties/run/one_cell.h"
#include "properties/run/shrink.h"
#include "report/run_record.h"

namespace qkvet::cli {

ExitCode wrong_use(const std::string& line) {
  std::fprintf(stderr, "qkvet: %s\n", printable(line).c_str());
  return kWrongUse;
}

std::string no_such_law(const std::string& name) {
  std::vector<std::string> names;
  for (const Law* law : all_laws()) names.push_back(law->id);
  return "no law is named \"" + name + "\"" + perhaps(name, names) +
         "; `qkvet explain laws` shows all";
}

std::vector<const Law*> select_laws(const std::vector<std::string>& globs,
                                    std::string* error) {
  std::vector<bool> used(globs.size());
  std::vector<const Law*> laws;
  for (const Law* law : all_laws()) {
    bool wanted = globs.empty();
    for (size_t i = 0; i < globs.size(); ++i)
      if (fnmatch(globs[i].c_str(), law->id, 0) == 0) wanted = used[i] = true;
    if (wanted) laws.push_back(law);
  }
  for (size_t i = 0; i < globs.size(); ++i)
    if (!used[i]) {
      *error = no_such_law(globs[i]);
      return {};
    }
  return laws;
}

namespace {

// "K/N": shard K of N.
std::string read_shard(const std::string& text, RunOptions& run) {
  const size_t slash = text.find('/');
  const auto number = [](std::string_view digits, int64_t* out) {
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), *out);
    return error == std::errc() && end == digits.data() + digits.size();
  };
  const std::string_view all = text;
  if (slash == std::string::npos || !number(all.substr(0, slash), &run.shard) ||
      !number(all.substr(slash + 1), &run.shards) || run.shard < 1 ||
      run.shard > run.shards || run.shards > kMostShards)
    return "--shard \"" + text +
           "\": allowed: K/N with K from 1 to N, and N up to 100000";
  return "";
}

}  // namespace

std::string flags_of(const RunWords& words) {
  const RunWords usual;
  std::string out;
  const auto add = [&out](const char* flag, const std::string& text) {
    out += fmt::format(" {} {}", flag, shell_quoted(text));
  };
  for (const std::string& law : words.laws) add("--law", law);
  if (words.cases) add("--cases", std::to_string(*words.cases));
  if (words.seed != usual.seed) add("--seed", words.seed);
  if (words.sizes != usual.sizes) add("--sizes", words.sizes);
  for (const auto& [flag, text] :
       {std::pair("--budget", &words.budget), std::pair("--pin", &words.pin),
        std::pair("--shard", &words.shard)})
    if (!text->empty()) add(flag, *text);
  for (const auto& [flag, given] :
       {std::pair(" --exhaustive", words.exhaustive),
        std::pair(" --strict", words.strict == "all"),
        std::pair(" --strict=dialect", words.strict == "dialect"),
        std::pair(" --fail-fast", words.fail_fast)})
    if (given) out += flag;
  return out;
}

std::string read_run_words(const RunWords& words, RunOptions& run) {
  std::string error;
  run.laws = select_laws(words.laws, &error);
  if (!error.empty()) return error;
  run.cases = words.cases.value_or(kDefaultCases);
  run.exhaustive = words.exhaustive;
  run.fail_fast = words.fail_fast;
  if (words.exhaustive && !words.laws.empty())
    return "--exhaustive is about agreement with the oracle: no --law beside "
           "it";
  if (words.exhaustive && !words.pin.empty())
    return "--exhaustive has extents of its own: no --pin beside it";
  if (!words.budget.empty()) {
    run.budget = parse_budget(words.budget, &error);
    if (!run.budget) return error;
  }
  if (!words.shard.empty()) {
    if (error = read_shard(words.shard, run); !error.empty()) return error;
    if (run.budget || words.fail_fast)
      return "--shard splits a plan that is known from the start: no --budget "
             "and no --fail-fast beside it";
    if (words.seed == "random")
      return "--shard takes part of one plan: no --seed random beside it, "
             "which "
             "is another plan for each shard";
  }
  const auto seed = parse_seed(words.seed, &error);
  if (!seed) return error;
  run.seed = *seed;
  const auto largest = properties::size_class_from_name(words.sizes);
  if (!largest)
    return "sizes \"" + words.sizes + "\": allowed: small, medium, large, long";
  run.scope.largest = *largest;
  run.allow_loose = words.strict == "dialect";
  run.strict = !words.strict.empty();
  run.scope.pins = parse_pins(words.pin, &error);
  if (!error.empty()) return "--pin " + error;
  run.jobs = jobs_or_cores(words.jobs);
  return "";
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

namespace {

// "" or why a case that the user wrote is none of the law's, with the nearest
// case that is. Judged anyway, it would fail because of its data, not because
// of the kernel.
std::string none_of_its_cases(const Law& law, const Case& value) {
  if (law.domain.subject != value.subject()) return "";
  const std::string nearest = to_string(constrained(law, value));
  return nearest == to_string(value)
             ? ""
             : "the law is about other cases; the nearest is " + nearest;
}

}  // namespace

namespace {

Judgement judgement_of(const Law& law, const Case& value,
                       const KernelUnderTest& kernel, Executor& executor,
                       TimeUse& time, const std::vector<Case>& after) {
  Witness witness(kernel.judged, kernel.index, executor, time,
                  kMostEarlierCalls);
  const auto evidence =
      after.empty() ? nullptr : witness.ask_after(after, law, value);
  return evidence != nullptr
             ? evidence->judgement
             : check_case(law, value, kernel.judged, kernel.index, executor,
                          /*with_twin=*/true, time);
}

}  // namespace

KernelResult replay_one(const Law& law, const Case& value,
                        const KernelUnderTest& kernel, Executor& executor,
                        TimeUse& time, const std::vector<Case>& after) {
  if (const std::string reason = none_of_its_cases(law, value);
      !reason.empty()) {
    Cell cell;
    cell.law = &law;
    cell.reason = reason;
    return {kernel, {std::move(cell)}};
  }
  const auto start = std::chrono::steady_clock::now();
  const Judgement judgement =
      judgement_of(law, value, kernel, executor, time, after);
  Cell cell = one_cell(law, judgement, seconds_since(start));
  if (cell.verdict == Verdict::kPassed && cell.checked == 0) {
    cell.verdict = Verdict::kMistrusted;
    cell.reason = "the bound is uninformative for every element of this case";
  }
  if (judgement.verdict == Verdict::kFailed) {
    Failure failure;
    failure.law = &replayed_law(law, value, judgement, kernel.judged,
                                kernel.index, executor, time);
    failure.number = 1;
    failure.found = failure.smallest = value;
    failure.judgement = judgement;
    failure.seconds = cell.seconds;
    failure.digest = input_digest(make_inputs(value));
    failure.story = fault_of(law, value, judgement, kernel.judged, kernel.index,
                             executor, time);
    cell.failure = std::move(failure);
  }
  return {kernel, {std::move(cell)}};
}

bool colour_wanted() {
  const char* no_colour = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) != 0 &&
         (no_colour == nullptr || *no_colour == 0);
}

size_t screen_width() {
  constexpr size_t kElsewhere = 100, kLeast = 20;
  if (const char* columns = std::getenv("COLUMNS")) {
    const unsigned long width = std::strtoul(columns, nullptr, 10);
    if (width > 0 && width <= 10000) return std::max(kLeast, size_t{width});
  }
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return kElsewhere;
  return std::max<size_t>(kLeast, size.ws_col);
}

}  // namespace qkvet::cli

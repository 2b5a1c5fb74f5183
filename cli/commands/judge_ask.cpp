// SPDX-License-Identifier: Apache-2.0
// qkvet judge --ask: the questions of a numbered plan as files, for a kernel
// that cannot be opened.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>

#include "cli/base/arguments.h"
#include "cli/commands/judge.h"
#include "cli/kernels/write_new.h"
#include "cli/reproduce/plan_folder.h"
#include "cli/terminal/select.h"
#include "core/base/read_file.h"
#include "properties/cases/generate.h"
#include "properties/conventions/conventions.h"
#include "report/lines.h"

namespace qkvet::cli {
namespace {

// Cases drawn for each requested one: laws may not apply to some.
constexpr int64_t kMostDraws = 8;

// The lines of a file of declarations, without comments. "" or one line.
std::string declaration_text(const std::string& path, std::string* text) {
  if (path.empty()) return "";
  std::string all;
  if (std::string wrong = read_file(path, &all); !wrong.empty()) return wrong;
  std::istringstream file(all);
  for (std::string line; std::getline(file, line);) {
    line.resize(std::min(line.find('#'), line.size()));
    line.resize(line.find_last_not_of(" \t\r") + 1);
    if (!line.empty()) *text += line + "\n";
  }
  return "";
}

bool is_name(const std::string& name) {
  const auto part = [](const std::string& text) {
    return !text.empty() &&
           text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") ==
               std::string::npos;
  };
  const size_t slash = name.find('/');
  return slash != std::string::npos && part(name.substr(0, slash)) &&
         part(name.substr(slash + 1));
}

std::string resolve_kernel(const AskOptions& options, PlanKernel* kernel) {
  std::string error;
  kernel->name = options.name;
  if (!is_name(options.name))
    return "--kernel " + options.name +
           ": allowed is family/variant, of a-z, 0-9 and _";
  kernel->options = options.options.empty()
                        ? default_plan_options()
                        : parse_plan_options(options.options, &error);
  if (!error.empty()) return error;
  if (!options.dtypes.empty()) kernel->dtypes.clear();
  for (const std::string& name : options.dtypes) {
    const auto types = slashed_storage(name);
    Case value;
    store_as(types.value_or(Dtype::kInt8), value);
    const std::string why = not_judged_reason(value);
    if (!why.empty())
      return "--dtype " + name + ": " + (types ? why + "; " : "") +
             "allowed are f64, f32, f16 and bf16, or three of them for q, for "
             "k and v, and for o, such as f32/f16/f32";
    kernel->dtypes.push_back(*types);
  }
  kernel->dialect = convention_dialect(options.dialect);
  if (kernel->dialect.empty())
    error = declaration_text(options.dialect, &kernel->dialect);
  if (error.empty())
    error = declaration_text(options.precision, &kernel->precision);
  return error;
}

// Draws cases, and the laws for which they are.
class Drawer {
 public:
  Drawer(const AskOptions& options, std::vector<const Law*> laws,
         PlanFolder& plan)
      : options_(options), laws_(std::move(laws)), plan_(plan) {
    KernelUnderTest kernel;
    kernel.judged = plan.kernel;
    scope_.dtypes = plan.recipe.kernel.dtypes;
    keep_scope_to({kernel}, scope_);
    // The command line allows only these words.
    scope_.largest = *properties::size_class_from_name(options.sizes);
  }

  // "" or one line.
  std::string draw();

 private:
  void drop_laws();
  void add(const Law& law, int64_t number);

  const AskOptions& options_;
  std::vector<const Law*> laws_;
  PlanFolder& plan_;
  Scope scope_;
};

void Drawer::drop_laws() {
  std::erase_if(laws_, [&](const Law* law) {
    std::string why = not_in_files_reason(*law);
    if (why.empty() && !has_subject(plan_.kernel.info, law->domain.subject))
      why = missing_subject(law->domain.subject);
    if (why.empty()) why = undeclared_need(*law, scope_);
    if (!why.empty()) plan_.recipe.dropped[law->id] = why;
    return !why.empty();
  });
}

void Drawer::add(const Law& law, int64_t number) {
  PlanCase one{
      &law, number, planned_case(law, plan_.recipe.seed, number, scope_), {}};
  const std::string why =
      plan_.calls.add_case(law, one.value, plan_.planning, &one.calls);
  if (!why.empty()) {
    plan_.recipe.dropped.try_emplace(law.id, why);
    return;
  }
  plan_.recipe.cases.push_back(std::move(one));
}

std::string Drawer::draw() {
  std::string error;
  scope_.pins = parse_pins(options_.pin, &error);
  if (!error.empty()) return "--pin " + error;
  drop_laws();
  const auto laws = static_cast<int64_t>(laws_.size());
  if (laws == 0)
    return "none of the laws can be judged by answers in files: " +
           plan_.recipe.dropped.begin()->second;
  for (int64_t number = 1; number <= kMostDraws * options_.cases &&
                           std::ssize(plan_.recipe.cases) < options_.cases;
       ++number)
    add(*laws_[static_cast<size_t>((number - 1) % laws)], number);
  for (const PlanCase& one : plan_.recipe.cases)
    plan_.recipe.dropped.erase(one.law->id);
  if (plan_.recipe.cases.empty())
    return "no law is about such a kernel: " +
           plan_.recipe.dropped.begin()->second;
  return "";
}

// Laws that share a reason in one line, by name if they are few.
std::string dropped_text(const PlanRecipe& recipe) {
  constexpr size_t kFew = 4;
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const auto& [law, why] : recipe.dropped) by_reason[why].push_back(law);
  std::string out;
  for (const auto& [why, laws] : by_reason) {
    std::string names = fmt::format("{} laws", laws.size());
    if (laws.size() <= kFew) names = joined(laws);
    out += wrapped_field(out.empty() ? "not asked" : "",
                         fmt::format("{}: {}", names, why));
  }
  return out;
}

std::string summary(const AskOptions& options, const PlanFolder& plan,
                    size_t bytes) {
  std::set<const Law*> laws;
  for (const PlanCase& one : plan.recipe.cases) laws.insert(one.law);
  std::vector<std::string> types;
  for (const StorageTypes& stored : plan.recipe.kernel.dtypes)
    types.push_back(slashed(stored));
  constexpr double kMebibyte = 1 << 20;
  std::string text = fmt::format(
      "PLAN  {}: {} calls for {} cases of {} laws, {:.1f} MiB\n",
      options.folder, plan.calls.calls().size(), plan.recipe.cases.size(),
      laws.size(), static_cast<double>(bytes) / kMebibyte);
  text += wrapped_field(
      "kernel", fmt::format("{}: {}; {}", options.name,
                            joined(plan.recipe.kernel.options), joined(types)));
  text += dropped_text(plan.recipe);
  if (plan.recipe.format == PlanFormat::kRecipe)
    return text + field("then", "qkvet judge --ask OTHER --from " +
                                    options.folder + ", where it is answered");
  text += wrapped_field("answer", options.folder +
                                      "/README.txt says how; calls.tsv and "
                                      "plan.json have the calls");
  return text + field("then", "qkvet judge " + options.folder);
}

// Into the folder that the options name.
ExitCode write_plan(const AskOptions& options, const PlanFolder& plan) {
  std::string error;
  const auto files = plan_files(plan, &error);
  if (!error.empty()) return wrong_use(error);
  size_t bytes = 0;
  for (const auto& [name, content] : files) bytes += content.size();
  error = write_new_folder(options.folder, {files.begin(), files.end()},
                           options.force, kPlanFile);
  if (!error.empty()) return wrong_use(error);
  fmt::print("{}", summary(options, plan, bytes));
  return kConforms;
}

// The questions of another plan, in another form.
ExitCode write_from(const AskOptions& options) {
  std::string error = options.force ? "" : not_new_reason(options.folder);
  if (!error.empty()) return wrong_use(error);
  std::string text;
  PlanRecipe recipe;
  error = read_plan_recipe(options.from, &text, &recipe);
  if (!error.empty()) return wrong_use(error);
  AskOptions named = options;
  named.name = recipe.kernel.name;
  recipe.format = plan_format_from(options.format).value_or(PlanFormat::kNpy);
  PlanFolder plan;
  error = make_plan(std::move(recipe), &plan);
  if (!error.empty()) return wrong_use(options.from + ": " + error);
  return write_plan(named, plan);
}

}  // namespace

ExitCode judge_ask(const AskOptions& given) {
  AskOptions options = given;
  while (options.folder.size() > 1 && options.folder.back() == '/')
    options.folder.pop_back();
  if (!options.from.empty()) return write_from(options);
  std::string error;
  const std::vector<const Law*> laws = select_laws(options.laws, &error);
  if (!error.empty()) return wrong_use(error);
  PlanRecipe recipe;
  error = resolve_kernel(options, &recipe.kernel);
  if (!error.empty()) return wrong_use(error);
  const auto seed = parse_seed(options.seed, &error);
  if (!seed) return wrong_use(error);
  recipe.seed = *seed;
  recipe.format = plan_format_from(options.format).value_or(PlanFormat::kNpy);
  if (!options.force) error = not_new_reason(options.folder);
  if (!error.empty()) return wrong_use(error);

  PlanFolder plan;
  error = make_plan(std::move(recipe), &plan);
  if (error.empty()) error = Drawer(options, laws, plan).draw();
  if (!error.empty()) return wrong_use(error);
  return write_plan(options, plan);
}

}  // namespace qkvet::cli

// SPDX-License-Identifier: Apache-2.0
#include "cli/reproduce/plan_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "cli/reproduce/plan_text.h"
#include "core/base/read_file.h"
#include "core/files/npy.h"
#include "core/files/safetensors.h"

namespace qkvet::cli {
namespace {

namespace fs = std::filesystem;

// Far more than any plan needs.
constexpr size_t kMostPlanBytes = size_t{1} << 28;

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string add_npy(const std::vector<NamedTensor>& stored,
                    std::map<std::string, std::string>* files) {
  for (size_t i = 0; i < stored.size(); ++i) {
    const std::string name = plan_tensor_name(i) + ".npy";
    std::string error;
    const auto bytes =
        npy_bytes(stored[i].written(), /*fortran_order=*/false, &error);
    if (!bytes) return fmt::format("{}: {}", name, error);
    (*files)[name] = text_of(*bytes);
  }
  return "";
}

std::string add_safetensors(const std::vector<NamedTensor>& stored,
                            std::map<std::string, std::string>* files) {
  NamedTensors tensors;
  for (size_t i = 0; i < stored.size(); ++i)
    tensors[plan_tensor_name(i)] = stored[i];
  std::string error;
  const auto bytes = safetensors_bytes(tensors, {}, &error);
  if (!bytes) return fmt::format("{}: {}", kInputsFile, error);
  (*files)[kInputsFile] = text_of(*bytes);
  return "";
}

}  // namespace

std::optional<PlanFormat> plan_format_from(std::string_view word) {
  const auto* const found =
      std::find(std::begin(kPlanFormats), std::end(kPlanFormats), word);
  if (found == std::end(kPlanFormats)) return std::nullopt;
  return static_cast<PlanFormat>(found - std::begin(kPlanFormats));
}

std::string make_plan(PlanRecipe recipe, PlanFolder* plan) {
  *plan = {};
  std::string error = declared_kernel(recipe.kernel, &plan->kernel);
  if (!error.empty()) return error;
  plan->planning = plan->kernel;
  plan->probes = plan->calls.add_probes(&plan->planning);
  for (PlanCase& one : recipe.cases) {
    one.calls.clear();
    const std::string why =
        plan->calls.add_case(*one.law, one.value, plan->planning, &one.calls);
    if (!why.empty())
      return fmt::format("case {} under {}: {}", one.number, one.law->id, why);
  }
  plan->recipe = std::move(recipe);
  return "";
}

std::map<std::string, std::string> plan_files(const PlanFolder& plan,
                                              std::string* error) {
  std::map<std::string, std::string> files = {
      {kPlanFile, plan_json(plan)}, {"README.txt", plan_readme(plan)}};
  const PlanFormat format = plan.recipe.format;
  if (format == PlanFormat::kRecipe) return files;
  files["calls.tsv"] = plan_table(plan);
  const std::vector<NamedTensor>& stored = plan.calls.stored();
  *error = format == PlanFormat::kSafetensors ? add_safetensors(stored, &files)
                                              : add_npy(stored, &files);
  return files;
}

std::string read_plan_recipe(const std::string& folder, std::string* text,
                             PlanRecipe* recipe) {
  const std::string path = (fs::path(folder) / kPlanFile).string();
  std::string error = read_file(path, text, kMostPlanBytes);
  if (!error.empty()) return error;
  error = parse_plan(*text, recipe);
  return error.empty() ? "" : path + ": " + error;
}

std::string read_plan(const std::string& folder, PlanFolder* plan) {
  const fs::path base = folder;
  std::string text;
  PlanRecipe recipe;
  std::string error = read_plan_recipe(folder, &text, &recipe);
  if (!error.empty()) return error;
  error = make_plan(std::move(recipe), plan);
  if (error.empty()) error = plan_difference(text, *plan);
  if (!error.empty()) return (base / kPlanFile).string() + ": " + error;
  for (const auto& [name, content] : plan_files(*plan, &error)) {
    if (name == kPlanFile) continue;
    const std::string file = (base / name).string();
    std::string found;
    // One more byte shows that it is another file.
    error = read_file(file, &found, content.size() + 1);
    if (!error.empty()) return error;
    if (found != content)
      return file +
             ": is not what the plan has there; it was changed, or "
             "written by another version of QKVet";
  }
  return "";
}

}  // namespace qkvet::cli

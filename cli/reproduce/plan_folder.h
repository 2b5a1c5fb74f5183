// SPDX-License-Identifier: Apache-2.0
// A plan in a folder: QKVet's questions to a kernel that it cannot open. Inputs
// are in files, each distinct tensor once. The expected outputs follow from the
// cases alone, so that a plan can be made again from its recipe and compared
// with its files.
//
//   plan.json     recipe, and all about each call except its numbers
//   calls.tsv     the calls, a row each, for programs without JSON
//   README.txt    how to answer
//   t/0012.npy    an input, or inputs.safetensors with all of them
//
// A plan of the format "recipe" is plan.json without the calls, and README.txt:
// the rest is made from it when it is needed.
#ifndef QKVET_CLI_REPRODUCE_PLAN_FOLDER_H_
#define QKVET_CLI_REPRODUCE_PLAN_FOLDER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/reproduce/plan_calls.h"
#include "cli/reproduce/plan_kernel.h"

namespace qkvet::cli {

inline constexpr const char* kPlanFile = "plan.json";
inline constexpr const char* kInputsFile = "inputs.safetensors";

// How inputs are stored, in the words of plan.json and of emit's --format.
enum class PlanFormat : uint8_t { kNpy, kSafetensors, kRecipe };
inline constexpr const char* kPlanFormats[] = {"npy", "safetensors", "recipe"};
std::optional<PlanFormat> plan_format_from(std::string_view word);

struct PlanCase {
  const Law* law = nullptr;
  int64_t number = 0;  // of the case, from 1
  Case value;
  std::vector<size_t> calls;
};

// The source of plan.json.
struct PlanRecipe {
  PlanKernel kernel;
  uint64_t seed = 1;
  PlanFormat format = PlanFormat::kNpy;
  std::vector<PlanCase> cases;  // their calls are made, not given
  // Requested laws without a case, and why.
  std::map<std::string, std::string> dropped;
};

struct PlanFolder {
  PlanRecipe recipe;
  // As declared, and as planned with: see PlanCalls::add_probes().
  JudgedKernel kernel, planning;
  std::vector<size_t> probes;  // calls that find out the dialect
  PlanCalls calls;
};

// The recipe in the folder's plan.json, which *text becomes. "" or one line.
std::string read_plan_recipe(const std::string& folder, std::string* text,
                             PlanRecipe* recipe);

// Makes all calls of the recipe's cases. "" or one line.
std::string make_plan(PlanRecipe recipe, PlanFolder* plan);

// The files of a plan and their contents; *error is one line.
std::map<std::string, std::string> plan_files(const PlanFolder& plan,
                                              std::string* error);

// Reads a folder and compares each of its files with the output of this version
// of QKVet. "" or one line that names the file.
std::string read_plan(const std::string& folder, PlanFolder* plan);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_REPRODUCE_PLAN_FOLDER_H_

// SPDX-License-Identifier: Apache-2.0
// The texts of a plan: plan.json, calls.tsv and README.txt.
#ifndef QKVET_CLI_REPRODUCE_PLAN_TEXT_H_
#define QKVET_CLI_REPRODUCE_PLAN_TEXT_H_

#include <string>

#include "cli/reproduce/plan_folder.h"

namespace qkvet::cli {

std::string plan_json(const PlanFolder& plan);
std::string plan_table(const PlanFolder& plan);
std::string plan_readme(const PlanFolder& plan);

// Reads the recipe out of plan.json. "" or one line without the file's name.
std::string parse_plan(const std::string& text, PlanRecipe* recipe);

// "" or the first statement of plan.json about the plan that is not true.
std::string plan_difference(const std::string& text, const PlanFolder& plan);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_REPRODUCE_PLAN_TEXT_H_

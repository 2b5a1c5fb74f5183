// SPDX-License-Identifier: Apache-2.0
// A kernel that cannot be opened: its abilities are declared in words, and its
// answers are read from files.
#ifndef QKVET_CLI_REPRODUCE_PLAN_KERNEL_H_
#define QKVET_CLI_REPRODUCE_PLAN_KERNEL_H_

#include <string>
#include <vector>

#include "properties/cases/scope.h"
#include "properties/checking/case_work.h"

namespace qkvet::cli {

struct PlanKernel {
  std::string name = "recorded/kernel";
  std::vector<std::string> options;  // words of plan_option_names()
  std::vector<StorageTypes> dtypes = std::vector<StorageTypes>(1);  // all f32
  std::string dialect, precision;  // texts as declaration.h reads them
};

// "attention, layer, causal, ..."
std::string plan_option_names();
// The options of a plan if none are given.
std::vector<std::string> default_plan_options();
// "causal,mask" or "all" as words, each once and in the order of the names. On
// failure *error is one line.
std::vector<std::string> parse_plan_options(const std::string& text,
                                            std::string* error);

// The declaration as the laws see it. "" or one line.
std::string declared_kernel(const PlanKernel& plan, JudgedKernel* judged);

// Adds files of declarations, "" for none. "" or one line.
std::string declare_more(const std::string& dialect,
                         const std::string& precision, JudgedKernel* kernel);

// "" or why a law cannot be judged by answers in files.
std::string not_in_files_reason(const Law& law);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_REPRODUCE_PLAN_KERNEL_H_

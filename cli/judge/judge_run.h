// SPDX-License-Identifier: Apache-2.0
// For tests of `qkvet judge`: plans, and kernels that answer them.
#ifndef QKVET_CLI_JUDGE_JUDGE_RUN_H_
#define QKVET_CLI_JUDGE_JUDGE_RUN_H_

#include <filesystem>
#include <string>

#include "cli/base/program_run.h"

namespace qkvet::cli {

// `qkvet judge --ask NAME ARGUMENTS` in scratch(): the folder, which is new.
std::filesystem::path emitted(const std::string& name,
                              const std::string& arguments = "");

// Answers the plan in a folder by a kernel of this build, next to the inputs or
// in another folder; the kernel refuses calls that it does not take.
void answer_plan(const std::filesystem::path& plan, const std::string& kernel);
void answer_plan(const std::filesystem::path& plan, const std::string& kernel,
                 const std::filesystem::path& answers, bool safetensors);

// `qkvet judge FOLDER ARGUMENTS`
Ran judged(const std::filesystem::path& plan,
           const std::string& arguments = "");

// The cause that a report names first, and how certain it is: "no_scale, sure".
std::string cause_in(const std::string& report);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_JUDGE_JUDGE_RUN_H_

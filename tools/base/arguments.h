// SPDX-License-Identifier: Apache-2.0
// Words of the command line that several commands take.
#ifndef QKVET_TOOLS_BASE_ARGUMENTS_H_
#define QKVET_TOOLS_BASE_ARGUMENTS_H_

#include <cstdint>
#include <optional>
#include <string>

namespace qkvet::tools {

// "60s", "2m", "90": seconds, more than 0. On failure *error is one line, which
// names the option.
std::optional<double> parse_budget(const std::string& text, std::string* error,
                                   const char* option = "--budget");

// A number, or "random". On failure *error is one line.
std::optional<uint64_t> parse_seed(const std::string& text, std::string* error);

// Threads: `jobs`, or one per core for 0.
int jobs_or_cores(int jobs);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_BASE_ARGUMENTS_H_

// SPDX-License-Identifier: Apache-2.0
// Words of the command line that several commands take.
#ifndef QKVET_CLI_BASE_ARGUMENTS_H_
#define QKVET_CLI_BASE_ARGUMENTS_H_

#include <cstdint>
#include <optional>
#include <string>

namespace qkvet::cli {

// Of --budget: "60s", "2m", "90" in seconds, more than 0. On failure *error is
// one line.
std::optional<double> parse_budget(const std::string& text, std::string* error);

// A number, or "random". On failure *error is one line.
std::optional<uint64_t> parse_seed(const std::string& text, std::string* error);

// Threads: `jobs`, or one per core for 0.
int jobs_or_cores(int jobs);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_BASE_ARGUMENTS_H_

// SPDX-License-Identifier: Apache-2.0
// What qkvet explain lists.
#ifndef QKVET_CLI_COMMANDS_LISTS_H_
#define QKVET_CLI_COMMANDS_LISTS_H_

#include <string>
#include <string_view>

#include "core/base/json.h"
#include "core/capability/kernel_info.h"
#include "report/exit_code.h"

namespace qkvet::cli {

// Words of ListOptions::what.
inline constexpr std::string_view kLists[] = {
    "kernels", "laws", "faults", "fuzz", "golden", "conventions"};

struct ListOptions {
  std::string what;  // one of kLists; "" for the first three
  bool json = false;
};
ExitCode show_lists(const ListOptions& options);
// `what` is a library, a source or a callable: lists its kernels with their
// declarations.
ExitCode list_library(const ListOptions& options);
// The beginning of a kernel's line, its origin and whether it can run.
Json kernel_line(const KernelInfo& info, const std::string& unavailable);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_COMMANDS_LISTS_H_

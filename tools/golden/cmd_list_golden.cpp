// SPDX-License-Identifier: Apache-2.0
// qkvet list golden: the sets that QKVet brings.
#include <fmt/core.h>

#include <cstdio>

#include "core/base/json.h"
#include "tools/golden/cmd_golden.h"
#include "tools/report/commands.h"

namespace qkvet::tools {

ExitCode run_list_golden(const ListOptions& options) {
  GoldenFolder folder;
  const std::string wrong = read_golden_folder(golden_folder(), &folder);
  if (!wrong.empty()) return wrong_use(wrong);
  size_t width = 0;
  for (const GoldenSet& set : folder.sets)
    width = std::max(width, set.name.size());
  if (!options.json) std::puts("golden sets");
  for (const GoldenSet& set : folder.sets) {
    if (!options.json) {
      fmt::print("  {:<{}}  {} ({}){}\n", set.name, width, set.pins, set.source,
                 set.finding.empty() ? "" : "; finding: " + set.finding);
      continue;
    }
    const Json line{{"type", "golden"},
                    {"name", set.name},
                    {"case", set.metadata.at("case")},
                    {"pins", set.pins},
                    {"source", set.source},
                    {"arithmetic", arithmetic_name(set.arithmetic)},
                    {"finding", set.finding}};
    std::puts(json_text(line).c_str());
  }
  return kConforms;
}

}  // namespace qkvet::tools

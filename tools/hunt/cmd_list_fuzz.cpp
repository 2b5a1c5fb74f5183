// SPDX-License-Identifier: Apache-2.0
// qkvet list fuzz: what `qkvet fuzz` can hunt.
#include <fmt/core.h>

#include <cstdio>

#include "core/base/json.h"
#include "fuzz/targets/target.h"
#include "tools/report/commands.h"

namespace qkvet::tools {

ExitCode run_list_fuzz(const ListOptions& options) {
  if (!options.json) std::puts("fuzz targets");
  for (const FuzzTarget* target : fuzz_targets()) {
    if (!options.json) {
      fmt::print("  {:<16} {}\n", target->name, target->sentence);
      continue;
    }
    Json line{{"type", "fuzz"},
              {"name", target->name},
              {"sentence", target->sentence}};
    line["laws"] = Json::array();
    if (target->about_kernels())
      for (const Law* law : laws_of(*target)) line["laws"].push_back(law->id);
    std::puts(json_text(line).c_str());
  }
  return kConforms;
}

}  // namespace qkvet::tools

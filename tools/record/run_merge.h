// SPDX-License-Identifier: Apache-2.0
// Records of shards made into that of one run.
#ifndef QKVET_TOOLS_RECORD_RUN_MERGE_H_
#define QKVET_TOOLS_RECORD_RUN_MERGE_H_

#include <optional>
#include <string>
#include <vector>

#include "tools/record/run_record.h"

namespace qkvet::tools {

// Every shard at most once, of one plan by one version; records that are merged
// already count as the shards that they hold. Counts are added, verdicts come
// of the sums by the rules of a run (cell_of()), failures with the same cause
// or case are one, the smallest. Which shards are missing stands in the record,
// which is no pass then. On failure *error is one line.
std::optional<RunRecord> merge_records(std::vector<RunRecord> parts,
                                       std::string* error);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_RECORD_RUN_MERGE_H_

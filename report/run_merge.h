// SPDX-License-Identifier: Apache-2.0
// Records of shards made into that of one run.
#ifndef QKVET_REPORT_RUN_MERGE_H_
#define QKVET_REPORT_RUN_MERGE_H_

#include <optional>
#include <string>
#include <vector>

#include "report/run_record.h"

namespace qkvet::report {

// Merges shards of one plan by one version, each at most once; a merged record
// counts as the shards in it. Counts are added, verdicts follow from the sums
// by the rules of a run (cell_of()), and failures with the same cause or case
// are merged into the smallest. The record lists the missing shards and is no
// pass if there are any. On failure *error is one line.
std::optional<RunRecord> merge_records(std::vector<RunRecord> parts,
                                       std::string* error);

}  // namespace qkvet::report

#endif  // QKVET_REPORT_RUN_MERGE_H_

// SPDX-License-Identifier: Apache-2.0
// The findings of `qkvet demo inspect`, and their output.
#ifndef QKVET_CLI_INSPECT_INSPECTION_H_
#define QKVET_CLI_INSPECT_INSPECTION_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/inspect/head_statistics.h"
#include "cli/inspect/stages.h"
#include "cli/kernels/kernel_view.h"
#include "cli/pictures/heat_map.h"

namespace qkvet::cli {

struct Inspection {
  Case value;
  uint32_t digest = 0;
  Focus focus;
  Movie movie;
  std::vector<int64_t> diagonals;  // [Tq], of the member
  std::string kernel;              // name, or "" for none
  std::optional<KernelView> view;  // with a kernel
  std::vector<int64_t> heads;      // that are shown as maps
  std::string why_these;           // "" if these are all heads
};

// Weights of the member, by the definition or by the kernel.
HeatMap expected_map(const Inspection& seen, int64_t head);
HeatMap actual_map(const Inspection& seen, int64_t head);
HeadStatistics statistics_of(const Inspection& seen, const HeatMap& map);

// Whether there are weights to show, and whether the kernel has some, too.
bool has_weights(const Inspection& seen);
bool has_kernel_weights(const Inspection& seen);

// The maps that are shown, reduced to `most` cells each way: a head each, or
// three a head with a kernel.
std::vector<HeatMap> shown_maps(const Inspection& seen,
                                int64_t most = kMostCells);

// One line a stage: shapes, ranges, values.
std::string movie_text(const std::vector<StageSummary>& stages);
// A text on judged stages: "agrees    error/bound 0.12", or the place of the
// difference.
std::string kernel_stages_text(const KernelView& view);
// How the call ended, if it returned no numbers.
std::string ended_text(const Judgement& judgement);
// The same as objects of JSON.
std::vector<nlohmann::ordered_json> kernel_stages_json(const KernelView& view);

std::string inspection_text(const Inspection& seen, Ink ink, size_t width);
// JSON Lines, schema 1.
std::string inspection_json(const Inspection& seen);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_INSPECT_INSPECTION_H_

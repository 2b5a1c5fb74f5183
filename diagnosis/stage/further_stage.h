// SPDX-License-Identifier: Apache-2.0
// The stage of failures that the probes of instead/stage.cpp leave open:
// failing cases are run again with V = 0, with a sink, and with scores that
// overflow, and stories that end their process.
#ifndef QKVET_DIAGNOSIS_STAGE_FURTHER_STAGE_H_
#define QKVET_DIAGNOSIS_STAGE_FURTHER_STAGE_H_

#include "diagnosis/instead/instead.h"

namespace qkvet::diagnosis {

// The most calls that are made for it.
inline constexpr int kMostStageCalls = 160;
// The seed of these cases, which no other search uses.
inline constexpr uint64_t kStageSeed = 0x5347;

// For a failure with an unknown stage in `instead`; kUnknown: still unknown.
// Adds the number of its calls to *calls. `parts`: its share of the time of a
// part of a diagnosis.
Stage look_further_for_stage(const Failure& failure, const FailsWhere& where,
                             const Instead& instead, const EvidencePool& pool,
                             int* calls, double parts = 1);

// --- for further_stage.cpp

// gradient_stage.cpp
Stage stage_of_gradients(const Failure& failure, const FailsWhere& where,
                         Witness& witness);
// dead_stories.cpp: for a cache with stories that end without an answer.
Stage stage_of_dead_stories(const Failure& failure, const FailsWhere& where,
                            Witness& witness);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_STAGE_FURTHER_STAGE_H_

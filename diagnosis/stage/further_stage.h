// SPDX-License-Identifier: Apache-2.0
// The stage of what the probes of instead/stage.cpp leave open: failing cases
// that are asked again with no values, with a sink, with scores that overflow,
// and stories that end their process.
#ifndef QKVET_DIAGNOSIS_STAGE_FURTHER_STAGE_H_
#define QKVET_DIAGNOSIS_STAGE_FURTHER_STAGE_H_

#include "diagnosis/instead/instead.h"

namespace qkvet::diagnosis {

// The most calls that are made for it.
inline constexpr int kMostStageCalls = 160;
// Of the cases that are asked, which no other search draws.
inline constexpr uint64_t kStageSeed = 0x5347;

// Of a failure whose stage `instead` does not know; kUnknown: nor does this.
// Adds the calls that it made to *calls. `parts`: of the time of a part of a
// diagnosis.
Stage look_further_for_stage(const Failure& failure, const FailsWhere& where,
                             const Instead& instead,
                             const KernelUnderTest& kernel, Executor& executor,
                             TimeUse& time, int* calls, double parts = 1);

// --- for further_stage.cpp

// gradient_stage.cpp: of gradients.
Stage stage_of_gradients(const Failure& failure, const FailsWhere& where,
                         const KernelUnderTest& kernel, Witness& witness);
// dead_stories.cpp
// Of a cache whose stories end without an answer.
Stage stage_of_dead_stories(const Failure& failure, const FailsWhere& where,
                            const KernelUnderTest& kernel, Witness& witness);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_STAGE_FURTHER_STAGE_H_

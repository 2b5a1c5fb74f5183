// SPDX-License-Identifier: Apache-2.0
// Which problems the faults of f32 attention show in and which not, and what
// they may name: the lists behind faults_test.cpp.
#ifndef QKVET_IMPL_TESTING_FAULTS_FAULT_PROBLEMS_H_
#define QKVET_IMPL_TESTING_FAULTS_FAULT_PROBLEMS_H_

#include <string>
#include <vector>

#include "impl/testing/family_fixture.h"

namespace qkvet::impl {

// Those that trigger() leaves alone: they lie in another member, a row in
// front, another call, more threads, another layout, other groups, odd extents,
// larger values or scores, or are too small to be seen without a bound. Or they
// leave their tensors: nobody catches that here, the process would die. The
// laws that they name find them.
bool needs_other_problem(const qkvet_kernel* kernel);

// Those that no extents and no mask keep quiet, or whose right twin is no
// skeleton.
bool is_never_harmless(const qkvet_kernel* kernel);

// Scores of several hundreds: only no_max_subtraction minds.
bool needs_large_scores(const qkvet_kernel* kernel);

// The kernel that a fault is when its hook is right.
const qkvet_kernel* skeleton_of(const qkvet_kernel* fault);

// A problem that every fault is triggered by: causal, several heads and
// widths, the scale left to the kernel, and scores beyond the range of exp.
Problem trigger();

// Outside of the trigger of `kernel`, everything else as in trigger().
Problem harmless(const std::string& name);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_TESTING_FAULTS_FAULT_PROBLEMS_H_

// SPDX-License-Identifier: Apache-2.0
// Calls that differ from a case in one respect, made for their after-effects:
// other data, another layout, other options or other values of them, more
// tokens or few. A case about a cache has stories instead.
#ifndef QKVET_PROPERTIES_CALLS_OTHER_CALLS_H_
#define QKVET_PROPERTIES_CALLS_OTHER_CALLS_H_

#include <optional>
#include <string>
#include <vector>

#include "properties/judging/law.h"

namespace qkvet::properties {

// The meaning of each of these calls.
inline constexpr const char* kOtherShapes[] = {
    "more queries and keys", "few queries and keys", "still more of both"};

// A larger call, a small one and a still larger one. The two larger ones leave
// different data, so the case differs after one of them whatever was there
// before. Empty for a case with data from a file, which has no further rows. A
// kernel may refuse them.
std::vector<PlannedCall> calls_of_other_shapes(const Case& value,
                                               const KernelInfo& kernel,
                                               Operation operation);

// The name of a kind of step: "the case in another layout".
const char* step_name(CallStepKind kind);

// The case of a step of the kind, as the kernel takes it; nullopt if the case,
// or the kernel, has no such call. It differs from the case only in the respect
// that the kind names: for several values of options, in one.
std::optional<Case> other_case(const Case& value, const KernelInfo& kernel,
                               CallStepKind kind);

// The call of such a case. Its answer is not judged, and the kernel may refuse
// it.
std::optional<PlannedCall> other_call(const Case& value,
                                      const KernelInfo& kernel,
                                      CallStepKind kind);

// A few kinds of call that a case of the subject has, which the seed picks.
std::vector<CallStepKind> kinds_before(const Case& value,
                                       const KernelInfo& kernel, size_t most);

// Whether the first of these is the first call of a process, in which a kernel
// compiles, and the call before it has another case. Processes cost more than
// calls, so only for half of the cases, and for those with options.
bool begins_anew(const Case& value, const KernelInfo& kernel);

// The call, in most cases alone in a new process, and then, in another process,
// after a call of each of a few kinds: calls 0, 2, 4 and so on must be the
// same. If the kernel is not deterministic, each needs its truth.
Plan plan_calls_before(const Case& value, const KernelInfo& kernel);
// A result that is right before a call and wrong after it depends on that call.
Judgement judge_calls_before(const JudgeInput& input);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_OTHER_CALLS_H_

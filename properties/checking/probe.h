// SPDX-License-Identifier: Apache-2.0
// Finds undeclared conventions for which a wrong guess would fail a kernel: by
// tiny calls. They are used, and printed as assumptions.
#ifndef QKVET_PROPERTIES_CHECKING_PROBE_H_
#define QKVET_PROPERTIES_CHECKING_PROBE_H_

#include <vector>

#include "core/door/executor.h"
#include "properties/judging/judged_kernel.h"

namespace qkvet::properties {

// Fills undeclared fields of info.dialect that matter for the options that the
// kernel declares (for caches the second and the third): the base of lse,
// whether a softcap is before the bias, whether a sink counts in lse, and o and
// lse of a row without a key, by each reason for having none. A field for which
// the probes find no clear answer stays undeclared. `pace`, if not null: that
// of the kernel; 0 if it cannot be called.
std::vector<Assumption> probe_dialect(Executor& executor, int kernel,
                                      KernelInfo& info, Pace* pace = nullptr);

// A case of the smallest widths that the kernel takes, with at least this many
// rows and keys, q = k = 0; f32 if no storage can be judged.
Case smallest_case(const KernelInfo& info, int64_t Tq, int64_t Tk);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CHECKING_PROBE_H_

// SPDX-License-Identifier: Apache-2.0
// The time of one call of several kernels in turns, beside the limits of the
// core that they run on: products with addition, and a plain loop over as many
// bytes.
#ifndef QKVET_CLI_BENCH_BENCH_CALL_H_
#define QKVET_CLI_BENCH_BENCH_CALL_H_

#include <string>
#include <vector>

#include "cli/base/growth.h"
#include "core/case/case.h"
#include "core/door/executor.h"

namespace qkvet::cli {

// Multiplications and additions of the definition, at the pairs that a causal
// mask leaves; exponentials do not count. A gradient has five products for the
// two of the forward pass; a layer has its projections, too.
double operations_of(const Case& value);
// Bytes of the tensors without which there is no output: q, k and v, or x and
// the matrices.
double bytes_of(const Case& value);

// Operations a second of this core, and with which instructions.
double peak_operations();
const char* peak_instructions();

// Keeps this process, and all that it starts, on its present core.
void stay_on_this_core();

struct TimedKernel {
  std::string name;
  Executor* executor;
  int kernel;
  Spread seconds = {};
  std::string error = {};  // one line instead of times
  bool died = false;
};
struct TimedCall {
  Spread peak;  // operations a second
  Spread loop;  // seconds of a plain loop over bytes_of()
};
// Every kernel once in each round, after one call that does not count.
TimedCall time_call(const Case& value, int rounds,
                    std::vector<TimedKernel>& kernels);

// "noise", or how many times as fast: each median is outside of the other's
// range below its median, because a busy machine only adds time.
std::string compared(const Spread& before, const Spread& now);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_BENCH_BENCH_CALL_H_

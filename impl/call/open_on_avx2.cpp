// SPDX-License-Identifier: Apache-2.0
// Baseline code: on a CPU without AVX2 and FMA, it is the only code of a family
// built with them that runs.
#include "impl/call/open_on_avx2.h"

#include <stdlib.h>
#include <string.h>

#include "impl/call/tensor_view.h"

namespace qkvet::impl {
namespace {

// QKVET_CPU=baseline makes every family behave as on a CPU without extensions.
bool cpu_is_forced_to_baseline() {
  const char* const forced = getenv("QKVET_CPU");
  return forced != nullptr && strcmp(forced, "baseline") == 0;
}

}  // namespace

qkvet_status open_on_avx2(const qkvet_kernel*, const qkvet_exec*,
                          qkvet_context** context, qkvet_text* why) {
  *context = nullptr;
  return cpu_is_forced_to_baseline() || !__builtin_cpu_supports("avx2") ||
                 !__builtin_cpu_supports("fma")
             ? refuse(why, QKVET_UNAVAILABLE,
                      "needs AVX2 and FMA, which this CPU does not have")
             : QKVET_OK;
}

void close_on_avx2(const qkvet_kernel*, qkvet_context*) {}

}  // namespace qkvet::impl

// SPDX-License-Identifier: Apache-2.0
// For tests of what a kernel must declare for a call.
#ifndef QKVET_CORE_TESTING_CAPABILITY_CALLS_H_
#define QKVET_CORE_TESTING_CAPABILITY_CALLS_H_

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "core/capability/capability.h"

namespace qkvet {

inline constexpr std::byte kData[1] = {};
inline constexpr uint64_t kAllOptions = ~uint64_t{0};
using Change = std::function<void(KernelCall&)>;

// Allowed by a kernel that declares only a default scale.
inline KernelCall plain_call() {
  KernelCall call;
  call.shape = {1, 2, 2, 8, 8, 16, 16};
  call.q = call.k = call.v = kData;
  return call;
}

inline KernelInfo plain_kernel() {
  KernelInfo kernel;
  kernel.capabilities.options = QKVET_OPTION_DEFAULT_SCALE;
  return kernel;
}

// The reason against the call; "" if it is allowed.
inline std::string reason_of(const KernelInfo& kernel, const KernelCall& call) {
  std::string why;
  const bool allowed = capability_allows(kernel, call, &why);
  EXPECT_EQ(allowed, why.empty());
  return why;
}

inline std::string reason(const Change& change, uint64_t more_options = 0) {
  KernelCall call = plain_call();
  KernelInfo kernel = plain_kernel();
  kernel.capabilities.options |= more_options;
  change(call);
  return reason_of(kernel, call);
}

// The plain call with a change, of a kernel with these options beside.
struct CapabilityRow {
  Change change;
  uint64_t options;
  std::string why;
};
inline void expect_reasons(const std::vector<CapabilityRow>& rows) {
  for (const CapabilityRow& row : rows)
    EXPECT_EQ(reason(row.change, row.options), row.why);
}

// Each call needs its option and no other.
struct OptionRowOfCall {
  Change change;
  uint64_t option;
  std::string what;
};
inline void expect_needed(const std::vector<OptionRowOfCall>& rows) {
  for (const OptionRowOfCall& row : rows) {
    EXPECT_EQ(reason(row.change), row.what + " is not declared");
    EXPECT_EQ(reason(row.change, row.option), "");
    EXPECT_NE(reason(row.change, ~row.option), "");
  }
}

}  // namespace qkvet

#endif  // QKVET_CORE_TESTING_CAPABILITY_CALLS_H_

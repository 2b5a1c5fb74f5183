// SPDX-License-Identifier: Apache-2.0
// Converts a call of half storage for a kernel that supports f32 alone. The
// numbers are the same: every half is exact in f32.
#ifndef QKVET_DIAGNOSIS_IN_F32_H_
#define QKVET_DIAGNOSIS_IN_F32_H_

#include <span>
#include <vector>

#include "core/base/floors.h"
#include "core/call/call.h"
#include "core/capability/kernel_info.h"

namespace qkvet::diagnosis {

class CallsInF32 {
 public:
  // `kernel` is the one for which the calls were planned.
  CallsInF32(std::span<const KernelCall> calls, const KernelInfo& kernel);
  CallsInF32(const CallsInF32&) = delete;
  CallsInF32& operator=(const CallsInF32&) = delete;

  std::vector<KernelCall>& calls() { return calls_; }

 private:
  void convert(const KernelCall& from, const KernelInfo& kernel,
               KernelCall& to);

  std::vector<KernelCall> calls_;
  std::vector<std::vector<float>> numbers_;  // what the calls point to
};

// Whether the tensors of a call are of half storage, all or some of them.
bool is_half(const KernelCall& call);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_IN_F32_H_

// SPDX-License-Identifier: Apache-2.0
// A call in the words of the ABI.
#ifndef QKVET_CORE_ABI_CALL_H_
#define QKVET_CORE_ABI_CALL_H_

#include "core/arena.h"
#include "core/call_plan.h"
#include "qkvet/kernel.h"

namespace qkvet {

// The arguments point into this object.
class AbiCall {
 public:
  AbiCall(const CallPlan& plan, const TensorAddresses& addresses);
  AbiCall(const AbiCall&) = delete;
  AbiCall& operator=(const AbiCall&) = delete;

  const qkvet_forward_args& args() const { return args_; }

 private:
  qkvet_tensor tensor(const TensorSpec& spec, std::byte* data, int number);

  int64_t shapes_[kTensorCount][4] = {};
  int64_t strides_[kTensorCount][4] = {};
  qkvet_forward_args args_{};
};

// One thread on the CPU, no workspace.
qkvet_exec plain_exec();

// What this program offers to libraries.
const qkvet_host& host_table();

// "UNSUPPORTED", or "status 77".
std::string status_name(qkvet_status status);

}  // namespace qkvet

#endif  // QKVET_CORE_ABI_CALL_H_

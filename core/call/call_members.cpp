// SPDX-License-Identifier: Apache-2.0
// Which member of a call or an outcome holds a tensor.
#include "core/call/call.h"

namespace qkvet {

std::vector<std::byte> CallOutcome::*output_member(TensorName output) {
  static constexpr std::vector<std::byte> CallOutcome::*kMembers[] = {
#define QKVET_OUTPUT(name, member, ...) &CallOutcome::member,
#include "core/call/tensors.def"
  };
  return kMembers[static_cast<size_t>(output) - kInputCount];
}

const std::byte* KernelCall::*input_member(TensorName tensor) {
  static constexpr const std::byte* KernelCall::*kMembers[] = {
#define QKVET_INPUT(name, member, ...) &KernelCall::member,
#include "core/call/tensors.def"
  };
  return kMembers[static_cast<size_t>(tensor)];
}

}  // namespace qkvet

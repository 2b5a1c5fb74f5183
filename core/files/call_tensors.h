// SPDX-License-Identifier: Apache-2.0
// The tensors of a call as files have them: which there are, in what order, how
// they are called, in which type and extents. Golden sets, plans and
// reproducers all have them from here, and all of it follows from
// core/call/tensor_table.h and the plan of the call.
#ifndef QKVET_CORE_FILES_CALL_TENSORS_H_
#define QKVET_CORE_FILES_CALL_TENSORS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/door/call_plan.h"
#include "core/files/named_tensors.h"

namespace qkvet {

struct CallTensor {
  TensorName tensor = TensorName::kQ;
  std::string name;    // in the arguments of its operation: "q", "d_q"
  NamedTensor values;  // in the extents that they have of their own
  TensorSpec spec;     // in the call: strides, 0 where it is broadcast
  int64_t start = 0;   // its address modulo 64
};

// "q", ..., "cu_seqlens_q": what the arguments of the operation call it.
std::string abi_name(Operation operation, TensorName tensor);

// The inputs, in the order of the table. Elements that only a mistake added are
// NaN.
std::vector<CallTensor> call_inputs(const KernelCall& call,
                                    const CallPlan& plan);
// Inputs that have no element, and no data in the call.
std::vector<CallTensor> empty_inputs(const KernelCall& call,
                                     const CallPlan& plan);
// The outputs, in the order of the table, without numbers.
std::vector<CallTensor> call_outputs(const CallPlan& plan);

// The bytes from the first element of the tensor to its last, with the call's
// strides; the gaps are NaN.
std::vector<std::byte> memory_of(const CallTensor& tensor);

// The name of an output in a file of a recorded call: "o"; "o.3" is the output
// of command 3 of a story, from 0.
struct OutputName {
  TensorName tensor = TensorName::kO;
  int64_t command = -1;  // -1: no story
};
std::optional<OutputName> parse_output_name(std::string_view name);
std::string output_text(const OutputName& name);

// The inputs in files of recorded calls: "q", "k", ..., "slopes".
std::optional<TensorName> recorded_input(std::string_view name);
// Outputs: o, lse, weights, y; of commands o and lse.
std::vector<TensorName> recorded_outputs(bool of_commands);
// "q k v ... slopes; o lse weights y, o.N lse.N"
std::string recorded_names();

}  // namespace qkvet

#endif  // QKVET_CORE_FILES_CALL_TENSORS_H_

// SPDX-License-Identifier: Apache-2.0
// The calls of a plan as data: each distinct call once for all laws, and each
// distinct tensor once for all calls.
#ifndef QKVET_CLI_REPRODUCE_PLAN_CALLS_H_
#define QKVET_CLI_REPRODUCE_PLAN_CALLS_H_

#include <map>
#include <string>
#include <vector>

#include "cli/reproduce/call_folder.h"
#include "core/door/executor.h"
#include "core/files/call_tensors.h"
#include "properties/checking/case_work.h"

namespace qkvet::cli {

// Contains no data: values of inputs are `stored` of PlanCalls::stored(), those
// of outputs are unknown.
struct PlanTensor : CallTensor {
  size_t stored = 0;
};

struct PlanScalar {
  std::string name;
  std::string text;
  bool is_word = false;  // no number
};

struct PlanCall {
  std::vector<PlanScalar> scalars;
  std::vector<PlanTensor> inputs;
  std::vector<PlanTensor> outputs;  // requested by some law
  // The digest of everything except the outputs, 16 hex digits (FNV-1a, 64
  // bits): calls with the same digest are one.
  std::string digest;
};

// "t/0012", the same without an ending for every format
std::string plan_tensor_name(size_t stored);

// "" or why the call cannot be written to a file.
std::string plan_call_of(const KernelCall& call, const KernelInfo& kernel,
                         PlanCall* out);

class PlanCalls {
 public:
  // Adds the calls of the law for the case, and returns their numbers. "" or
  // why there are none; then nothing is added.
  std::string add_case(const Law& law, const Case& value,
                       const JudgedKernel& kernel,
                       std::vector<size_t>* numbers);
  // Adds the probes of undeclared fields, and sets some declaration of them in
  // `kernel`, so that no law is dropped before they are known.
  std::vector<size_t> add_probes(JudgedKernel* kernel);

  const std::vector<PlanCall>& calls() const { return calls_; }
  // The values of inputs.
  const std::vector<NamedTensor>& stored() const { return stored_; }
  // The number of a call, or calls().size().
  size_t find(const std::string& digest) const;

 private:
  class Probed;
  size_t add(PlanCall call);
  size_t store(PlanTensor& input);

  std::vector<PlanCall> calls_;
  std::vector<NamedTensor> stored_;
  std::multimap<uint64_t, size_t> stored_by_hash_;
  std::map<std::string, size_t> numbers_;  // by digest
};

}  // namespace qkvet::cli

#endif  // QKVET_CLI_REPRODUCE_PLAN_CALLS_H_

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>

#include "diagnosis/in_f32.h"
#include "diagnosis/suspect.h"

namespace qkvet {
namespace {

std::string without_family(const std::string& name) {
  return name.substr(name.find('/') + 1);
}

bool takes(const KernelInfo& kernel, const KernelCall& call) {
  for (int i = 0; i < kernel.capabilities.dtype_count; ++i) {
    const qkvet_dtype_rule& rule = kernel.capabilities.dtypes[i];
    const auto is = [](const qkvet_dtype& declared, Dtype dtype) {
      return dtype_from_abi(declared) == dtype;
    };
    if (is(rule.q, call.q_dtype) && is(rule.kv, call.kv_dtype) &&
        is(rule.o, call.o_dtype))
      return true;
  }
  return false;
}

}  // namespace

std::string sentence(const std::string& text) {
  if (text.empty()) return text;
  std::string out = text;
  out[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(out[0])));
  return out.back() == '.' ? out : out + ".";
}

FaultSuspect::FaultSuspect(JudgedKernel fault, int index, Executor& executor,
                           std::string variant)
    : fault_(std::move(fault)),
      index_(index),
      executor_(&executor),
      name_(without_family(fault_.info.name)),
      cause_(sentence(fault_.info.fault->mechanism)),
      fix_(sentence(fault_.info.fault->fix)) {
  if (!variant.empty()) name_ += " (" + variant + ")";
}

bool FaultSuspect::converts(const std::vector<KernelCall>& calls) const {
  return std::any_of(calls.begin(), calls.end(), [&](const KernelCall& call) {
    return is_half(call) && !takes(fault_.info, call);
  });
}

std::vector<CallOutcome> FaultSuspect::predict(const Evidence& evidence,
                                               const Witness& witness) {
  const auto ask = [&](std::vector<KernelCall>& calls) {
    for (KernelCall& call : calls) {
      call.want_lse &= wants_lse(fault_.info);
      call.want_weights &= wants_weights(fault_.info);
      call.want_stages = false;
    }
    const Stopwatch watch(witness.time().kernel);
    return executor_->run(index_, calls);
  };
  if (converts(evidence.calls)) {
    CallsInF32 converted(evidence.calls, witness.kernel().info);
    return ask(converted.calls());
  }
  std::vector<KernelCall> calls = evidence.calls;
  return ask(calls);
}

Word FaultSuspect::says(Evidence& evidence, const Witness& witness) {
  return compare_answers(evidence, witness.kernel(), fault_,
                         predict(evidence, witness), converts(evidence.calls));
}

}  // namespace qkvet

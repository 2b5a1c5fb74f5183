// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect/attention_calls.h"

#include <cstring>

namespace qkvet::cli {
namespace {

const std::byte* bytes_of(const std::vector<float>& numbers) {
  return reinterpret_cast<const std::byte*>(numbers.data());
}

std::vector<float> floats_of(const std::vector<std::byte>& bytes) {
  std::vector<float> numbers(bytes.size() / sizeof(float));
  // An output that is not wanted has no address.
  if (!numbers.empty())
    std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(float));
  return numbers;
}

KernelCall call_of(Operation operation, const Shape& shape, bool causal,
                   const HeadNumbers& heads) {
  KernelCall call;
  call.operation = operation;
  call.shape = shape;
  call.causal = causal ? Causal::kTopLeft : Causal::kNone;
  call.q = bytes_of(heads.q);
  call.k = bytes_of(heads.k);
  call.v = bytes_of(heads.v);
  return call;
}

}  // namespace

bool AttentionCalls::done(const CallOutcome& outcome) {
  if (outcome.status == CallStatus::kDone) return true;
  const std::string name =
      executor_.kernels()[static_cast<size_t>(kernel_)].name;
  error_ = name + ": " +
           (outcome.text.empty() ? "the call did not end well" : outcome.text);
  return false;
}

bool AttentionCalls::forward(const Shape& shape, bool causal, bool want_weights,
                             HeadNumbers* heads) {
  KernelCall call = call_of(Operation::kForward, shape, causal, *heads);
  call.want_lse = true;
  call.want_weights = want_weights;
  const CallOutcome outcome = executor_.run(kernel_, {&call, 1})[0];
  if (!done(outcome)) return false;
  heads->o = floats_of(outcome.o);
  heads->lse = floats_of(outcome.lse);
  heads->weights = floats_of(outcome.weights);
  return true;
}

bool AttentionCalls::backward(const Shape& shape, bool causal,
                              const HeadNumbers& heads,
                              const std::vector<float>& d_o,
                              HeadGradients* gradients) {
  KernelCall call = call_of(Operation::kBackward, shape, causal, heads);
  call.d_o = bytes_of(d_o);
  call.given_o = bytes_of(heads.o);
  call.given_lse = bytes_of(heads.lse);
  const CallOutcome outcome = executor_.run(kernel_, {&call, 1})[0];
  if (!done(outcome)) return false;
  gradients->q = floats_of(outcome.d_q);
  gradients->k = floats_of(outcome.d_k);
  gradients->v = floats_of(outcome.d_v);
  return true;
}

}  // namespace qkvet::cli

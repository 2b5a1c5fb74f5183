// SPDX-License-Identifier: Apache-2.0
// Attention and its gradient by a kernel, for programs that compute with the
// numbers: causal or not, f32, the default scale.
#ifndef QKVET_CLI_INSPECT_ATTENTION_CALLS_H_
#define QKVET_CLI_INSPECT_ATTENTION_CALLS_H_

#include <string>
#include <vector>

#include "core/door/executor.h"

namespace qkvet::cli {

// All [B,H,T,d], lse [B,H,T], weights [B,H,T,T].
struct HeadNumbers {
  std::vector<float> q, k, v;
  std::vector<float> o, lse, weights;
};
struct HeadGradients {
  std::vector<float> q, k, v;
};

class AttentionCalls {
 public:
  // Kernel `kernel` of an executor that outlives this.
  AttentionCalls(Executor& executor, int kernel)
      : executor_(executor), kernel_(kernel) {}

  // Fills o and lse, and weights if wanted. False with error() if the kernel
  // does not return them.
  bool forward(const Shape& shape, bool causal, bool want_weights,
               HeadNumbers* heads);
  // After forward(): d_o [B,H,T,d].
  bool backward(const Shape& shape, bool causal, const HeadNumbers& heads,
                const std::vector<float>& d_o, HeadGradients* gradients);

  const std::string& error() const { return error_; }

 private:
  bool done(const CallOutcome& outcome);

  Executor& executor_;
  int kernel_;
  std::string error_;
};

}  // namespace qkvet::cli

#endif  // QKVET_CLI_INSPECT_ATTENTION_CALLS_H_

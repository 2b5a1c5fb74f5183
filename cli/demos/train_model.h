// SPDX-License-Identifier: Apache-2.0
// The smallest language model that shows the purpose of a causal mask:
// embeddings of tokens and positions, one layer of multi-head attention,
// logits. No residual path leads around attention, so all learning happens in
// it.
//
//   x = E[id] + P[position]                       [B,T,D]
//   y = attention(x W_Q, x W_K, x W_V) W_O        [B,T,D]
//   logits = y U + b                              [B,T,V]
//
// Attention and its gradient are a kernel's; all other gradients are here.
// Updated by Adam (Kingma and Ba 2015, algorithm 1).
#ifndef QKVET_CLI_DEMOS_TRAIN_MODEL_H_
#define QKVET_CLI_DEMOS_TRAIN_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/inspect/attention_calls.h"

namespace qkvet::cli {

struct TrainShape {
  int64_t vocabulary = 64;
  int64_t D = 32;
  int64_t H = 4;
  int64_t T = 12;  // the longest context

  int64_t d() const { return D / H; }
};

// A matrix [rows,columns] that is learned, its gradient and Adam's two moments.
struct Learned {
  Learned(int64_t rows, int64_t columns, double size, uint64_t seed,
          uint32_t number);
  int64_t rows, columns;
  std::vector<float> value, gradient, mean, square;
};

class TrainModel {
 public:
  // Numbers of the model are a function of the seed.
  TrainModel(const TrainShape& shape, bool causal, uint64_t seed,
             AttentionCalls& attention);

  // One step on rows of tokens [B,T], each of which is to predict the next one,
  // targets [B,T]. Returns the mean of -ln p(target) before the step; nullopt
  // with attention's error if the kernel fails.
  std::optional<double> step(const std::vector<int>& ids,
                             const std::vector<int>& targets, double rate);
  // The same without learning.
  std::optional<double> loss(const std::vector<int>& ids,
                             const std::vector<int>& targets);
  // The likeliest next token of each row of [B,t], t at most T.
  std::optional<std::vector<int>> next(const std::vector<int>& ids, int64_t t);
  // Weights [H,T,T] of one row of T tokens.
  std::optional<std::vector<float>> weights(const std::vector<int>& ids);

  // All that is learned, in the order E, P, W_Q, W_K, W_V, W_O, U, b: tests
  // nudge it.
  std::vector<Learned>& learned() { return learned_; }
  // The gradient of loss() is left in learned().
  std::optional<double> gradients(const std::vector<int>& ids,
                                  const std::vector<int>& targets);

 private:
  enum : size_t { kE, kP, kWq, kWk, kWv, kWo, kU, kB };
  struct Pass;
  bool forward(const std::vector<int>& ids, int64_t t, bool want_weights,
               Pass* pass);
  double cross_entropy(const Pass& pass, const std::vector<int>& targets,
                       std::vector<float>* d_logits) const;
  bool backward(const std::vector<int>& ids, const Pass& pass,
                const std::vector<float>& d_logits);

  TrainShape shape_;
  bool causal_;
  AttentionCalls& attention_;
  std::vector<Learned> learned_;
  int64_t steps_ = 0;
};

}  // namespace qkvet::cli

#endif  // QKVET_CLI_DEMOS_TRAIN_MODEL_H_

// SPDX-License-Identifier: Apache-2.0
// A small GPT (Radford et al., "Language Models are Unsupervised Multitask
// Learners", 2019, section 2.3): embeddings, blocks of norm, causal attention,
// norm and feed-forward, each with a residual, a norm, and logits by the token
// embedding. Weights are drawn: only the shapes and the position of attention
// matter here.
#ifndef QKVET_CLI_DEMOS_GPT_H_
#define QKVET_CLI_DEMOS_GPT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/inspect/stages.h"
#include "cli/kernels/kernel_view.h"
#include "cli/kernels/kernels.h"

namespace qkvet::cli {

struct Gpt {
  int64_t layers = 2;
  int64_t heads = 4;
  int64_t width = 32;    // D
  int64_t context = 12;  // positions that have embeddings
  int64_t vocab = 64;    // V
  uint64_t seed = 1;
  int64_t B = 1, T = 12;
  std::vector<int64_t> tokens = {};  // [B,T]

  int64_t d() const { return width / heads; }
};

// Token embeddings [V,D] (the logits use them, too), positions [context,D]; a
// block: four matrices and biases of attention, D -> 4D -> D with biases, two
// norms of 2D; the last norm.
int64_t parameters_of(const Gpt& gpt);
// For one pass over B sequences of T tokens: two per multiply-add of the matrix
// products, over all pairs of tokens, including hidden ones.
double flops_of(const Gpt& gpt);
// 2 x layers x heads x d x tokens x B x 4 bytes of f32.
int64_t cache_bytes_of(const Gpt& gpt, int64_t tokens);

// An intermediate tensor.
struct GptStage {
  int64_t block = -1;    // 0, 1, ...; -1: outside of blocks
  StageSummary summary;  // without numbers if too much would be computed
  int64_t bytes = 0;     // of f32; token ids of int64
};

// The walk without its numbers, of a model of any size: of the blocks only the
// first, for all are alike.
std::vector<GptStage> gpt_shapes(const Gpt& gpt);

// A kernel that replaces attention.
struct GptKernel {
  const KernelUnderTest& kernel;
  Executor& executor;
};

struct GptRun {
  std::vector<GptStage> stages;
  std::vector<double> logits;     // [B,T,V]
  std::vector<KernelView> views;  // one a block, with a kernel
};

// The largest model that is computed with.
inline constexpr int64_t kMostParameters = int64_t{1} << 24;
inline constexpr double kMostFlops = 1 << 30;
inline constexpr int64_t kMostPairs = int64_t{1} << 24;  // B H T T

// Every stage in double, stored in f32. A kernel that keeps a layer is called
// with x, others with q, k and v. The walk continues with the kernel's answer,
// and ends after the first block without one.
GptRun run_gpt(const Gpt& gpt, const GptKernel* kernel);

// "" or why the numbers are not computed.
std::string too_much_for(const Gpt& gpt);

std::string gpt_text(const Gpt& gpt, const std::vector<GptStage>& stages,
                     const std::vector<KernelView>& views,
                     const std::string& kernel);
// JSON Lines, schema 1.
std::string gpt_json(const Gpt& gpt, const std::vector<GptStage>& stages,
                     const std::vector<KernelView>& views,
                     const std::string& kernel);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_DEMOS_GPT_H_

// SPDX-License-Identifier: Apache-2.0
// The stages of gpt.cpp without numbers: written once more, so that they cost
// nothing at any size; a test compares the two.
#include <fmt/core.h>

#include <functional>
#include <numeric>

#include "cli/demos/gpt.h"

namespace qkvet::cli {
namespace {

class Shapes {
 public:
  explicit Shapes(const Gpt& gpt) : gpt_(gpt) {}

  std::vector<GptStage> all() {
    const int64_t D = gpt_.width, V = gpt_.vocab;
    add("tokens", "ids", {gpt_.B, gpt_.T}, sizeof(int64_t));
    rows("token", fmt::format("row of [{},{}]", V, D), D);
    rows("position", fmt::format("row of [{},{}]", gpt_.context, D), D);
    rows("x", "token + position", D);
    block_ = 0;
    rows("norm", "mean 0, variance 1", D);
    attention();
    rows("x", "x + y", D);
    rows("norm", "mean 0, variance 1", D);
    rows("wide", fmt::format("norm W_1 [{},{}]", D, 4 * D), 4 * D);
    rows("gelu", "", 4 * D);
    rows("back", fmt::format("gelu W_2 [{},{}]", 4 * D, D), D);
    rows("x", "x + back", D);
    block_ = -1;
    rows("norm", "", D);
    rows("logits", fmt::format("norm E^T [{},{}]", D, V), V);
    return std::move(stages_);
  }

 private:
  void attention() {
    const int64_t D = gpt_.width, H = gpt_.heads, T = gpt_.T;
    for (const char* name : {"q", "k", "v"})
      rows(name,
           fmt::format("norm W_{} [{},{}]",
                       static_cast<char>(*name - 'a' + 'A'), D, D),
           D);
    for (const char* name : {"q", "k", "v"})
      add(name, fmt::format("split into {} head{}", H, H == 1 ? "" : "s"),
          {gpt_.B, H, T, gpt_.d()});
    const std::vector<int64_t> pairs = {gpt_.B, H, T, T};
    add("scores", "q k^T", pairs);
    add("scaled",
        fmt::format("scores / sqrt(d) = scores x {:.6g}",
                    default_scale(gpt_.d())),
        pairs);
    if (T > 1)
      add("masked",
          fmt::format("-inf at {} of {} pairs", gpt_.B * H * (T * (T - 1) / 2),
                      gpt_.B * H * T * T),
          pairs);
    add("weights", "softmax over the keys", pairs);
    add("attended", "weights v", {gpt_.B, H, T, gpt_.d()});
    rows("merged", "heads side by side", D);
    rows("y", fmt::format("merged W_O [{},{}]", D, D), D);
  }

  void rows(const char* name, std::string how, int64_t width) {
    add(name, std::move(how), {gpt_.B, gpt_.T, width});
  }
  void add(const char* name, std::string how, std::vector<int64_t> shape,
           int64_t bytes_each = sizeof(float)) {
    GptStage stage;
    stage.block = block_;
    stage.summary.name = name;
    stage.summary.how = std::move(how);
    stage.summary.elements = std::accumulate(shape.begin(), shape.end(),
                                             int64_t{1}, std::multiplies<>());
    stage.summary.shape = std::move(shape);
    stage.bytes = stage.summary.elements * bytes_each;
    stages_.push_back(std::move(stage));
  }

  const Gpt& gpt_;
  int64_t block_ = -1;
  std::vector<GptStage> stages_;
};

}  // namespace

std::vector<GptStage> gpt_shapes(const Gpt& gpt) { return Shapes(gpt).all(); }

}  // namespace qkvet::cli

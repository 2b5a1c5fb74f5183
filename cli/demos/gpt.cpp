// SPDX-License-Identifier: Apache-2.0
#include "cli/demos/gpt.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/demos/kv_memory.h"
#include "core/base/half.h"
#include "core/case/recipe.h"
#include "reference/layer/layer.h"

namespace qkvet::cli {
namespace {

using Values = std::vector<double>;

Values stored(Values values) {
  for (double& value : values) value = round_to(Dtype::kF32, value);
  return values;
}

// The weights: a tensor of the generator and a number, so that no two are
// equal.
enum class Part : uint8_t { kToken, kPosition, kQ, kK, kV, kO, kWide, kBack };

// Ba, Kiros, Hinton, "Layer Normalization" (2016), gain 1, shift 0.
Values normed(const Values& x, int64_t width) {
  constexpr double kEpsilon = 1e-5;  // as GPT-2 has it
  Values out(x.size());
  for (size_t from = 0; from < x.size(); from += static_cast<size_t>(width)) {
    double sum = 0, squares = 0;
    const auto n = static_cast<double>(width);
    for (size_t c = from; c < from + static_cast<size_t>(width); ++c)
      sum += x[c];
    for (size_t c = from; c < from + static_cast<size_t>(width); ++c)
      squares += (x[c] - sum / n) * (x[c] - sum / n);
    for (size_t c = from; c < from + static_cast<size_t>(width); ++c)
      out[c] = (x[c] - sum / n) / std::sqrt(squares / n + kEpsilon);
  }
  return stored(std::move(out));
}

// Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016).
Values gelu(Values x) {
  for (double& value : x) value *= 0.5 * (1 + std::erf(value / std::sqrt(2.0)));
  return stored(std::move(x));
}

Values sum_of(const Values& a, const Values& b) {
  Values out(a);
  for (size_t n = 0; n < out.size(); ++n) out[n] += b[n];
  return stored(std::move(out));
}

// Without `computes` all values are empty, and only the first block is shown.
class Walk {
 public:
  Walk(const Gpt& gpt, const GptKernel* kernel, bool computes)
      : gpt_(gpt), kernel_(kernel), computes_(computes) {}

  GptRun run() {
    embed();
    for (block_ = 0; block_ < (computes_ ? gpt_.layers : 1); ++block_)
      if (!one_block()) return std::move(run_);
    block_ = -1;
    const Values last = normed(x_, gpt_.width);
    show("norm", "", rows_of(gpt_.width), last);
    logits(last);
    return std::move(run_);
  }

 private:
  std::vector<int64_t> rows_of(int64_t width) const {
    return {gpt_.B, gpt_.T, width};
  }
  void show(const char* name, std::string how, std::vector<int64_t> shape,
            const Values& values, int64_t bytes_each = sizeof(float)) {
    const int64_t row = last_row(shape, {});
    add(summary_of(name, std::move(how), std::move(shape), values, row),
        bytes_each);
  }
  void add(StageSummary summary, int64_t bytes_each = sizeof(float)) {
    const int64_t bytes = summary.elements * bytes_each;
    run_.stages.push_back({block_, std::move(summary), bytes});
  }

  // [rows,columns], row r drawn as row r of its tensor.
  Values drawn(Part part, int64_t rows, int64_t columns, double factor) const {
    if (!computes_) return {};
    Values out(static_cast<size_t>(rows * columns));
    for (int64_t r = 0; r < rows; ++r) {
      const std::span<double> row(out.data() + r * columns,
                                  static_cast<size_t>(columns));
      recipe_row({}, gpt_.seed, TensorName::kWq, std::max<int64_t>(block_, 0),
                 static_cast<int64_t>(part), r, row);
      for (double& value : row) value *= factor;
    }
    return stored(std::move(out));
  }
  Values matrix(Part part, int64_t in, int64_t out) const {
    return drawn(part, in, out, 1 / std::sqrt(static_cast<double>(in)));
  }
  // [B,T,in] times a matrix [in,out].
  Values product(const Values& x, const Values& matrix, int64_t in,
                 int64_t out) const {
    if (!computes_) return {};
    return stored(plain_linear(
        {gpt_.B * gpt_.T, in, out, x.data(), matrix.data(), nullptr}));
  }

  void embed() {
    block_ = -1;
    const std::vector<int64_t> ids =
        computes_ ? gpt_.tokens : std::vector<int64_t>();
    show("tokens", "ids", {gpt_.B, gpt_.T}, Values(ids.begin(), ids.end()),
         sizeof(int64_t));
    constexpr double kHalf = 0.5;
    embeddings_ = drawn(Part::kToken, gpt_.vocab, gpt_.width, kHalf);
    const Values positions = drawn(Part::kPosition, gpt_.T, gpt_.width, kHalf);
    Values token, position;
    for (size_t n = 0; n < ids.size(); ++n) {
      const auto at = [&](const Values& table, int64_t row) {
        return table.begin() + row * gpt_.width;
      };
      const auto t = static_cast<int64_t>(n) % gpt_.T;
      token.insert(token.end(), at(embeddings_, ids[n]),
                   at(embeddings_, ids[n] + 1));
      position.insert(position.end(), at(positions, t), at(positions, t + 1));
    }
    show("token", fmt::format("row of [{},{}]", gpt_.vocab, gpt_.width),
         rows_of(gpt_.width), token);
    show("position", fmt::format("row of [{},{}]", gpt_.context, gpt_.width),
         rows_of(gpt_.width), position);
    x_ = sum_of(token, position);
    show("x", "token + position", rows_of(gpt_.width), x_);
  }

  LayerProblem problem() const {
    LayerProblem problem;
    problem.shape = {gpt_.B, gpt_.heads, gpt_.heads, gpt_.T,
                     gpt_.T, gpt_.d(),   gpt_.d(),   gpt_.width};
    problem.causal = Causal::kBottomRight;
    problem.scale = default_scale(gpt_.d());
    problem.x = normed_.data();
    problem.w_q = matrices_[0].data();
    problem.w_k = matrices_[1].data();
    problem.w_v = matrices_[2].data();
    problem.w_o = matrices_[3].data();
    return problem;
  }

  // Both count alike from T queries to T keys, and one token has no future.
  Causal causal_rule() const {
    if (gpt_.T == 1) return Causal::kNone;
    return kernel_->kernel.judged.info.has_option(
               QKVET_OPTION_CAUSAL_BOTTOM_RIGHT)
               ? Causal::kBottomRight
               : Causal::kTopLeft;
  }

  // The y of the kernel; empty if it returned none.
  Values kernel_layer() {
    const Case value =
        *parse_case(fmt::format("f32,B{},H{},T{},D{},causal", gpt_.B,
                                gpt_.heads, gpt_.T, gpt_.width))
             .value;
    Inputs inputs = make_inputs(value);
    inputs.x = normed_;
    for (size_t n = 0; n < matrices_.size(); ++n)
      inputs.values(kLayerInputs[n + 1]) = matrices_[n];
    store_inputs(value, inputs);
    return viewed(value, inputs);
  }
  // q, k and v by the definition, o by the kernel, W_O by the definition.
  Values kernel_attention() {
    const LayerProblem layer = problem();
    const LayerOutput known = plain_layer(layer);
    Case value;
    value.shape = layer.shape;
    value.shape.D = 0;
    value.causal = causal_rule();
    Inputs inputs = make_inputs(value);
    inputs.q = known.q;
    inputs.k = known.k;
    inputs.v = known.v;
    store_inputs(value, inputs);
    Values o = viewed(value, inputs);
    if (o.empty()) return o;
    const Values merged = merge_heads(layer.shape, o);
    return plain_linear(projection_stage(layer, Projection::kO, merged.data()));
  }
  Values viewed(const Case& value, const Inputs& inputs) {
    run_.views.push_back(view_kernel(value, inputs, kernel_->kernel.judged,
                                     kernel_->executor, kernel_->kernel.index,
                                     /*member=*/0, AskForWeights::kNo));
    return run_.views.back().ended ? Values{} : run_.views.back().output;
  }

  // The stages of layer_movie().
  void show_attention() {
    const int64_t D = gpt_.width, H = gpt_.heads, T = gpt_.T;
    for (const char* name : {"q", "k", "v"})
      show(name,
           fmt::format("norm W_{} [{},{}]",
                       static_cast<char>(*name - 'a' + 'A'), D, D),
           rows_of(D), {});
    const std::vector<int64_t> heads = {gpt_.B, H, T, gpt_.d()};
    for (const char* name : {"q", "k", "v"})
      show(name, fmt::format("split into {} head{}", H, H == 1 ? "" : "s"),
           heads, {});
    const std::vector<int64_t> pairs = {gpt_.B, H, T, T};
    show("scores", "q k^T", pairs, {});
    show("scaled",
         fmt::format("scores / sqrt(d) = scores x {:.6g}",
                     default_scale(gpt_.d())),
         pairs, {});
    if (T > 1)
      show("masked",
           fmt::format("-inf at {} of {} pairs", gpt_.B * H * (T * (T - 1) / 2),
                       gpt_.B * H * T * T),
           pairs, {});
    show("weights", "softmax over the keys", pairs, {});
    show("attended", "weights v", heads, {});
    show("merged", "heads side by side", rows_of(D), {});
    show("y", fmt::format("merged W_O [{},{}]", D, D), rows_of(D), {});
  }

  // False if there is no y.
  bool attend(Values* y) {
    if (!computes_) {
      show_attention();
      return true;
    }
    Movie movie = layer_movie(problem(), /*unbatched=*/false, {}, "norm");
    // Its x is the norm, which is shown already.
    for (size_t n = 1; n + 1 < movie.stages.size(); ++n)
      add(std::move(movie.stages[n]));
    *y = std::move(movie.y);
    std::string how = std::move(movie.stages.back().how);
    if (kernel_ != nullptr) {
      *y = kernel_->kernel.judged.info.has_layer ? kernel_layer()
                                                 : kernel_attention();
      if (y->empty()) return false;
      how += ", attention by the kernel";
    }
    *y = stored(std::move(*y));
    show("y", std::move(how), rows_of(gpt_.width), *y);
    return true;
  }

  bool one_block() {
    const int64_t D = gpt_.width;
    normed_ = normed(x_, D);
    show("norm", "mean 0, variance 1", rows_of(D), normed_);
    matrices_.clear();
    for (const Part part : {Part::kQ, Part::kK, Part::kV, Part::kO})
      matrices_.push_back(matrix(part, D, D));
    Values y;
    if (!attend(&y)) return false;
    x_ = sum_of(x_, y);
    show("x", "x + y", rows_of(D), x_);
    const Values in = normed(x_, D);
    show("norm", "mean 0, variance 1", rows_of(D), in);
    Values wide = product(in, matrix(Part::kWide, D, 4 * D), D, 4 * D);
    show("wide", fmt::format("norm W_1 [{},{}]", D, 4 * D), rows_of(4 * D),
         wide);
    wide = gelu(std::move(wide));
    show("gelu", "", rows_of(4 * D), wide);
    const Values back = product(wide, matrix(Part::kBack, 4 * D, D), 4 * D, D);
    show("back", fmt::format("gelu W_2 [{},{}]", 4 * D, D), rows_of(D), back);
    x_ = sum_of(x_, back);
    show("x", "x + back", rows_of(D), x_);
    return true;
  }

  // By the token embedding, transposed.
  void logits(const Values& last) {
    Values w(embeddings_.size());
    for (int64_t token = 0; computes_ && token < gpt_.vocab; ++token)
      for (int64_t c = 0; c < gpt_.width; ++c)
        w[static_cast<size_t>(c * gpt_.vocab + token)] =
            embeddings_[static_cast<size_t>(token * gpt_.width + c)];
    run_.logits = product(last, w, gpt_.width, gpt_.vocab);
    show("logits", fmt::format("norm E^T [{},{}]", gpt_.width, gpt_.vocab),
         rows_of(gpt_.vocab), run_.logits);
  }

  const Gpt& gpt_;
  const GptKernel* kernel_;
  const bool computes_;
  GptRun run_;
  int64_t block_ = -1;
  Values embeddings_;             // [V,D]
  Values x_;                      // [B,T,D]
  Values normed_;                 // [B,T,D], the input of attention
  std::vector<Values> matrices_;  // W_Q, W_K, W_V, W_O
};

}  // namespace

int64_t parameters_of(const Gpt& gpt) {
  const int64_t D = gpt.width;
  return (gpt.vocab + gpt.context) * D + gpt.layers * (12 * D * D + 13 * D) +
         2 * D;
}

double flops_of(const Gpt& gpt) {
  const auto B = static_cast<double>(gpt.B), T = static_cast<double>(gpt.T);
  const auto D = static_cast<double>(gpt.width);
  return static_cast<double>(gpt.layers) *
             (24 * B * T * D * D + 4 * B * T * T * D) +
         2 * B * T * D * static_cast<double>(gpt.vocab);
}

int64_t cache_bytes_of(const Gpt& gpt, int64_t tokens) {
  return *kv_bytes(
      {gpt.layers, gpt.heads, gpt.d(), tokens, gpt.B, Dtype::kF32});
}

std::string too_much_for(const Gpt& gpt) {
  if (const int64_t count = parameters_of(gpt); count > kMostParameters)
    return fmt::format("{} parameters: at most {} are computed with", count,
                       kMostParameters);
  if (const double flops = flops_of(gpt); flops > kMostFlops)
    return fmt::format("{:.3g} operations: at most {:.3g} are done", flops,
                       kMostFlops);
  const int64_t pairs = gpt.B * gpt.heads * gpt.T * gpt.T;
  return pairs <= kMostPairs
             ? ""
             : fmt::format("{} weights: at most {} are computed", pairs,
                           kMostPairs);
}

GptRun run_gpt(const Gpt& gpt, const GptKernel* kernel) {
  return Walk(gpt, kernel, /*computes=*/true).run();
}

std::vector<GptStage> gpt_shapes(const Gpt& gpt) {
  return Walk(gpt, nullptr, /*computes=*/false).run().stages;
}

}  // namespace qkvet::cli

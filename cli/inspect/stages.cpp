// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect/stages.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "reference/options/rope.h"
#include "report/lines.h"

namespace qkvet::cli {
namespace {

constexpr int64_t kShownValues = 4;
constexpr double kHidden = -std::numeric_limits<double>::infinity();

// "scores / sqrt(8)", or the caller's number.
std::string scale_text(const Problem& problem) {
  const std::string number = fmt::format("{:.6g}", problem.scale);
  return problem.scale_given
             ? "scores x " + number + ", given"
             : fmt::format("scores / sqrt(d) = scores x {}", number);
}

// Every pair of query and key, [B,H,Tq,Tk], from one function of its place.
template <class Function>
std::vector<double> over_pairs(const Shape& s, Function function) {
  std::vector<double> out(static_cast<size_t>(s.weights_elements()));
  size_t n = 0;
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.H; ++h)
      for (int64_t i = 0; i < s.Tq; ++i)
        for (int64_t j = 0; j < s.Tk; ++j, ++n) out[n] = function(b, h, i, j);
  return out;
}

double dot(const Problem& problem, int64_t b, int64_t h, int64_t i, int64_t j) {
  const Shape& s = problem.shape;
  const double* q = problem.q + ((b * s.H + h) * s.Tq + i) * s.d;
  const double* k = problem.k + ((b * s.Hkv + h / s.group()) * s.Tk + j) * s.d;
  return std::inner_product(q, q + s.d, k, 0.0);
}

class Scores {
 public:
  // `problem` has no rotation any more.
  Scores(const Problem& problem, const OracleOutput& oracle, const Focus& focus,
         std::vector<StageSummary>& stages)
      : problem_(problem), oracle_(oracle), focus_(focus), stages_(stages) {}

  void add() {
    const Shape& s = problem_.shape;
    scores_ = over_pairs(s, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
      return dot(problem_, b, h, i, j);
    });
    show("scores", "q k^T");
    for (double& score : scores_) score *= problem_.scale;
    show("scaled", scale_text(problem_));
    if (!problem_.softcap_after_bias) cap();
    bias();
    if (problem_.softcap_after_bias) cap();
    mask();
    weights();
  }

 private:
  void show(const char* name, std::string how) {
    show(name, std::move(how), scores_);
  }
  void show(const char* name, std::string how,
            const std::vector<double>& values) {
    const Shape& s = problem_.shape;
    const std::vector<int64_t> shape = {s.B, s.H, s.Tq, s.Tk};
    stages_.push_back(summary_of(name, std::move(how), shape, values,
                                 last_row(shape, focus_)));
  }
  void cap() {
    const double c = problem_.softcap;
    if (!(c > 0)) return;
    for (double& score : scores_) score = c * std::tanh(score / c);
    show("capped", fmt::format("{0:.6g} tanh(scores / {0:.6g})", c));
  }
  void bias() {
    if (problem_.bias == nullptr && problem_.slopes == nullptr) return;
    const Shape& s = problem_.shape;
    size_t n = 0;
    const std::vector<double> added =
        over_pairs(s, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
          double sum = problem_.bias != nullptr ? problem_.bias[n] : 0;
          if (problem_.slopes != nullptr)
            sum -= slope_of(problem_, b, h, i) *
                   std::fabs(static_cast<double>(distance(b, i, j)));
          ++n;
          return sum;
        });
    for (n = 0; n < scores_.size(); ++n) scores_[n] += added[n];
    show("biased", problem_.slopes == nullptr ? "+ bias"
                   : problem_.bias == nullptr ? "- slope |i - j| (ALiBi)"
                                              : "+ bias - slope |i - j|");
  }
  // ALiBi: from key j to the diagonal, counted within the row's member.
  int64_t distance(int64_t b, int64_t i, int64_t j) const {
    const Shape& s = problem_.shape;
    int64_t Lq = problem_.q_len != nullptr ? problem_.q_len[b] : s.Tq;
    int64_t Lk = problem_.kv_len != nullptr ? problem_.kv_len[b] : s.Tk;
    for (int64_t m = 0; m < problem_.members; ++m)
      if (i >= problem_.cu_q[m] && i < problem_.cu_q[m + 1]) {
        Lq = problem_.cu_q[m + 1] - problem_.cu_q[m];
        Lk = problem_.cu_k[m + 1] - problem_.cu_k[m];
        i -= problem_.cu_q[m];
        j -= problem_.cu_k[m];
        break;
      }
    const int64_t own = problem_.causal == Causal::kTopLeft ? i : i + Lk - Lq;
    return own - j;
  }
  void mask() {
    int64_t hidden = 0;
    for (size_t n = 0; n < scores_.size(); ++n)
      if (oracle_.sees[n] == 0) {
        scores_[n] = kHidden;
        ++hidden;
      }
    if (hidden == 0) return;
    show("masked",
         fmt::format("-inf at {} of {} pairs", hidden, scores_.size()));
  }
  void weights() {
    show("weights",
         problem_.sink != nullptr ? "softmax over the keys and a sink"
                                  : "softmax over the keys",
         oracle_.weights);
  }

  const Problem& problem_;
  const OracleOutput& oracle_;
  const Focus& focus_;
  std::vector<StageSummary>& stages_;
  std::vector<double> scores_;  // [B,H,Tq,Tk]
};

std::vector<double> copied(const double* values, int64_t count) {
  return {values, values + count};
}

std::string group_text(const Shape& s) {
  return s.group() == 1 ? "" : fmt::format(", head h reads h / {}", s.group());
}

}  // namespace

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", joined(shape, ","));
}

int64_t last_row(const std::vector<int64_t>& shape, const Focus& focus) {
  const size_t rank = shape.size();
  const int64_t rows = rank > 1 ? shape[rank - 2] : 1;
  const int64_t heads = rank > 3 ? shape[1] : 1;
  const int64_t member = rank > 2 ? focus.member : 0;
  const int64_t head = rank > 3 ? focus.head : 0;
  return (member * heads + head) * rows + rows - 1;
}

StageSummary summary_of(std::string name, std::string how,
                        std::vector<int64_t> shape,
                        const std::vector<double>& values, int64_t row) {
  StageSummary out;
  out.name = std::move(name);
  out.how = std::move(how);
  out.elements = std::accumulate(shape.begin(), shape.end(), int64_t{1},
                                 std::multiplies<>());
  bool any = false;
  for (const double value : values) {
    if (std::isnan(value)) {
      ++out.nan;
    } else if (value == kHidden) {
      ++out.hidden;
    } else {
      out.least = any ? std::min(out.least, value) : value;
      out.most = any ? std::max(out.most, value) : value;
      any = true;
    }
  }
  const int64_t width = shape.empty() ? 0 : shape.back();
  for (int64_t c = 0; c < std::min(width, kShownValues); ++c)
    if (const int64_t n = row * width + c; n >= 0 && n < std::ssize(values))
      out.values.push_back(values[static_cast<size_t>(n)]);
  out.shape = std::move(shape);
  return out;
}

Movie layer_movie(const LayerProblem& problem, bool unbatched,
                  const Focus& focus, const char* input) {
  const Shape& s = problem.shape;
  Movie movie;
  const auto show = [&](const char* name, std::string how,
                        std::vector<int64_t> shape,
                        const std::vector<double>& values) {
    if (unbatched && shape.size() == 3) shape.erase(shape.begin());
    const int64_t row = last_row(shape, focus);
    movie.stages.push_back(
        summary_of(name, std::move(how), std::move(shape), values, row));
  };
  const auto how_projected = [&](const char* from, const char* matrix,
                                 int64_t in, int64_t out, const double* bias) {
    return fmt::format("{} {} [{},{}]{}", from, matrix, in, out,
                       bias != nullptr ? " + b" : "");
  };
  show(input, "", {s.B, s.Tq, s.D}, copied(problem.x, s.B * s.Tq * s.D));
  const LayerOutput out = plain_layer(problem);
  const bool turns = problem.rotation.style != RopeStyle::kNone;
  const struct {
    const char *name, *matrix;
    Projection which;
    int64_t heads, width;
    const double* bias;
    const std::vector<double>& done;
    bool turned;
  } rows[] = {
      {"q", "W_Q", Projection::kQ, s.H, s.d, problem.b_q, out.q, turns},
      {"k", "W_K", Projection::kK, s.Hkv, s.d, problem.b_k, out.k, turns},
      {"v", "W_V", Projection::kV, s.Hkv, s.dv, problem.b_v, out.v, false}};
  for (const auto& row : rows)
    show(row.name,
         how_projected(input, row.matrix, s.D, row.heads * row.width, row.bias),
         {s.B, s.Tq, row.heads * row.width},
         plain_linear(projection_stage(problem, row.which, problem.x)));
  for (const auto& row : rows)
    show(row.name,
         fmt::format("split into {} head{}{}", row.heads,
                     row.heads == 1 ? "" : "s",
                     row.turned ? ", turned by its position" : ""),
         {s.B, row.heads, s.Tq, row.width}, row.done);
  const Problem attention =
      attention_stage(problem, out.q.data(), out.k.data(), out.v.data());
  Scores(attention, out.attended, focus, movie.stages).add();
  show("attended", "weights v" + group_text(s), {s.B, s.H, s.Tq, s.dv},
       out.attended.o);
  show("merged", "heads side by side", {s.B, s.Tq, s.H * s.dv},
       merge_heads(s, out.attended.o));
  show("y", how_projected("merged", "W_O", s.H * s.dv, s.D, problem.b_o),
       {s.B, s.Tq, s.D}, out.y);
  movie.attended = out.attended;
  movie.y = out.y;
  return movie;
}

Movie attention_movie(const Problem& problem, const Focus& focus) {
  const Shape& s = problem.shape;
  Movie movie;
  movie.attended = plain_forward(problem);
  const auto show = [&](const char* name, std::string how,
                        std::vector<int64_t> shape,
                        const std::vector<double>& values) {
    const int64_t row = last_row(shape, focus);
    movie.stages.push_back(
        summary_of(name, std::move(how), std::move(shape), values, row));
  };
  show("q", "", {s.B, s.H, s.Tq, s.d}, copied(problem.q, s.q_elements()));
  show("k", "", {s.B, s.Hkv, s.Tk, s.d}, copied(problem.k, s.k_elements()));
  show("v", "", {s.B, s.Hkv, s.Tk, s.dv}, copied(problem.v, s.v_elements()));
  Problem plain = problem;
  RotatedProblem turned;
  if (problem.rotation.style != RopeStyle::kNone) {
    turned = rotated(problem);
    plain = turned.problem;
    show("q", "turned by its position", {s.B, s.H, s.Tq, s.d}, turned.q);
    show("k", "turned by its position", {s.B, s.Hkv, s.Tk, s.d}, turned.k);
  }
  Scores(plain, movie.attended, focus, movie.stages).add();
  movie.stages.push_back(summary_of("lse", "log of the sum of exp(scores)",
                                    {s.B, s.H, s.Tq}, movie.attended.lse,
                                    focus.member * s.H + focus.head));
  show("o", "weights v" + group_text(s), {s.B, s.H, s.Tq, s.dv},
       movie.attended.o);
  return movie;
}

}  // namespace qkvet::cli

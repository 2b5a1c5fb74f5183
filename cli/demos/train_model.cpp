// SPDX-License-Identifier: Apache-2.0
#include "cli/demos/train_model.h"

#include <algorithm>
#include <cmath>

#include "core/base/philox.h"

namespace qkvet::cli {
namespace {

constexpr float kMeanDecay = 0.9F;
constexpr float kSquareDecay = 0.99F;
constexpr double kLeastRoot = 1e-8;
constexpr double kEmbeddingSize = 0.3;

// Mean 0, variance 1: a sum of four uniforms.
double drawn(uint64_t seed, uint32_t number, uint32_t element) {
  constexpr double kRootOfThree = 1.7320508075688772;
  double sum = -2;
  for (uint32_t part = 0; part < 4; ++part)
    sum += static_cast<double>(philox_u64(seed, number, element, part) >> 11) *
           0x1p-53;
  return sum * kRootOfThree;
}

// to [n,columns] = from [n,rows] times matrix [rows,columns].
std::vector<float> product(const std::vector<float>& from,
                           const Learned& matrix) {
  const auto n = static_cast<int64_t>(from.size()) / matrix.rows;
  std::vector<float> to(static_cast<size_t>(n * matrix.columns), 0.0F);
  for (int64_t r = 0; r < n; ++r)
    for (int64_t i = 0; i < matrix.rows; ++i) {
      const float x = from[static_cast<size_t>(r * matrix.rows + i)];
      const float* const w =
          &matrix.value[static_cast<size_t>(i * matrix.columns)];
      float* const out = &to[static_cast<size_t>(r * matrix.columns)];
      for (int64_t j = 0; j < matrix.columns; ++j) out[j] += x * w[j];
    }
  return to;
}

// The gradient of a product: adds to that of the matrix and, if `d_from` is
// there, to that of the other factor.
void product_gradient(const std::vector<float>& from,
                      const std::vector<float>& d_to, Learned& matrix,
                      std::vector<float>* d_from) {
  const auto n = static_cast<int64_t>(from.size()) / matrix.rows;
  for (int64_t r = 0; r < n; ++r)
    for (int64_t i = 0; i < matrix.rows; ++i) {
      const auto at = static_cast<size_t>(r * matrix.rows + i);
      const auto row = static_cast<size_t>(i * matrix.columns);
      const float* const d = &d_to[static_cast<size_t>(r * matrix.columns)];
      float sum = 0;
      for (int64_t j = 0; j < matrix.columns; ++j) {
        matrix.gradient[row + static_cast<size_t>(j)] += from[at] * d[j];
        sum += d[j] * matrix.value[row + static_cast<size_t>(j)];
      }
      if (d_from != nullptr) (*d_from)[at] += sum;
    }
}

// [B,t,H d] to [B,H,t,d], and back.
std::vector<float> split(const std::vector<float>& rows, int64_t t, int64_t H,
                         int64_t d, bool back) {
  std::vector<float> out(rows.size());
  const auto B = static_cast<int64_t>(rows.size()) / (t * H * d);
  for (int64_t b = 0; b < B; ++b)
    for (int64_t i = 0; i < t; ++i)
      for (int64_t h = 0; h < H; ++h)
        for (int64_t c = 0; c < d; ++c) {
          const auto merged =
              static_cast<size_t>(((b * t + i) * H + h) * d + c);
          const auto heads = static_cast<size_t>(((b * H + h) * t + i) * d + c);
          out[back ? merged : heads] = rows[back ? heads : merged];
        }
  return out;
}

}  // namespace

Learned::Learned(int64_t rows_, int64_t columns_, double size, uint64_t seed,
                 uint32_t number)
    : rows(rows_), columns(columns_) {
  const auto elements = static_cast<size_t>(rows * columns);
  value.resize(elements);
  for (size_t i = 0; i < elements; ++i)
    value[i] = static_cast<float>(
        size * drawn(seed, number, static_cast<uint32_t>(i)));
  gradient.assign(elements, 0.0F);
  mean = square = gradient;
}

struct TrainModel::Pass {
  int64_t t = 0;
  Shape heads_shape;
  std::vector<float> x, merged, y, logits;
  HeadNumbers heads;
};

TrainModel::TrainModel(const TrainShape& shape, bool causal, uint64_t seed,
                       AttentionCalls& attention)
    : shape_(shape), causal_(causal), attention_(attention) {
  const int64_t D = shape.D, V = shape.vocabulary;
  const double even = 1 / std::sqrt(static_cast<double>(D));
  const struct {
    int64_t rows, columns;
    double size;
  } rows[] = {{V, D, kEmbeddingSize}, {shape.T, D, kEmbeddingSize},
              {D, D, even},           {D, D, even},
              {D, D, even},           {D, D, even},
              {D, V, even},           {1, V, 0}};
  for (uint32_t n = 0; const auto& row : rows)
    learned_.emplace_back(row.rows, row.columns, row.size, seed, n++);
}

bool TrainModel::forward(const std::vector<int>& ids, int64_t t,
                         bool want_weights, Pass* pass) {
  const int64_t D = shape_.D, V = shape_.vocabulary;
  pass->t = t;
  pass->x.resize(ids.size() * static_cast<size_t>(D));
  for (size_t n = 0; n < ids.size(); ++n)
    for (int64_t c = 0; c < D; ++c)
      pass->x[n * static_cast<size_t>(D) + static_cast<size_t>(c)] =
          learned_[kE].value[static_cast<size_t>(ids[n] * D + c)] +
          learned_[kP]
              .value[static_cast<size_t>(static_cast<int64_t>(n) % t * D + c)];
  Shape& heads = pass->heads_shape;
  heads.B = static_cast<int64_t>(ids.size()) / t;
  heads.H = heads.Hkv = shape_.H;
  heads.Tq = heads.Tk = t;
  heads.d = heads.dv = shape_.d();
  const auto project = [&](size_t which) {
    return split(product(pass->x, learned_[which]), t, shape_.H, shape_.d(),
                 false);
  };
  pass->heads.q = project(kWq);
  pass->heads.k = project(kWk);
  pass->heads.v = project(kWv);
  if (!attention_.forward(heads, causal_, want_weights, &pass->heads))
    return false;
  pass->merged = split(pass->heads.o, t, shape_.H, shape_.d(), true);
  pass->y = product(pass->merged, learned_[kWo]);
  pass->logits = product(pass->y, learned_[kU]);
  for (size_t n = 0; n < pass->logits.size(); ++n)
    pass->logits[n] += learned_[kB].value[n % static_cast<size_t>(V)];
  return true;
}

// softmax(logits) - one_hot(target), over the number of rows.
double TrainModel::cross_entropy(const Pass& pass,
                                 const std::vector<int>& targets,
                                 std::vector<float>* d_logits) const {
  const auto V = static_cast<size_t>(shape_.vocabulary);
  const auto rows = static_cast<double>(targets.size());
  double loss = 0;
  if (d_logits != nullptr) d_logits->resize(pass.logits.size());
  for (size_t r = 0; r < targets.size(); ++r) {
    const float* const row = &pass.logits[r * V];
    const double top = *std::max_element(row, row + V);
    double sum = 0;
    for (size_t j = 0; j < V; ++j) sum += std::exp(row[j] - top);
    const auto target = static_cast<size_t>(targets[r]);
    loss += top + std::log(sum) - row[target];
    for (size_t j = 0; d_logits != nullptr && j < V; ++j)
      (*d_logits)[r * V + j] = static_cast<float>(
          (std::exp(row[j] - top) / sum - (j == target ? 1 : 0)) / rows);
  }
  return loss / rows;
}

bool TrainModel::backward(const std::vector<int>& ids, const Pass& pass,
                          const std::vector<float>& d_logits) {
  const int64_t D = shape_.D;
  const auto V = static_cast<size_t>(shape_.vocabulary);
  for (size_t n = 0; n < d_logits.size(); ++n)
    learned_[kB].gradient[n % V] += d_logits[n];
  std::vector<float> d_y(pass.y.size()), d_merged(pass.merged.size());
  product_gradient(pass.y, d_logits, learned_[kU], &d_y);
  product_gradient(pass.merged, d_y, learned_[kWo], &d_merged);
  HeadGradients d;
  const auto d_o = split(d_merged, pass.t, shape_.H, shape_.d(), false);
  if (!attention_.backward(pass.heads_shape, causal_, pass.heads, d_o, &d))
    return false;
  std::vector<float> d_x(pass.x.size());
  const std::vector<float>* const parts[] = {&d.q, &d.k, &d.v};
  for (size_t n = 0; n < 3; ++n)
    product_gradient(pass.x,
                     split(*parts[n], pass.t, shape_.H, shape_.d(), true),
                     learned_[kWq + n], &d_x);
  for (size_t n = 0; n < ids.size(); ++n)
    for (int64_t c = 0; c < D; ++c) {
      const float g = d_x[n * static_cast<size_t>(D) + static_cast<size_t>(c)];
      learned_[kE].gradient[static_cast<size_t>(ids[n] * D + c)] += g;
      learned_[kP].gradient[static_cast<size_t>(
          static_cast<int64_t>(n) % pass.t * D + c)] += g;
    }
  return true;
}

std::optional<double> TrainModel::gradients(const std::vector<int>& ids,
                                            const std::vector<int>& targets) {
  for (Learned& one : learned_)
    std::fill(one.gradient.begin(), one.gradient.end(), 0.0F);
  Pass pass;
  std::vector<float> d_logits;
  if (!forward(ids, shape_.T, false, &pass)) return std::nullopt;
  const double loss = cross_entropy(pass, targets, &d_logits);
  if (!backward(ids, pass, d_logits)) return std::nullopt;
  return loss;
}

std::optional<double> TrainModel::step(const std::vector<int>& ids,
                                       const std::vector<int>& targets,
                                       double rate) {
  const std::optional<double> loss = gradients(ids, targets);
  if (!loss) return loss;
  ++steps_;
  const double mean_part = 1 - std::pow(kMeanDecay, steps_);
  const double square_part = 1 - std::pow(kSquareDecay, steps_);
  for (Learned& one : learned_)
    for (size_t i = 0; i < one.value.size(); ++i) {
      const float g = one.gradient[i];
      one.mean[i] += (1 - kMeanDecay) * (g - one.mean[i]);
      one.square[i] += (1 - kSquareDecay) * (g * g - one.square[i]);
      const double root = std::sqrt(one.square[i] / square_part) + kLeastRoot;
      one.value[i] -= static_cast<float>(rate * one.mean[i] / mean_part / root);
    }
  return loss;
}

std::optional<double> TrainModel::loss(const std::vector<int>& ids,
                                       const std::vector<int>& targets) {
  Pass pass;
  if (!forward(ids, shape_.T, false, &pass)) return std::nullopt;
  return cross_entropy(pass, targets, nullptr);
}

std::optional<std::vector<int>> TrainModel::next(const std::vector<int>& ids,
                                                 int64_t t) {
  Pass pass;
  if (!forward(ids, t, false, &pass)) return std::nullopt;
  const auto V = static_cast<size_t>(shape_.vocabulary);
  std::vector<int> likeliest;
  for (auto row = static_cast<size_t>(t - 1); row < ids.size();
       row += static_cast<size_t>(t)) {
    const float* const logits = &pass.logits[row * V];
    likeliest.push_back(
        static_cast<int>(std::max_element(logits, logits + V) - logits));
  }
  return likeliest;
}

std::optional<std::vector<float>> TrainModel::weights(
    const std::vector<int>& ids) {
  Pass pass;
  if (!forward(ids, shape_.T, true, &pass)) return std::nullopt;
  return pass.heads.weights;
}

}  // namespace qkvet::cli

// SPDX-License-Identifier: Apache-2.0
// Descriptions of scores that are computed from the right ones by another
// formula: a cap, a bias or a slope that is applied in another way.
#include <algorithm>
#include <cmath>

#include "core/base/half.h"
#include "diagnosis/instead/reading.h"
#include "reference/attention/plain_rope.h"

namespace qkvet::diagnosis {

void turn_first(Problem& p, Room& room) {
  if (p.rotation.style == RopeStyle::kNone) return;
  room.has_own_scores = true;
  auto q = plain_rotate<PlainRopeHooks>(p.rotation, query_rows(p));
  auto k = plain_rotate<PlainRopeHooks>(p.rotation, key_rows(p));
  p.q = room.keep(std::move(q));
  p.k = room.keep(std::move(k));
  p.rotation = {};
}

namespace {

// 1/x instead of x, in k or v.
void add_quotients(Readings& rows) {
  const auto turned = [](const double* from, int64_t n, Room& room) {
    return room.changed(from, n, [](double x) { return 1 / x; });
  };
  rows.push_back({"the result of q / k instead of q k", Stage::kScores,
                  [turned](Problem& p, Room& room) {
                    turn_first(p, room);
                    p.k = turned(p.k, p.shape.k_elements(), room);
                  }});
  rows.push_back({"the result of weights divided by V, not multiplied with it",
                  Stage::kValues, [turned](Problem& p, Room& room) {
                    p.v = turned(p.v, p.shape.v_elements(), room);
                  }});
}

// One pair of a query and a key.
struct ScoredPair {
  double scaled;    // scale q k
  double bias;      // 0 without one
  double slope;     // 0 without them
  double i, j;      // numbers of row and key
  double position;  // of the row among the keys
  double cap;       // 0 without one
  double scale;
};
double capped_score(const ScoredPair& x) {
  return x.cap > 0 ? x.cap * std::tanh(x.scaled / x.cap) : x.scaled;
}
double less_slope(const ScoredPair& x, double score) {
  return score - x.slope * std::fabs(x.position - x.j);
}
// The score with another distance from the row's position.
double score_at(const ScoredPair& x, double distance) {
  return capped_score(x) + x.bias - x.slope * distance;
}
// A score summed from `first` instead of 0.
double score_begun_at(ScoredPair x, double first) {
  x.scaled += first * x.scale;
  return less_slope(x, capped_score(x) + x.bias);
}
using ScoreFormula = double (*)(const ScoredPair& x);

// The position of row i of member b among its keys, and their number; in a
// packed batch, among those of its sequence.
struct Placed {
  int64_t i, j, position, keys;
};
Placed place_of_pair(const Problem& p, int64_t b, int64_t i, int64_t j) {
  int64_t queries = p.q_len != nullptr ? p.q_len[b] : p.shape.Tq;
  int64_t keys = p.kv_len != nullptr ? p.kv_len[b] : p.shape.Tk;
  for (int64_t m = 0; m < p.members; ++m) {
    if (i < p.cu_q[m] || i >= p.cu_q[m + 1]) continue;
    queries = p.cu_q[m + 1] - p.cu_q[m];
    keys = p.cu_k[m + 1] - p.cu_k[m];
    i -= p.cu_q[m];
    j -= p.cu_k[m];
    break;
  }
  const int64_t diagonal = p.causal == Causal::kTopLeft ? 0 : keys - queries;
  return {i, j, i + diagonal, keys};
}

double dot_of_pair(const Problem& p, int64_t b, int64_t h, int64_t i,
                   int64_t j) {
  const Shape& s = p.shape;
  const double* q = p.q + ((b * s.H + h) * s.Tq + i) * s.d;
  const double* k = p.k + ((b * s.Hkv + h / (s.H / s.Hkv)) * s.Tk + j) * s.d;
  double dot = 0;
  for (int64_t c = 0; c < s.d; ++c) dot += q[c] * k[c];
  return dot;
}

// `is_added`: the formula applies to the terms added to q k; q k itself stays.
void use_scores(Problem& p, Room& room, ScoreFormula formula, bool is_added) {
  if (!is_added && p.softcap > 0 && p.softcap_after_bias) return;
  if (!is_added) turn_first(p, room);
  const Shape& s = p.shape;
  std::vector<double> scores;
  for (int64_t n = 0; n < s.weights_elements(); ++n) {
    const int64_t j = n % s.Tk, i = n / s.Tk % s.Tq;
    const int64_t h = n / (s.Tk * s.Tq) % s.H, b = n / (s.Tk * s.Tq * s.H);
    const Placed at = place_of_pair(p, b, i, j);
    scores.push_back(formula(
        {is_added ? 0 : dot_of_pair(p, b, h, i, j) * p.scale,
         p.bias != nullptr ? p.bias[n] : 0,
         p.slopes != nullptr ? slope_of(p, b, h, i) : 0,
         static_cast<double>(at.i), static_cast<double>(at.j),
         static_cast<double>(at.position), is_added ? 0 : p.softcap, p.scale}));
    // A hidden key stays hidden.
    if (p.bias != nullptr && std::isinf(p.bias[n])) scores.back() = p.bias[n];
    if (at.j < 0 || at.j >= at.keys) scores.back() = 0;
  }
  p.bias = room.keep(std::move(scores));
  p.slopes = nullptr;
  if (is_added) return;
  p.q =
      room.keep(std::vector<double>(static_cast<size_t>(s.q_elements()), 0.0));
  p.softcap = 0;
  room.has_own_scores = true;
}

}  // namespace

void add_formulas(Readings& rows) {
  add_quotients(rows);
  struct Scores {
    const char* text;
    Stage stage;
    bool (*applies)(const Problem& p);
    ScoreFormula formula;
    bool is_added = false;
  };
  const auto always = [](const Problem&) { return true; };
  const auto has_bias = [](const Problem& p) { return p.bias != nullptr; };
  const auto has_slopes = [](const Problem& p) { return p.slopes != nullptr; };
  const auto has_cap = [](const Problem& p) { return p.softcap > 0; };
  static const Scores kScores[] = {
      {"the result of q k + 1 instead of q k", Stage::kScores, always,
       [](const ScoredPair& x) { return score_begun_at(x, 1); }},
      {"the result of q k - 1 instead of q k", Stage::kScores, always,
       [](const ScoredPair& x) { return score_begun_at(x, -1); }},
      {"the result of the bias alone instead of the score", Stage::kBias,
       has_bias, [](const ScoredPair& x) { return less_slope(x, x.bias); }},
      {"the result of the score times the bias, not plus it", Stage::kBias,
       has_bias,
       [](const ScoredPair& x) {
         return less_slope(x, capped_score(x) * x.bias);
       }},
      {"the result of the ALiBi term alone instead of the score", Stage::kBias,
       has_slopes, [](const ScoredPair& x) { return less_slope(x, 0); }},
      {"the result of ALiBi distances with their sign, position - key",
       Stage::kBias, has_slopes,
       [](const ScoredPair& x) { return score_at(x, x.position - x.j); }, true},
      {"the result of ALiBi distances with their sign, key - position",
       Stage::kBias, has_slopes,
       [](const ScoredPair& x) { return score_at(x, x.j - x.position); }, true},
      {"the result of position + key instead of the ALiBi distance",
       Stage::kBias, has_slopes,
       [](const ScoredPair& x) {
         return score_at(x, std::fabs(x.position + x.j));
       },
       true},
      {"the result of ALiBi distances from the row's number, not its position",
       Stage::kBias, has_slopes,
       [](const ScoredPair& x) { return score_at(x, std::fabs(x.i - x.j)); },
       true},
      {"the result of ALiBi distances one more", Stage::kBias, has_slopes,
       [](const ScoredPair& x) {
         return score_at(x, std::fabs(x.position + 1 - x.j));
       },
       true},
      {"the result of ALiBi slopes that divide the distance", Stage::kBias,
       has_slopes,
       [](const ScoredPair& x) {
         return capped_score(x) + x.bias -
                std::fabs(x.position - x.j) / x.slope;
       },
       true},
      {"the result of tanh(score / cap), not multiplied by the cap",
       Stage::kScores, has_cap,
       [](const ScoredPair& x) {
         return less_slope(x, std::tanh(x.scaled / x.cap) + x.bias);
       }},
      {"the result of cap tanh(score), not divided by the cap inside",
       Stage::kScores, has_cap,
       [](const ScoredPair& x) {
         return less_slope(x, x.cap * std::tanh(x.scaled) + x.bias);
       }},
      {"the result of cap tanh(score cap), multiplied by the cap inside",
       Stage::kScores, has_cap,
       [](const ScoredPair& x) {
         return less_slope(x, x.cap * std::tanh(x.scaled * x.cap) + x.bias);
       }},
      {"the result of cap tanh(cap / score)", Stage::kScores, has_cap,
       [](const ScoredPair& x) {
         return less_slope(x, x.cap * std::tanh(x.cap / x.scaled) + x.bias);
       }},
      {"the result of cap / tanh(score / cap)", Stage::kScores, has_cap,
       [](const ScoredPair& x) {
         return less_slope(x, x.cap / std::tanh(x.scaled / x.cap) + x.bias);
       }},
      {"the result of the score plus its capped value", Stage::kScores, has_cap,
       [](const ScoredPair& x) {
         return less_slope(x, x.scaled + capped_score(x) + x.bias);
       }},
      {"the result of the score times its capped value", Stage::kScores,
       has_cap,
       [](const ScoredPair& x) {
         return less_slope(x, x.scaled * capped_score(x) + x.bias);
       }},
      {"the result of the score less its capped value", Stage::kScores, has_cap,
       [](const ScoredPair& x) {
         return less_slope(x, x.scaled - capped_score(x) + x.bias);
       }},
      {"the result of the scores' own square", Stage::kScores,
       [](const Problem& p) { return p.softcap <= 0; },
       [](const ScoredPair& x) {
         return less_slope(x, x.scaled * x.scaled + x.bias);
       }}};
  for (const Scores& row : kScores)
    rows.push_back({row.text, row.stage,
                    [applies = row.applies, formula = row.formula,
                     is_added = row.is_added](Problem& p, Room& room) {
                      if (applies(p)) use_scores(p, room, formula, is_added);
                    }});
}

// --- rows that are weighed by their scores, not by exponentials of these

namespace {

// Replaces the exponential of a score, given the row's largest one.
using OfScore = double (*)(double score, double largest);

// A row's largest score or sink, computed from lse and weights.
double largest_of(const WrongAnswer& answer, int64_t row) {
  return answer.truth->oracle.lse[static_cast<size_t>(row)] +
         std::log(largest_share(answer, row));
}

// The sum of the keys' weights and of the sink's exponential.
double sum_of_row(const WrongAnswer& answer, int64_t row,
                  const std::vector<double>& weights) {
  double sum = 0, shares = 0;
  const int64_t keys = answer.value().shape.Tk;
  for (int64_t j = 0; j < keys; ++j) {
    shares += answer.truth->oracle.weights[static_cast<size_t>(row * keys + j)];
    sum += weights[static_cast<size_t>(j)];
  }
  return answer.value().sink ? sum + (1 - shares) / largest_share(answer, row)
                             : sum;
}

std::vector<double> weights_of_row(const WrongAnswer& answer, int64_t row,
                                   OfScore of) {
  // A smaller difference of scores is rounding.
  constexpr double kNothing = 1e-12;
  const OracleOutput& oracle = answer.truth->oracle;
  const int64_t keys = answer.value().shape.Tk;
  const double largest = largest_of(answer, row);
  std::vector<double> weights(static_cast<size_t>(keys), 0.0);
  for (int64_t j = 0; j < keys; ++j) {
    const auto pair = static_cast<size_t>(row * keys + j);
    // In a packed batch, of other members as well.
    if (oracle.sees[pair] == 0 || oracle.weights[pair] <= 0) continue;
    const double weight = of(
        std::log(oracle.weights[pair]) + oracle.lse[static_cast<size_t>(row)],
        largest);
    if (std::fabs(weight) > kNothing) weights[static_cast<size_t>(j)] = weight;
  }
  return weights;
}

// Scores are known to some roundings, and so is their sum.
double unsure_sum(const WrongAnswer& answer, int64_t row) {
  return 4 * unit_roundoff(Dtype::kF32) *
         (1 + std::fabs(largest_of(answer, row))) *
         static_cast<double>(answer.value().shape.Tk);
}

std::optional<Predicted> weighed_by(const WrongAnswer& answer,
                                    const WrongOutput& output, OfScore of) {
  if (answer.truth == nullptr) return std::nullopt;
  const Shape& s = answer.value().shape;
  Predicted out{output.right, output.bound};
  for (int64_t row = 0; row < s.lse_elements(); ++row) {
    if (answer.truth->oracle.visible[static_cast<size_t>(row)] <= 0) continue;
    const std::vector<double> weights = weights_of_row(answer, row, of);
    const double sum = sum_of_row(answer, row, weights);
    const double unsure = unsure_sum(answer, row) / std::fabs(sum);
    const int64_t kv = kv_head_of(s, row);
    for (int64_t c = 0; c < s.dv; ++c) {
      double weighed = 0, largest_value = 0;
      for (int64_t j = 0; j < s.Tk; ++j) {
        const double v =
            answer.inputs->v[static_cast<size_t>((kv * s.Tk + j) * s.dv + c)];
        weighed += weights[static_cast<size_t>(j)] * v;
        largest_value = std::max(largest_value, std::fabs(v));
      }
      const auto n = static_cast<size_t>(row * s.dv + c);
      out.values[n] = weighed / sum;
      out.bounds[n] += unsure * (largest_value + std::fabs(out.values[n]));
    }
  }
  return out;
}

// The logarithm of the same sums.
std::optional<Predicted> logarithm_of_sums(const WrongAnswer& answer,
                                           const WrongOutput& output,
                                           OfScore of) {
  if (answer.truth == nullptr) return std::nullopt;
  Predicted out{output.right, output.bound};
  for (size_t row = 0; row < output.right.size(); ++row) {
    if (answer.truth->oracle.visible[row] <= 0) continue;
    const auto n = static_cast<int64_t>(row);
    const double sum = sum_of_row(answer, n, weights_of_row(answer, n, of));
    out.values[row] = largest_of(answer, n) + std::log(sum);
    out.bounds[row] += unsure_sum(answer, n) / std::fabs(sum);
  }
  return out;
}

}  // namespace

void add_scores_as_weights(TensorName output, std::vector<Description>& out) {
  const auto add = [&out, output](const char* text, OfScore of) {
    out.push_back(
        {text, Stage::kUnknown,
         [of, output](const WrongAnswer& answer, const WrongOutput& wrong) {
           return output == TensorName::kLse
                      ? logarithm_of_sums(answer, wrong, of)
                      : weighed_by(answer, wrong, of);
         }});
  };
  add("the result of scores instead of their exponentials",
      [](double score, double) { return score; });
  add("the result of scores less the largest one instead of their exponentials",
      [](double score, double largest) { return score - largest; });
  add("the result of scores plus exponentials instead of exponentials",
      [](double score, double largest) {
        return score + std::exp(score - largest);
      });
  add("the result of scores times exponentials instead of exponentials",
      [](double score, double largest) {
        return score * std::exp(score - largest);
      });
}

}  // namespace qkvet::diagnosis

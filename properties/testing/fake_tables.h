// SPDX-License-Identifier: Apache-2.0
// For tests: a cache and a layer that are functions, right by default, rounded
// to f32. A test corrupts one member to see a law fail.
#ifndef QKVET_PROPERTIES_TESTING_FAKE_TABLES_H_
#define QKVET_PROPERTIES_TESTING_FAKE_TABLES_H_

#include <algorithm>
#include <cmath>

#include "properties/testing/fake_executor.h"
#include "properties/testing/fake_layer.h"

namespace qkvet::properties {

// Tokens of one sequence: k [Hkv,d] and v [Hkv,dv] each.
struct FakeToken {
  std::vector<double> k, v;
  int64_t position = 0;
};
using FakeTokens = std::vector<FakeToken>;

// One head's row as int8 codes with a scale of its own.
inline void store_int8(double* row, int64_t width) {
  float most = 0;
  for (int64_t c = 0; c < width; ++c)
    most = std::max(most, std::fabs(static_cast<float>(row[c])));
  const float scale = most / 127;
  for (int64_t c = 0; c < width && scale > 0; ++c)
    row[c] = static_cast<double>(
        std::nearbyint(static_cast<float>(row[c]) / scale) * scale);
}

// The operations that a test may corrupt.
struct Spoil {
  // The contents of a copy after a fork, from the original and the copy's old
  // contents; and whether reorder reads parents that it has already
  // overwritten.
  std::function<void(FakeTokens&, FakeTokens&)> fork =
      [](const FakeTokens& from, FakeTokens& to) { to = from; };
  bool reorders_in_place = false;
  // A row of k or v that is stored as int8.
  std::function<void(double*, int64_t)> store = store_int8;
  // Whether a query at token i sees token j.
  std::function<bool(const CacheForm&, int64_t, int64_t)> sees =
      [](const CacheForm& form, int64_t i, int64_t j) {
        return form.sees(i, j);
      };
  // The tokens that are left after reset, and after truncate.
  std::function<void(FakeTokens&)> reset = [](FakeTokens& tokens) {
    tokens.clear();
  };
  std::function<void(FakeTokens&, int64_t)> truncate = [](FakeTokens& tokens,
                                                          int64_t count) {
    tokens.resize(static_cast<size_t>(count));
  };
  // The tokens that are left after an eviction of `count` tokens from `first`
  // on.
  std::function<void(FakeTokens&, int64_t, int64_t)> evict =
      [](FakeTokens& tokens, int64_t first, int64_t count) {
        tokens.erase(tokens.begin() + first, tokens.begin() + first + count);
      };
  std::function<void(FakeTokens&, FakeTokens)> append = [](FakeTokens& tokens,
                                                           FakeTokens more) {
    tokens.insert(tokens.end(), more.begin(), more.end());
  };
  // The sequence that a step to `sequence` works on.
  std::function<int64_t(int64_t)> sequence = [](int64_t s) { return s; };
  // The question of an attend, and whether an illegal call is refused, and how.
  std::function<void(Problem&)> question = [](Problem&) {};
  std::function<void(const Problem&, OracleOutput&)> answer =
      [](const Problem&, OracleOutput&) {};
  bool refuses = true;
  // Accepts negative counts, and changes nothing.
  std::optional<Operation> takes_below = {};
  bool gives_reasons = true;
  bool returns_stages = true;
  // Run before and after the call of a layer; and its message about T and C.
  std::function<void(const KernelCall&, LayerProblem&)> layer_call =
      [](const KernelCall&, LayerProblem&) {};
  std::function<std::string(int64_t, int64_t)> overrun = [](int64_t T,
                                                            int64_t C) {
    return std::to_string(T) + " tokens and " + std::to_string(C);
  };
  std::function<void(LayerProblem&)> layer_question = [](LayerProblem&) {};
  std::function<void(const LayerProblem&, LayerOutput&)> layer_answer =
      [](const LayerProblem&, LayerOutput&) {};
};

class FakeTables : public FakeKernel {
 public:
  explicit FakeTables(Spoil spoil = {})
      : FakeKernel(info(spoil.returns_stages)), spoil_(std::move(spoil)) {}

  static KernelInfo info(bool returns_stages = true) {
    KernelInfo info = FakeExecutor::info();
    info.name = "fake/tables";
    info.has_forward = false;
    info.has_cache = info.has_truncate = info.has_layer = true;
    info.has_evict = true;
    info.has_fork = info.has_reorder = info.has_read_back = true;
    info.cache_options = QKVET_CACHE_ROPE | QKVET_CACHE_ROPE_PART |
                         QKVET_CACHE_WINDOW | QKVET_CACHE_INT8_PER_TOKEN;
    info.layer_options = QKVET_LAYER_BIASES | QKVET_LAYER_UNBATCHED |
                         QKVET_LAYER_ROPE | QKVET_LAYER_ROPE_PART |
                         QKVET_LAYER_MASK_BUFFER | QKVET_LAYER_WEIGHTS;
    for (int order = 1; order < kFusedOrderCount; ++order)
      info.layer_options |= fused_option(static_cast<FusedOrder>(order));
    if (returns_stages) info.layer_options |= QKVET_LAYER_STAGES;
    return info;
  }
  // It also has these, and declares them if a test requests it.
  static constexpr uint64_t kScores = QKVET_CACHE_ALIBI | QKVET_CACHE_SINK |
                                      QKVET_CACHE_SOFTCAP | QKVET_CACHE_MASK |
                                      QKVET_CACHE_BIAS;
  static KernelUnderTest under_test(bool returns_stages = true) {
    return fake_under_test(info(returns_stages));
  }

 private:
  CallOutcome answer_to(const KernelCall& call) override {
    return call.operation == Operation::kLayer ? layer(call) : cache(call);
  }

  CallOutcome refused() const {
    CallOutcome outcome;
    outcome.status = CallStatus::kRefused;
    outcome.gave_reason = spoil_.gives_reasons;
    return outcome;
  }

  bool is_there(int64_t sequence) const {
    return sequence < static_cast<int64_t>(sequences_.size());
  }

  bool too_far_back(int64_t sequence, int64_t token) const {
    return form_.window > 0 &&
           token < most_[static_cast<size_t>(sequence)] - form_.rollback;
  }

  // Whether the call contradicts the cache as it is.
  bool illegal(const KernelCall& call) const {
    if (!is_there(call.sequence)) return true;
    const auto length = static_cast<int64_t>(
        sequences_[static_cast<size_t>(call.sequence)].size());
    switch (call.operation) {
      case Operation::kCacheStep:
        return call.mistake != Mistake::kNone ||
               length + call.shape.Tk > capacity_ ||
               call.shape.Tq > length + call.shape.Tk ||
               too_far_back(call.sequence,
                            length + call.shape.Tk - call.shape.Tq + 1) ||
               call.shape.Tk + call.shape.Tq == 0;
      case Operation::kCacheTruncate:
        return call.tokens < 0 || call.tokens > length ||
               too_far_back(call.sequence, call.tokens);
      case Operation::kCacheEvict:
        return call.first < 0 || call.first + call.tokens > length ||
               form_.window > 0;
      case Operation::kCacheFork:
        return !is_there(call.other);
      case Operation::kCacheReorder:
        return std::any_of(call.parents.begin(), call.parents.end(),
                           [&](int64_t parent) { return !is_there(parent); });
      default:
        return false;
    }
  }

  CallOutcome cache(const KernelCall& call) {
    CallOutcome outcome;
    if (call.operation == Operation::kCacheCreate) {
      sequences_.assign(static_cast<size_t>(call.shape.B), {});
      capacity_ = call.tokens;
      form_ = call.cache;
      const auto of_heads = [&call](const std::byte* bytes) {
        return bytes == nullptr ? std::vector<double>()
                                : floats_as_doubles(bytes, call.shape.H);
      };
      sink_ = of_heads(call.sink);
      slopes_ = of_heads(call.slopes);
      softcap_ = static_cast<double>(call.softcap);
      most_.assign(sequences_.size(), 0);
    } else if (illegal(call)) {
      const bool below = (call.tokens < 0 || call.first < 0) &&
                         spoil_.takes_below == call.operation;
      if (spoil_.refuses && !below) outcome = refused();
    } else if (call.operation >= Operation::kCacheFork) {
      copy(call, outcome);
    } else {
      FakeTokens& tokens =
          sequences_[static_cast<size_t>(spoil_.sequence(call.sequence))];
      if (call.operation == Operation::kCacheReset) spoil_.reset(tokens);
      if (call.operation == Operation::kCacheTruncate)
        spoil_.truncate(tokens, call.tokens);
      if (call.operation == Operation::kCacheEvict)
        spoil_.evict(tokens, call.first, call.tokens);
      if (call.operation == Operation::kCacheStep) step(call, tokens, outcome);
      int64_t& most = most_[static_cast<size_t>(call.sequence)];
      const auto length = static_cast<int64_t>(tokens.size());
      most = length == 0 ? 0 : std::max(most, length);
    }
    for (const FakeTokens& tokens : sequences_)
      outcome.lengths.push_back(static_cast<int64_t>(tokens.size()));
    return outcome;
  }

  void copy(const KernelCall& call, CallOutcome& outcome) {
    const auto from = static_cast<size_t>(call.sequence);
    if (call.operation == Operation::kCacheReadBack) {
      const Shape& s = call.shape;
      outcome.stage_k = doubles_as_floats(
          gathered(sequences_[from], &FakeToken::k, s.Hkv, s.d));
      outcome.stage_v = doubles_as_floats(
          gathered(sequences_[from], &FakeToken::v, s.Hkv, s.dv));
      return;
    }
    if (call.operation == Operation::kCacheFork) {
      const auto to = static_cast<size_t>(call.other);
      spoil_.fork(sequences_[from], sequences_[to]);
      most_[to] = most_[from];
      return;
    }
    const auto before = sequences_;
    const auto most = most_;
    for (size_t s = 0; s < call.parents.size(); ++s) {
      const auto parent = static_cast<size_t>(call.parents[s]);
      sequences_[s] =
          spoil_.reorders_in_place ? sequences_[parent] : before[parent];
      most_[s] = most[parent];
    }
  }

  // [heads,tokens,width]
  static std::vector<double> gathered(const FakeTokens& tokens,
                                      std::vector<double> FakeToken::*part,
                                      int64_t heads, int64_t width) {
    std::vector<double> all;
    for (int64_t h = 0; h < heads; ++h)
      for (const FakeToken& token : tokens) {
        const auto row = (token.*part).begin() + h * width;
        all.insert(all.end(), row, row + width);
      }
    return all;
  }

  // Row t of every head, [heads,rows,width].
  static std::vector<double> row_of(const std::vector<double>& all,
                                    int64_t heads, int64_t rows, int64_t width,
                                    int64_t t) {
    std::vector<double> out;
    for (int64_t h = 0; h < heads; ++h) {
      const auto begin = all.begin() + (h * rows + t) * width;
      out.insert(out.end(), begin, begin + width);
    }
    return out;
  }

  void step(const KernelCall& call, FakeTokens& tokens, CallOutcome& outcome) {
    const Shape& s = call.shape;
    const auto k = floats_as_doubles(call.k, s.Hkv * s.Tk * s.d);
    const auto v = floats_as_doubles(call.v, s.Hkv * s.Tk * s.dv);
    FakeTokens more;
    const int64_t place = tokens.empty() ? 0 : tokens.back().position + 1;
    for (int64_t t = 0; t < s.Tk; ++t)
      more.push_back({row_of(k, s.Hkv, s.Tk, s.d, t),
                      row_of(v, s.Hkv, s.Tk, s.dv, t), place + t});
    for (FakeToken& token : more)
      for (int64_t h = 0; form_.stored != StoredAs::kAsGiven && h < s.Hkv;
           ++h) {
        spoil_.store(token.k.data() + h * s.d, s.d);
        spoil_.store(token.v.data() + h * s.dv, s.dv);
      }
    if (!more.empty()) spoil_.append(tokens, std::move(more));
    if (s.Tq > 0) attend(call, tokens, outcome);
  }

  void attend(const KernelCall& call, const FakeTokens& tokens,
              CallOutcome& outcome) {
    Shape s = call.shape;
    s.B = 1;
    s.Tk = static_cast<int64_t>(tokens.size());
    const auto k = gathered(tokens, &FakeToken::k, s.Hkv, s.d);
    const auto v = gathered(tokens, &FakeToken::v, s.Hkv, s.dv);
    const auto q = floats_as_doubles(call.q, s.H * s.Tq * s.d);
    Problem problem = make_problem(s, Causal::kBottomRight, call.scale,
                                   q.data(), k.data(), v.data());
    const FakeRotation turn(call);
    std::vector<int64_t> places;
    for (const FakeToken& token : tokens) places.push_back(token.position);
    problem.places = places.data();
    problem.slopes = slopes_.empty() ? nullptr : slopes_.data();
    problem.sink = sink_.empty() ? nullptr : sink_.data();
    problem.softcap = softcap_;
    problem.rotation = turn.rotation();
    problem.rotation.k_positions = places.data();
    problem.rotation.q_positions = places.data() + s.Tk - s.Tq;
    std::vector<uint8_t> mask;
    for (int64_t row = 0; row < s.H * s.Tq; ++row)
      for (int64_t j = 0; j < s.Tk; ++j)
        mask.push_back(spoil_.sees(form_, s.Tk - s.Tq + row % s.Tq, j) ? 1 : 0);
    if (form_.window > 0) problem.mask = mask.data();
    const auto shown = FakeOptions::spread(s, call.mask_own, [&](int64_t n) {
      return call.mask == nullptr || call.mask[n] != std::byte{0};
    });
    for (size_t n = 0; n < mask.size(); ++n)
      if (!shown[n]) mask[n] = 0;
    if (call.mask != nullptr) problem.mask = mask.data();
    std::vector<double> bias;
    if (call.bias != nullptr)
      bias = FakeOptions::spread(s, call.bias_own, [&](int64_t n) {
        return floats_as_doubles(call.bias + n * 4, 1)[0];
      });
    if (call.bias != nullptr) problem.bias = bias.data();
    spoil_.question(problem);
    OracleOutput oracle = plain_forward(problem);
    spoil_.answer(problem, oracle);
    outcome.o = doubles_as_floats(oracle.o);
    if (call.want_lse) outcome.lse = doubles_as_floats(oracle.lse);
  }

  CallOutcome layer(const KernelCall& call) {
    CallOutcome outcome;
    if (call.mistake != Mistake::kNone) {
      if (spoil_.refuses) outcome = refused();
      return outcome;
    }
    if (call.context > 0 && call.context < call.shape.Tq && spoil_.refuses) {
      outcome = refused();
      outcome.text = spoil_.overrun(call.shape.Tq, call.context);
      return outcome;
    }
    LayerProblem problem;
    const FakeLayer held(call, problem);
    spoil_.layer_question(problem);
    spoil_.layer_call(call, problem);
    LayerOutput answer = in_f32(problem);
    spoil_.layer_answer(problem, answer);
    outcome.y = doubles_as_floats(answer.y);
    outcome.stage_q = doubles_as_floats(answer.q);
    outcome.stage_k = doubles_as_floats(answer.k);
    outcome.stage_v = doubles_as_floats(answer.v);
    outcome.attended = doubles_as_floats(answer.attended.o);
    if (call.want_weights)
      outcome.weights = doubles_as_floats(answer.attended.weights);
    return outcome;
  }

  static void round_all(std::vector<double>& values) {
    for (double& value : values)
      value = static_cast<double>(static_cast<float>(value));
  }

  // Each stage reads the result of the one before.
  static LayerOutput in_f32(const LayerProblem& problem) {
    LayerOutput out = plain_layer(problem);
    round_all(out.q);
    round_all(out.k);
    round_all(out.v);
    out.attended = plain_forward(
        attention_stage(problem, out.q.data(), out.k.data(), out.v.data()));
    round_all(out.attended.o);
    const auto merged = merge_heads(problem.shape, out.attended.o);
    out.y =
        plain_linear(projection_stage(problem, Projection::kO, merged.data()));
    return out;
  }

  Spoil spoil_;
  std::vector<FakeTokens> sequences_;
  std::vector<int64_t> most_;
  int64_t capacity_ = 0;
  CacheForm form_;
  std::vector<double> sink_, slopes_;  // [H], or empty
  double softcap_ = 0;
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_TESTING_FAKE_TABLES_H_

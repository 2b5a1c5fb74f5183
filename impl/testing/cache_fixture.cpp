// SPDX-License-Identifier: Apache-2.0
#include "impl/testing/cache_fixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace qkvet::impl {
namespace {

qkvet_tensor scale_tensor(std::vector<float>* values, const CacheProblem& p,
                          int64_t width, int64_t* shape, int64_t* strides) {
  for (int64_t n = 0; n < p.kv_heads * width; ++n) {
    values->push_back(channel_scale(p, n / width, n % width));
  }
  shape[0] = p.kv_heads;
  shape[1] = strides[0] = width;
  strides[1] = 1;
  qkvet_tensor t = {};
  t.data = values->data();
  t.device_type = QKVET_DEVICE_CPU;
  t.ndim = 2;
  t.dtype = kF32;
  t.shape = shape;
  t.strides = strides;
  return t;
}

// Extents of 0 make no tensor here: an absent one has a row that nobody reads.
std::vector<int64_t> shape_of(int64_t heads, size_t rows, int64_t width) {
  return {1, heads, std::max<int64_t>(1, static_cast<int64_t>(rows)), width};
}

void say(const CacheProblem& p, Part part, const Tokens& tokens,
         AnyTensor* to) {
  const std::vector<int64_t>& n = to->shape();
  for (int64_t h = 0; h < n[1]; ++h) {
    for (size_t t = 0; t < tokens.size(); ++t) {
      for (int64_t c = 0; c < n[3]; ++c) {
        to->set(0, h, int64_t(t), c, word(p, part, tokens[t], h, c));
      }
    }
  }
}

}  // namespace

Tokens tokens_from(uint64_t first, int64_t count) {
  Tokens tokens;
  for (int64_t n = 0; n < count; ++n) {
    tokens.push_back(first + static_cast<uint64_t>(n));
  }
  return tokens;
}

StepCall::StepCall(const CacheProblem& p, int64_t sequence, const Tokens& added,
                   const Tokens& asking)
    : args{},
      k(p.type, shape_of(p.kv_heads, added.size(), p.width), p.layout),
      v(p.type, shape_of(p.kv_heads, added.size(), p.value_width), p.layout),
      q(p.type, shape_of(p.heads, asking.size(), p.width), p.layout),
      o(p.type, shape_of(p.heads, asking.size(), p.value_width), p.layout),
      lse({1, p.heads, shape_of(1, asking.size(), 1)[2]}, p.layout,
          Placement::kEndFlush),
      rope(p.rope, kRopeRows, p.width) {
  say(p, Part::kKey, added, &k);
  say(p, Part::kValue, added, &v);
  say(p, Part::kQuery, asking, &q);
  lse.fill(std::numeric_limits<float>::quiet_NaN());
  args.struct_size = sizeof(args);
  args.sequence = sequence;
  if (!added.empty()) {
    args.k = k.tensor();
    args.v = v.tensor();
  }
  if (!asking.empty()) {
    args.q = q.tensor();
    args.o = o.tensor();
    args.lse = lse.tensor();
  }
  args.rope = rope.style();
  args.rope_cos = rope.cos();
  args.rope_sin = rope.sin();
}

void StepCall::give_pairs(const CacheProblem& p,
                          const std::vector<int64_t>& places) {
  const auto keys = static_cast<int64_t>(places.size());
  const int64_t queries = q.shape()[2];
  pairs = {1, p.heads, queries, keys};
  steps = {0, queries * keys, keys, 1};
  bias = std::make_unique<AnyTensor>(p.type, pairs, p.layout);
  for (int64_t h = 0; h < p.heads; ++h) {
    for (int64_t i = 0; i < queries; ++i) {
      for (int64_t j = 0; j < keys; ++j) {
        const int64_t at = places[size_t(keys - queries + i)];
        shown.push_back(p.shows(h, at, places[size_t(j)]) ? 1 : 0);
        bias->set(0, h, i, j, p.bias_of(h, at, places[size_t(j)]));
      }
    }
  }
  if (p.hidden != 0) {
    args.mask.data = shown.data();
    args.mask.device_type = QKVET_DEVICE_CPU;
    args.mask.ndim = 4;
    args.mask.dtype = {QKVET_DTYPE_BOOL, 8, 1};
    args.mask.shape = pairs.data();
    args.mask.strides = steps.data();
  }
  if (p.bias != 0) args.bias = bias->tensor();
}

OpenCache::OpenCache(const qkvet_kernel* kernel, const CacheProblem& p)
    : kernel_(kernel),
      problem_(p),
      history_(size_t(p.sequences)),
      places_(size_t(p.sequences)) {
  qkvet_cache_config config = {};
  config.struct_size = sizeof(config);
  config.sequences = p.sequences;
  config.heads = p.heads;
  config.kv_heads = p.kv_heads;
  config.d = p.width;
  config.dv = p.value_width;
  config.capacity = p.capacity;
  config.q = config.kv = config.o = dtype_named(p.type);
  config.scale = p.scale;
  config.scale_given = p.scale_given;
  config.window = p.window;
  config.first_tokens = p.first_tokens;
  config.rollback = p.rollback;
  std::vector<float> k_scales, v_scales;  // gone when the cache is made
  int64_t shapes[2][2], strides[2][2];
  if (p.coded != Coded::kNot) {
    const bool fp8 = p.coded == Coded::kFp8;
    const int code = fp8 ? QKVET_DTYPE_FLOAT8_E4M3FN : QKVET_DTYPE_INT;
    config.stored = {static_cast<uint8_t>(code), 8, 1};
    config.scales =
        p.per_channel ? QKVET_SCALES_PER_CHANNEL : QKVET_SCALES_PER_TOKEN;
  }
  if (p.per_channel) {
    config.k_scale = scale_tensor(&k_scales, p, p.width, shapes[0], strides[0]);
    config.v_scale =
        scale_tensor(&v_scales, p, p.value_width, shapes[1], strides[1]);
  }
  int64_t heads[] = {p.heads}, step[] = {1};
  std::vector<float> slopes, sinks;
  for (int64_t h = 1; h <= p.heads; ++h) {
    slopes.push_back(p.slope * float(h));
    sinks.push_back(p.sink * float(h));
  }
  const auto of_heads = [&](std::vector<float>& numbers) {
    qkvet_tensor t = {};
    t.data = numbers.data();
    t.device_type = QKVET_DEVICE_CPU;
    t.ndim = 1;
    t.dtype = kF32;
    t.shape = heads;
    t.strides = step;
    return t;
  };
  if (p.slope != 0) config.slopes = of_heads(slopes);
  if (p.sink != 0) config.sink = of_heads(sinks);
  config.softcap = p.softcap;
  status_ = kernel->cache->create(kernel, nullptr, &config, nullptr, &cache_,
                                  &reason_.text);
}

OpenCache::~OpenCache() {
  if (status_ == QKVET_OK) {
    kernel_->cache->destroy(kernel_, cache_);
  }
}

qkvet_status OpenCache::step(const qkvet_cache_args& args) {
  reason_.room[0] = '\0';
  return kernel_->cache->step(kernel_, cache_, &args, nullptr, &reason_.text);
}

qkvet_status OpenCache::step(int64_t sequence, const Tokens& added,
                             int64_t queries) {
  Tokens after = history(sequence);
  after.insert(after.end(), added.begin(), added.end());
  const Tokens asking(after.end() - queries, after.end());
  StepCall call(problem_, sequence, added, asking);
  Places after_places = places_[size_t(sequence)];
  while (after_places.size() < after.size()) {
    after_places.push_back(after_places.empty() ? 0 : after_places.back() + 1);
  }
  if (queries > 0) call.give_pairs(problem_, after_places);
  const qkvet_status status = step(call.args);
  if (status == QKVET_OK) {
    history_[size_t(sequence)] = asked_ = after;
    places_[size_t(sequence)] = asked_places_ = after_places;
    queries_ = queries;
    o_ = call.o.values();
    lse_.clear();
    for (int64_t h = 0; h < problem_.heads; ++h) {
      for (int64_t i = 0; i < queries; ++i) {
        lse_.push_back(call.lse.at(0, h, i));
      }
    }
  }
  return status;
}

double OpenCache::error() const {
  const CacheProblem& p = problem_;
  const double scale =
      p.scale_given ? double(p.scale) : 1 / std::sqrt(double(p.width));
  // Values are below 1, scores below scale * d; 64 units of f32 on top of the
  // rounding of o.
  const double slack = 64 * 0x1p-24 * (1 + std::fabs(scale) * double(p.width));
  const RopeTables rope(p.rope, kRopeRows, p.width);
  const auto turned = [&](Part part, size_t token, int64_t head, int64_t c) {
    return rope.turned(asked_places_[token], c, [&](int64_t channel) {
      return kept(p, part, asked_[token], head, channel);
    });
  };
  double worst = 0;
  const auto note = [&worst](double actual, double expected, double allowed) {
    const double error = std::fabs(actual - expected) / allowed;
    worst = error <= worst ? worst : error;
    worst = std::isnan(worst) ? std::numeric_limits<double>::infinity() : worst;
  };
  size_t n = 0;
  for (int64_t h = 0; h < p.heads; ++h) {
    const int64_t kv = h / (p.heads / p.kv_heads);
    for (int64_t i = 0; i < queries_; ++i, ++n) {
      const size_t at = asked_.size() - size_t(queries_ - i);
      std::vector<size_t> seen;
      for (size_t j = 0; j <= at; ++j) {
        if (p.sees(int64_t(at), int64_t(j)) &&
            p.shows(h, asked_places_[at], asked_places_[j])) {
          seen.push_back(j);
        }
      }
      std::vector<double> w;
      double max = -std::numeric_limits<double>::infinity(), sum = 0;
      for (const size_t j : seen) {
        double dot = 0;
        for (int64_t c = 0; c < p.width; ++c) {
          dot += turned(Part::kQuery, at, h, c) * turned(Part::kKey, j, kv, c);
        }
        double score = dot * scale;
        if (p.softcap > 0) {
          score = double(p.softcap) * std::tanh(score / double(p.softcap));
        }
        score -= double(p.slope) * double(h + 1) *
                 double(asked_places_[at] - asked_places_[j]);
        score += double(p.bias_of(h, asked_places_[at], asked_places_[j]));
        w.push_back(score);
        max = std::max(max, w.back());
      }
      const double sink = double(p.sink) * double(h + 1);
      if (p.sink != 0) {
        max = std::max(max, sink);
        sum = std::exp(sink - max);
      }
      for (double& x : w) {
        sum += x = std::exp(x - max);
      }
      for (int64_t c = 0; c < p.value_width; ++c) {
        double o = 0;
        for (size_t j = 0; j < seen.size(); ++j) {
          o += w[j] / sum * kept(p, Part::kValue, asked_[seen[j]], kv, c);
        }
        note(double(o_[n * size_t(p.value_width) + size_t(c)]), o,
             slack + 1.01 * unit_of(p.type));
      }
      note(double(lse_[n]), max + std::log(sum), slack);
    }
  }
  return worst;
}

int64_t OpenCache::length(int64_t sequence) {
  int64_t tokens = -1;
  EXPECT_EQ(kernel_->cache->length(kernel_, cache_, sequence, &tokens, nullptr),
            0 <= sequence && sequence < problem_.sequences
                ? QKVET_OK
                : QKVET_INVALID_ARGUMENT);
  return tokens;
}

qkvet_status OpenCache::reset(int64_t sequence) {
  reason_.room[0] = '\0';
  const qkvet_status status =
      kernel_->cache->reset(kernel_, cache_, sequence, &reason_.text);
  if (status == QKVET_OK) {
    history_[size_t(sequence)].clear();
    places_[size_t(sequence)].clear();
  }
  return status;
}

qkvet_status OpenCache::truncate(int64_t sequence, int64_t tokens) {
  reason_.room[0] = '\0';
  const qkvet_status status = kernel_->cache->truncate(
      kernel_, cache_, sequence, tokens, &reason_.text);
  if (status == QKVET_OK) {
    history_[size_t(sequence)].resize(size_t(tokens));
    places_[size_t(sequence)].resize(size_t(tokens));
  }
  return status;
}

qkvet_status OpenCache::evict(int64_t sequence, int64_t first, int64_t tokens) {
  reason_.room[0] = '\0';
  const qkvet_status status = kernel_->cache->evict(
      kernel_, cache_, sequence, first, tokens, &reason_.text);
  const bool there = 0 <= sequence && sequence < problem_.sequences;
  const int64_t held = there ? int64_t(history(sequence).size()) : 0;
  if (status == QKVET_OK && 0 <= first && first <= held &&
      tokens <= held - first) {
    const auto take = [&](auto& all) {
      all.erase(all.begin() + first, all.begin() + first + tokens);
    };
    take(history_[size_t(sequence)]);
    take(places_[size_t(sequence)]);
  }
  return status;
}

qkvet_status OpenCache::fork(int64_t from, int64_t to) {
  reason_.room[0] = '\0';
  const qkvet_status status =
      kernel_->cache->fork(kernel_, cache_, from, to, &reason_.text);
  const auto has = [this](int64_t s) {
    return 0 <= s && s < problem_.sequences;
  };
  if (status == QKVET_OK && has(from) && has(to)) {
    history_[size_t(to)] = Tokens(history(from));
    places_[size_t(to)] = Places(places_[size_t(from)]);
  }
  return status;
}

qkvet_status OpenCache::reorder(const std::vector<int64_t>& parents) {
  reason_.room[0] = '\0';
  const qkvet_status status =
      kernel_->cache->reorder(kernel_, cache_, parents.data(), &reason_.text);
  if (status == QKVET_OK) {
    const std::vector<Tokens> was = history_;
    const std::vector<Places> were = places_;
    for (size_t s = 0; s < parents.size(); ++s) {
      history_[s] = was[size_t(parents[s])];
      places_[s] = were[size_t(parents[s])];
    }
  }
  return status;
}

int64_t OpenCache::memory() {
  int64_t bytes = -1;
  EXPECT_EQ(kernel_->cache->memory(kernel_, cache_, &bytes, nullptr), QKVET_OK);
  return bytes;
}

OpenCache::Contents OpenCache::read_back(int64_t sequence, Layout layout,
                                         int64_t rows) {
  const int64_t n =
      rows >= 0 ? rows : static_cast<int64_t>(history(sequence).size());
  AnyTensor k(Storage::kF32, {1, problem_.kv_heads, n, problem_.width}, layout);
  AnyTensor v(Storage::kF32, {1, problem_.kv_heads, n, problem_.value_width},
              layout);
  const qkvet_tensor k_out = k.tensor(), v_out = v.tensor();
  reason_.room[0] = '\0';
  Contents contents;
  contents.status = kernel_->cache->read_back(kernel_, cache_, sequence, &k_out,
                                              &v_out, &reason_.text);
  contents.k = k.values();
  contents.v = v.values();
  return contents;
}

bool OpenCache::holds_its_history(int64_t sequence) {
  const CacheProblem& p = problem_;
  const Tokens& tokens = history(sequence);
  const auto n = static_cast<int64_t>(tokens.size());
  const Contents contents = read_back(sequence, p.layout);
  bool holds = contents.status == QKVET_OK;
  const auto compare = [&](Part part, int64_t width,
                           const std::vector<float>& found) {
    for (size_t at = 0; at < found.size(); ++at) {
      const auto index = static_cast<int64_t>(at);
      const int64_t t = index / width % n, head = index / width / n;
      const double expected =
          kept(p, part, tokens[size_t(t)], head, index % width);
      // The product of code and scale is rounded.
      const double allowed =
          p.coded == Coded::kNot ? 0 : 0x1p-24 * std::fabs(expected);
      const bool same = std::fabs(double(found[at]) - expected) <= allowed;
      holds = (same || !p.sees(n, t)) && holds;
    }
  };
  compare(Part::kKey, p.width, contents.k);
  compare(Part::kValue, p.value_width, contents.v);
  return holds;
}

std::vector<const qkvet_kernel*> caches(bool faulty) {
  return kernels_that(faulty, [](const qkvet_kernel& kernel) {
    // What refuses less than these tests want is for the laws.
    const bool lenient =
        std::strcmp(kernel.name, "controls/cache_lenient") == 0;
    return kernel.cache != nullptr && !lenient &&
           OpenKernel(&kernel).status() == QKVET_OK;
  });
}

}  // namespace qkvet::impl

// SPDX-License-Identifier: Apache-2.0
// Every correct cache: by hand, against doubles over its history, on memory
// that it must have forgotten, and on calls that it must refuse. That these
// questions can fail is what cache_faults_test.cpp shows.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "impl/testing/cache_fixture.h"

namespace qkvet::impl::cache_kernels_test {
namespace {

bool grows(const qkvet_kernel* kernel) {
  return (kernel->cache->options & QKVET_CACHE_GROWS) != 0;
}

TEST(CacheKernels, AreThereAndAreNothingElse) {
  EXPECT_GE(caches(/*faulty=*/false).size(), 3u);
  for (const qkvet_kernel* kernel : caches(/*faulty=*/false)) {
    EXPECT_EQ(kernel->forward, nullptr) << kernel->name;
    EXPECT_EQ(kernel->layer, nullptr) << kernel->name;
  }
  EXPECT_TRUE(grows(find_kernel("kv_cache/growing")));
  EXPECT_FALSE(grows(find_kernel("kv_cache/contiguous")));
}

// Keys of 0 weigh alike: o is the mean of the values 1, 2, 3 so far, and lse
// the logarithm of their number. All of it is exact in every type.
TEST(CacheKernels, AverageValuesUnderEqualScores) {
  for (const Storage type : kAllStorages) {
    for (const qkvet_kernel* kernel : caches(/*faulty=*/false)) {
      const CacheProblem p = {.width = 1, .value_width = 1, .type = type};
      OpenCache cache(kernel, p);
      ASSERT_EQ(cache.status(), QKVET_OK) << cache.reason();
      constexpr float kMeans[] = {1, 1.5f, 2};
      for (int n = 0; n < 3; ++n) {
        StepCall call(p, 0, {1}, {1});
        call.k.fill(0);
        call.v.fill(static_cast<float>(n + 1));
        ASSERT_EQ(cache.step(call.args), QKVET_OK) << cache.reason();
        EXPECT_EQ(call.o.get(0, 0, 0, 0), kMeans[n]) << kernel->name;
        EXPECT_EQ(call.lse.at(0, 0, 0), std::log(static_cast<float>(n + 1)));
      }
    }
  }
}

// One token with q = 2, k = 3 in both channels: its score is 12 times the
// scale, which is 1/sqrt(2) or the 0.5 that is given, and o is its value.
TEST(CacheKernels, TakeTheScaleOfTheConfiguration) {
  for (const bool given : {false, true}) {
    for (const qkvet_kernel* kernel : caches(/*faulty=*/false)) {
      const CacheProblem p = {
          .width = 2, .value_width = 1, .scale_given = given, .scale = 0.5f};
      OpenCache cache(kernel, p);
      StepCall call(p, 0, {1}, {1});
      call.q.fill(2);
      call.k.fill(3);
      call.v.fill(0.25f);
      ASSERT_EQ(cache.step(call.args), QKVET_OK) << cache.reason();
      EXPECT_EQ(call.o.get(0, 0, 0, 0), 0.25f);
      EXPECT_EQ(call.lse.at(0, 0, 0),
                12 * (given ? 0.5f : 1 / std::sqrt(2.0f)));
    }
  }
}

struct Command {
  int64_t sequence, added, queries;
};

// Prefill, decode, a chunk on a warm cache, tokens without queries, queries
// without tokens, and a second sequence in between.
constexpr Command kStory[] = {{0, 3, 3}, {0, 1, 1}, {1, 4, 2}, {0, 1, 1},
                              {0, 4, 4}, {1, 1, 1}, {0, 2, 0}, {0, 0, 3},
                              {1, 3, 3}, {0, 1, 1}, {0, 2, 5}};

std::vector<CacheProblem> problems() {
  return {{.sequences = 2},
          {.sequences = 2, .heads = 4, .kv_heads = 2, .capacity = 14},
          {.sequences = 2,
           .heads = 3,
           .kv_heads = 3,
           .width = 7,
           .value_width = 9,
           .scale_given = true,
           .scale = -0.75f,
           .layout = Layout::kBthd},
          {.sequences = 3,
           .heads = 6,
           .kv_heads = 1,
           .width = 1,
           .value_width = 2,
           .layout = Layout::kBhdt},
          {.sequences = 2,
           .heads = 2,
           .kv_heads = 2,
           .width = 16,
           .value_width = 1,
           .layout = Layout::kGaps}};
}

TEST(CacheKernels, AgreeWithDoublesOverTheirHistory) {
  for (const Storage type : kAllStorages) {
    for (CacheProblem p : problems()) {
      p.type = type;
      for (const qkvet_kernel* kernel : caches(/*faulty=*/false)) {
        OpenCache cache(kernel, p);
        ASSERT_EQ(cache.status(), QKVET_OK) << cache.reason();
        uint64_t token = 100;
        for (const Command& command : kStory) {
          const Tokens added = tokens_from(token, command.added);
          token += added.size();
          ASSERT_EQ(cache.step(command.sequence, added, command.queries),
                    QKVET_OK)
              << kernel->name << cache.reason();
          ASSERT_LE(cache.error(), 1) << kernel->name;
          for (int64_t s = 0; s < p.sequences; ++s) {
            ASSERT_EQ(size_t(cache.length(s)), cache.history(s).size());
          }
        }
      }
    }
  }
}

// ALiBi counts from where tokens stand: evicted ones leave gaps.
TEST(CacheKernels, AddToScoresWhatTheyWereMadeFor) {
  int made = 0;
  for (const qkvet_kernel* kernel : caches(/*faulty=*/false)) {
    for (const CacheProblem& p :
         {CacheProblem{.heads = 4, .kv_heads = 2, .slope = 0.25f},
          CacheProblem{.heads = 4, .kv_heads = 2, .sink = -0.5f},
          CacheProblem{
              .heads = 2, .scale_given = true, .scale = 3, .softcap = 0.75f},
          CacheProblem{.heads = 2,
          .kv_heads = 2,
          .slope = 0.5f,
          .sink = 0.25f,
          .softcap = 2},
          CacheProblem{.heads = 2,
          .window = 3,
          .first_tokens = 1,
          .slope = 0.5f,
          .sink = 1}}) {
      OpenCache cache(kernel, p);
      const uint64_t needed = (p.slope != 0 ? QKVET_CACHE_ALIBI : 0) |
                              (p.sink != 0 ? QKVET_CACHE_SINK : 0) |
                              (p.softcap != 0 ? QKVET_CACHE_SOFTCAP : 0) |
                              (p.window != 0 ? QKVET_CACHE_WINDOW : 0);
      if ((needed & ~kernel->cache->options) != 0) {
        EXPECT_EQ(cache.status(), QKVET_UNSUPPORTED) << kernel->name;
        EXPECT_STRNE(cache.reason(), "");
        continue;
      }
      ++made;
      ASSERT_EQ(cache.status(), QKVET_OK) << cache.reason();
      for (const auto& [first, tokens, queries] :
           {std::array{1, 5, 5}, {6, 1, 1}, {7, 3, 2}}) {
        ASSERT_EQ(cache.step(0, tokens_from(uint64_t(first), tokens), queries),
                  QKVET_OK);
        ASSERT_LE(cache.error(), 1) << kernel->name;
      }
      if (p.window != 0 || kernel->cache->evict == nullptr) continue;
      ASSERT_EQ(cache.evict(0, 2, 3), QKVET_OK);
      ASSERT_EQ(cache.step(0, {20}, 3), QKVET_OK);
      ASSERT_LE(cache.error(), 1) << kernel->name;
    }
  }
  EXPECT_GE(made, 30);
}

// Masks and biases belong to positions: evicted tokens take theirs along.
TEST(CacheKernels, HideAndAddWhatTheirStepsBring) {
  int took = 0;
  for (const qkvet_kernel* kernel : caches(/*faulty=*/false)) {
    for (CacheProblem p :
         {CacheProblem{.heads = 4, .kv_heads = 2, .hidden = 3},
          CacheProblem{.heads = 4, .kv_heads = 2, .bias = 0.5f},
          CacheProblem{.heads = 2,
          .layout = Layout::kGaps,
          .slope = 0.5f,
          .sink = 0.25f,
          .softcap = 2,
          .hidden = 2,
          .bias = -0.25f},
          CacheProblem{.heads = 2,
          .kv_heads = 2,
          .window = 3,
          .first_tokens = 1,
          .hidden = 3,
          .bias = 0.5f}}) {
      for (const Storage type : kAllStorages) {
        p.type = type;
        OpenCache cache(kernel, p);
        if (cache.status() != QKVET_OK) continue;
        const uint64_t needed = (p.hidden != 0 ? QKVET_CACHE_MASK : 0) |
                                (p.bias != 0 ? QKVET_CACHE_BIAS : 0);
        if ((needed & ~kernel->cache->options) != 0) {
          EXPECT_EQ(cache.step(0, {1}, 1), QKVET_UNSUPPORTED) << kernel->name;
          EXPECT_STRNE(cache.reason(), "");
          EXPECT_EQ(cache.length(0), 0);
          continue;
        }
        ++took;
        for (const auto& [first, tokens, queries] :
             {std::array{1, 5, 5}, {6, 1, 1}, {7, 3, 2}, {10, 1, 0}}) {
          ASSERT_EQ(
              cache.step(0, tokens_from(uint64_t(first), tokens), queries),
              QKVET_OK)
              << cache.reason();
          ASSERT_LE(queries > 0 ? cache.error() : 0, 1) << kernel->name;
        }
        if (p.window != 0 || kernel->cache->evict == nullptr) continue;
        ASSERT_EQ(cache.evict(0, 2, 3), QKVET_OK);
        ASSERT_EQ(cache.step(0, {20}, 3), QKVET_OK);
        ASSERT_LE(cache.error(), 1) << kernel->name;
        ASSERT_EQ(cache.truncate(0, 4), QKVET_OK);
        ASSERT_EQ(cache.step(0, {21}, 1), QKVET_OK);
        ASSERT_LE(cache.error(), 1) << kernel->name;
      }
    }
  }
  EXPECT_GE(took, 60);
}

TEST(CacheKernels, GiveNothingForARowWithoutAKey) {
  const CacheProblem p = {.hidden = 2, .bias = 1};
  for (const qkvet_kernel* kernel : caches(/*faulty=*/false)) {
    if ((kernel->cache->options & QKVET_CACHE_MASK) == 0) continue;
    OpenCache cache(kernel, p);
    StepCall call(p, 0, {1, 2}, {1, 2});
    call.give_pairs(p, {0, 1});
    call.shown = {1, 0, 0, 0};
    ASSERT_EQ(cache.step(call.args), QKVET_OK) << cache.reason();
    EXPECT_NE(call.o.get(0, 0, 0, 0), 0);
    EXPECT_EQ(call.o.get(0, 0, 1, 0), 0) << kernel->name;
    EXPECT_EQ(call.lse.at(0, 0, 1), -std::numeric_limits<float>::infinity());
  }
}

TEST(CacheKernels, RefuseMasksAndBiasesThatDoNotFit) {
  const CacheProblem p = {.heads = 2, .hidden = 2, .bias = 1};
  void (*const mistakes[])(StepCall&) = {
      [](StepCall& c) { --c.pairs[3]; },
      [](StepCall& c) { ++c.pairs[2]; },
      [](StepCall& c) { --c.pairs[1]; },
      [](StepCall& c) { c.args.mask.dtype = kF32; },
      [](StepCall& c) { c.args.mask.ndim = 3; },
      [](StepCall& c) { c.args.bias.ndim = 3; },
      [](StepCall& c) {
        c.args.bias.dtype = {QKVET_DTYPE_INT, 32, 1};
      },
      [](StepCall& c) { c.args.q = c.args.o = c.args.lse = {}; }};
  for (const qkvet_kernel* kernel : caches(/*faulty=*/false)) {
    if ((kernel->cache->options & QKVET_CACHE_MASK) == 0) continue;
    for (const auto mistake : mistakes) {
      OpenCache cache(kernel, p);
      StepCall call(p, 0, {1, 2, 3}, {2, 3});
      call.give_pairs(p, {0, 1, 2});
      mistake(call);
      EXPECT_EQ(cache.step(call.args), QKVET_INVALID_ARGUMENT) << kernel->name;
      EXPECT_STRNE(cache.reason(), "");
      EXPECT_EQ(cache.length(0), 0);
    }
  }
}

// What is left in memory by a reset, a truncation or another sequence is NaN.
TEST(CacheKernels, NeverReadWhatTheyHaveForgotten) {
  const Tokens poison(16, kNanToken);
  const Tokens draft(3, kNanToken);
  for (const Storage type : kAllStorages) {
    for (const qkvet_kernel* kernel : caches(/*faulty=*/false)) {
      OpenCache cache(kernel, {.sequences = 3,
                               .heads = 2,
                               .kv_heads = 2,
                               .capacity = 16,
                               .type = type});
      for (const int64_t s : {0, 1, 2}) {
        ASSERT_EQ(cache.step(s, poison, 0), QKVET_OK);
      }
      ASSERT_EQ(cache.reset(1), QKVET_OK);
      EXPECT_EQ(cache.length(1), 0);
      for (int n = 0; n < 4; ++n) {
        ASSERT_EQ(cache.step(1, draft, 0), QKVET_OK);
        ASSERT_EQ(cache.truncate(1, 2 * n), QKVET_OK);
        EXPECT_EQ(cache.length(1), 2 * n);
        ASSERT_EQ(cache.step(1, tokens_from(uint64_t(10 * n + 1), 2), 2),
                  QKVET_OK);
        ASSERT_LE(cache.error(), 1) << kernel->name;
      }
      ASSERT_EQ(cache.truncate(1, 8), QKVET_OK);  // all of them: no change
      ASSERT_EQ(cache.step(1, {}, 1), QKVET_OK);
      ASSERT_LE(cache.error(), 1) << kernel->name;
    }
  }
}

TEST(CacheKernels, TheCapacityIsALimitOrAHint) {
  for (const qkvet_kernel* kernel : caches(/*faulty=*/false)) {
    OpenCache cache(kernel, {.heads = 2, .kv_heads = 2, .capacity = 4});
    ASSERT_EQ(cache.step(0, tokens_from(1, 3), 3), QKVET_OK);
    const qkvet_status status = cache.step(0, tokens_from(4, 2), 2);
    EXPECT_EQ(status, grows(kernel) ? QKVET_OK : QKVET_OUT_OF_MEMORY);
    if (grows(kernel)) {
      for (uint64_t token = 10; token < 40; ++token) {
        ASSERT_EQ(cache.step(0, {token}, 1), QKVET_OK);
        ASSERT_LE(cache.error(), 1) << kernel->name;
      }
      continue;
    }
    EXPECT_STRNE(cache.reason(), "");
    EXPECT_EQ(cache.length(0), 3);
    ASSERT_EQ(cache.step(0, {4}, 2), QKVET_OK);  // the room that was left
    EXPECT_LE(cache.error(), 1) << kernel->name;
    EXPECT_EQ(cache.step(0, {5}, 1), QKVET_OUT_OF_MEMORY);
  }
}

struct Mistake {
  const char* name;
  std::function<void(qkvet_cache_args&)> make;
};

std::vector<Mistake> mistakes(const StepCall& other) {
  using A = qkvet_cache_args;
  const qkvet_tensor k = other.k.tensor(), v = other.v.tensor();
  const qkvet_tensor q = other.q.tensor(), o = other.o.tensor();
  return {
      {"no sequence -1", [](A& a) { a.sequence = -1; }},
      {"no sequence 2", [](A& a) { a.sequence = 2; }},
      {"k without v", [](A& a) { a.v = {}; }},
      {"v without k", [](A& a) { a.k = {}; }},
      {"q without o", [](A& a) { a.o = {}; }},
      {"o without q", [](A& a) { a.q = {}; }},
      {"nothing", [](A& a) { a.k = a.v = a.q = a.o = a.lse = {}; }},
      {"other k", [k](A& a) { a.k = k; }},
      {"other v", [v](A& a) { a.v = v; }},
      {"other q", [q](A& a) { a.q = q; }},
      {"other o", [o](A& a) { a.o = o; }},
      {"d and dv exchanged", [](A& a) { std::swap(a.k, a.v); }},
      {"rank of k", [](A& a) { a.k.ndim = 3; }},
      {"rank of q", [](A& a) { a.q.ndim = 3; }},
      {"rank of lse", [](A& a) { a.lse.ndim = 2; }},
      {"type of v", [](A& a) { a.v.dtype = kBf16; }},
      {"type of q", [](A& a) { a.q.dtype = kF16; }},
      {"type of lse", [](A& a) { a.lse.dtype = kF16; }},
      {"no strides", [](A& a) { a.v.strides = nullptr; }},
      {"lse of other heads", [](A& a) { a.lse = a.k, a.lse.ndim = 3; }},
      {"too many queries",
       [](A& a) {
         a.k = a.v = {};
         a.sequence = 1;  // which holds nothing
       }},
  };
}

TEST(CacheKernels, RefuseIllegalStepsAndChangeNothing) {
  const CacheProblem p = {.sequences = 2, .heads = 4, .kv_heads = 2};
  const StepCall other(
      {.heads = 6, .kv_heads = 3, .width = 5, .value_width = 4}, 0, {8, 9, 8},
      {8, 9, 8});
  for (const qkvet_kernel* kernel : caches(/*faulty=*/false)) {
    OpenCache cache(kernel, p);
    ASSERT_EQ(cache.step(0, tokens_from(1, 3), 3), QKVET_OK);
    for (const Mistake& mistake : mistakes(other)) {
      StepCall call(p, 0, {kNanToken, kNanToken}, {5, 6});
      mistake.make(call.args);
      EXPECT_EQ(cache.step(call.args), QKVET_INVALID_ARGUMENT)
          << kernel->name << " " << mistake.name;
      EXPECT_STRNE(cache.reason(), "") << mistake.name;
      EXPECT_EQ(std::strchr(cache.reason(), '\n'), nullptr);
      for (const float value : call.o.values()) {
        EXPECT_TRUE(std::isnan(value)) << mistake.name;  // not written
      }
      ASSERT_EQ(cache.length(0), 3) << mistake.name;
      ASSERT_EQ(cache.length(1), 0) << mistake.name;
      ASSERT_EQ(cache.step(0, {}, 2), QKVET_OK);
      ASSERT_LE(cache.error(), 1) << kernel->name << " " << mistake.name;
    }
    EXPECT_EQ(cache.truncate(0, 4), QKVET_INVALID_ARGUMENT);
    EXPECT_EQ(cache.truncate(0, -1), QKVET_INVALID_ARGUMENT);
    EXPECT_EQ(cache.truncate(2, 0), QKVET_INVALID_ARGUMENT);
    EXPECT_EQ(cache.reset(-1), QKVET_INVALID_ARGUMENT);
    EXPECT_EQ(cache.length(2), -1);
    EXPECT_EQ(cache.length(0), 3);
    ASSERT_EQ(cache.step(0, {7}, 1), QKVET_OK);
    EXPECT_LE(cache.error(), 1) << kernel->name;
  }
}

TEST(CacheKernels, LseIsOptional) {
  const CacheProblem p = {.heads = 2, .kv_heads = 2};
  for (const qkvet_kernel* kernel : caches(/*faulty=*/false)) {
    OpenCache cache(kernel, p);
    StepCall call(p, 0, {1, 2}, {1, 2});
    call.args.lse = {};
    ASSERT_EQ(cache.step(call.args), QKVET_OK) << cache.reason();
    EXPECT_TRUE(std::isnan(call.lse.at(0, 0, 0)));
    EXPECT_FALSE(std::isnan(call.o.get(0, 1, 1, 2)));
  }
}

TEST(CacheKernels, RefuseConfigurationsThatContradictThemselves) {
  for (const qkvet_kernel* kernel : caches(/*faulty=*/false)) {
    for (const CacheProblem& p :
         {CacheProblem{.sequences = 0}, CacheProblem{.heads = 0},
          CacheProblem{.heads = 3, .kv_heads = 2}, CacheProblem{.width = 0},
          CacheProblem{.value_width = 0}, CacheProblem{.capacity = -1}}) {
      CacheProblem allocated = p;
      allocated.sequences = std::max<int64_t>(p.sequences, 0);
      const OpenCache cache(kernel, allocated);
      EXPECT_EQ(cache.status(), QKVET_INVALID_ARGUMENT) << kernel->name;
      EXPECT_STRNE(cache.reason(), "");
    }
    // A cache that allocates on demand can promise any capacity; no other
    // may get round the question.
    const std::string name = kernel->name;
    const bool on_demand = OpenCache(kernel, {}).memory() == 0;
    EXPECT_EQ(on_demand, name.ends_with("/growing") ||
                             name.ends_with("/paged") ||
                             name.ends_with("/prefix"))
        << name;
    if (!on_demand) {
      const OpenCache huge(kernel, {.capacity = int64_t{1} << 60});
      EXPECT_EQ(huge.status(), QKVET_OUT_OF_MEMORY) << kernel->name;
    }
    qkvet_cache_config mixed = {};
    mixed.struct_size = sizeof(mixed);
    mixed.sequences = mixed.heads = mixed.kv_heads = 1;
    mixed.d = mixed.dv = mixed.capacity = 4;
    mixed.q = mixed.o = kF32;
    mixed.kv = kF16;
    qkvet_cache* cache = nullptr;
    EXPECT_EQ(kernel->cache->create(kernel, nullptr, &mixed, nullptr, &cache,
                                    nullptr),
              QKVET_UNSUPPORTED);
    EXPECT_EQ(cache, nullptr);
  }
}

TEST(CacheKernels, ReadArgumentsOfOlderAndNewerHosts) {
  struct Newer {
    qkvet_cache_args args;
    uint64_t field;
  };
  const CacheProblem p = {};
  for (const qkvet_kernel* kernel : caches(/*faulty=*/false)) {
    OpenCache cache(kernel, p);
    StepCall call(p, 0, {1}, {1});
    Newer newer = {call.args, 1};
    newer.args.struct_size = sizeof(newer);
    EXPECT_EQ(cache.step(newer.args), QKVET_UNSUPPORTED);
    EXPECT_EQ(cache.length(0), 0);
    newer.field = 0;
    EXPECT_EQ(cache.step(newer.args), QKVET_OK);
    call.args.struct_size = offsetof(qkvet_cache_args, lse);
    call.lse.fill(7);
    EXPECT_EQ(cache.step(call.args), QKVET_OK);
    EXPECT_EQ(call.lse.at(0, 0, 0), 7);
    EXPECT_EQ(cache.length(0), 2);
  }
}

}  // namespace
}  // namespace qkvet::impl::cache_kernels_test

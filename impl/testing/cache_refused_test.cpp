// SPDX-License-Identifier: Apache-2.0
// Caches that cannot be made, and impossible steps: every cache refuses them
// with the reason, and is then unchanged. cache_refuses_illegal_calls tests
// those that an operation sequence can spell.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "impl/testing/open_cache.h"

namespace qkvet::impl::cache_refused_test {
namespace {

// The option makes it legal; 0: none does.
using ConfigRow = Refusal<qkvet_cache_config>;

std::vector<ConfigRow> config_rows() {
  using C = qkvet_cache_config;
  constexpr const char* kPositive =
      "sequences, heads, widths and capacity must be positive";
  constexpr const char* kNegative =
      "window, first_tokens and rollback are not negative";
  constexpr const char* kNoWindow =
      "first_tokens and rollback belong to a window, and there is none";
  constexpr const char* kNoCodes = "this cache has no such quantised storage";
  constexpr qkvet_status kNo = QKVET_UNSUPPORTED;
  return {
      {0, kPositive, set(&C::sequences, 0)},
      {0, kPositive, set(&C::heads, 0)},
      {0, kPositive, set(&C::d, 0)},
      {0, kPositive, set(&C::dv, 0)},
      {0, kPositive, set(&C::capacity, -1)},
      {0, "kv_heads do not divide heads", set(&C::heads, 3)},
      {0, "q, kv and o must be all f32, all f16 or all bf16", set(&C::kv, kF16),
       kNo},
      {0, kNegative, set(&C::window, -1)},
      {0, kNegative, [](C& c, Tensors&) { c.window = 2, c.rollback = -1; }},
      {0, kNegative, [](C& c, Tensors&) { c.window = 2, c.first_tokens = -1; }},
      {0, kNoWindow, set(&C::first_tokens, 1)},
      {0, kNoWindow, set(&C::rollback, 1)},
      {0, "scales belong to quantised storage, and stored is absent",
       set(&C::scales, QKVET_SCALES_PER_CHANNEL)},
      {QKVET_CACHE_INT8_PER_TOKEN, kNoCodes,
       [](C& c, Tensors&) {
         c.stored = kInt8Code;
         c.scales = QKVET_SCALES_PER_TOKEN;
       },
       kNo},
      {QKVET_CACHE_FP8_PER_TOKEN, kNoCodes,
       [](C& c, Tensors&) {
         c.stored = kFp8Code;
         c.scales = QKVET_SCALES_PER_TOKEN;
       },
       kNo},
      {QKVET_CACHE_WINDOW, "this cache has no sliding window",
       set(&C::window, 2), kNo},
      {QKVET_CACHE_ALIBI, "slopes is not supported", shaped(&C::slopes, {4}),
       kNo},
      {QKVET_CACHE_SINK, "sink is not supported", shaped(&C::sink, {4}), kNo},
      {QKVET_CACHE_SOFTCAP, "softcap is not supported", set(&C::softcap, 2),
       kNo},
  };
}

TEST(CacheRefused, ConfigurationsThatContradictThemselves) {
  EXPECT_GE(cache_kernels().size(), 7u);
  for (const qkvet_kernel* kernel : cache_kernels()) {
    for (const ConfigRow& row : config_rows()) {
      Tensors t;
      qkvet_cache_config config = small_config();
      row.spoil(config, t);
      const OpenCache cache(kernel, config);
      const bool legal = (kernel->cache->options & row.options) != 0;
      EXPECT_EQ(cache.status(), legal ? QKVET_OK : row.status)
          << kernel->name << ": " << row.reason;
      EXPECT_STREQ(cache.reason().room, legal ? "" : row.reason)
          << kernel->name;
    }
  }
}

// A cache that allocates on demand can promise any capacity; all others must
// check it.
TEST(CacheRefused, MoreMemoryThanThereIs) {
  for (const qkvet_kernel* kernel : cache_kernels()) {
    qkvet_cache_config config = small_config();
    OpenCache small(kernel, config);
    ASSERT_EQ(small.status(), QKVET_OK) << kernel->name;
    const std::string name = kernel->name;
    const bool on_demand = small.memory() == 0;
    EXPECT_EQ(on_demand, name.ends_with("/growing") ||
                             name.ends_with("/paged") ||
                             name.ends_with("/prefix"))
        << name;
    config.capacity = int64_t{1} << 60;
    if (!on_demand) {
      EXPECT_EQ(OpenCache(kernel, config).status(), QKVET_OUT_OF_MEMORY)
          << name;
    }
  }
}

// Without these options another reason comes first.
using StepRow = Refusal<qkvet_cache_args>;

std::vector<StepRow> step_rows() {
  using A = qkvet_cache_args;
  constexpr const char* kAbsent = "there is no such sequence";
  constexpr qkvet_status kNo = QKVET_UNSUPPORTED;
  constexpr uint64_t kMask = QKVET_CACHE_MASK, kBias = QKVET_CACHE_BIAS;
  return {
      {0, kAbsent, set(&A::sequence, -1)},
      {0, kAbsent, set(&A::sequence, 2)},
      {0, "k and v are appended together", set(&A::k, {})},
      {0, "q and o come together", set(&A::o, {})},
      {0, "q and o come together", set(&A::q, {})},
      {0, "more queries than the sequence holds",
       [](A& a, Tensors&) {
         a.k = a.v = {};
         a.sequence = 1;  // which holds nothing
       }},
      {0, "k [1,Hkv,Tnew,d]: 3 at axis 1, 2 is needed",
       shaped(&A::k, {1, 3, 2, 6})},
      {0, "q [1,H,Tq,d]: 6 at axis 1, 4 is needed",
       shaped(&A::q, {1, 6, 2, 6})},
      {0, "lse [1,H,Tq]: 3 at axis 1, 4 is needed", shaped(&A::lse, {1, 3, 2})},
      {0, "v [1,Hkv,Tnew,dv]: 4 at axis 3, 5 is needed",
       shaped(&A::v, {1, 2, 2, 4})},
      {0, "o [1,H,Tq,dv]: 6 at axis 3, 5 is needed",
       shaped(&A::o, {1, 4, 2, 6})},
      {0, "k [1,Hkv,Tnew,d]: 5 at axis 3, 6 is needed",
       [](A& a, Tensors&) { std::swap(a.k, a.v); }},
      {0, "v [1,Hkv,Tnew,dv]: 3 at axis 2, 2 is needed",
       shaped(&A::v, {1, 2, 3, 5})},
      {0, "lse [1,H,Tq]: 3 at axis 2, 2 is needed", shaped(&A::lse, {1, 4, 3})},
      {0, "k [1,Hkv,Tnew,d]: 2 at axis 0, 1 is needed",
       shaped(&A::k, {2, 2, 2, 6})},
      {0, "k [1,Hkv,Tnew,d]: the wrong rank", ranked(&A::k, 3)},
      {0, "q [1,H,Tq,d]: the wrong rank", ranked(&A::q, 3)},
      {0, "lse [1,H,Tq]: the wrong rank", ranked(&A::lse, 2)},
      {0, "v [1,Hkv,Tnew,dv]: the wrong rank, or no shape and strides",
       [](A& a, Tensors&) { a.v.strides = nullptr; }},
      {0, "v must be of the type of the cache", typed(&A::v, kBf16), kNo},
      {0, "q must be of the type of the cache", typed(&A::q, kF16), kNo},
      {0, "lse must be f32", typed(&A::lse, kF16), kNo},
      {0, "the tables of a rotation end before the sequence does",
       [](A& a, Tensors& t) {
         a.rope = QKVET_ROPE_HALF;
         a.rope_cos = a.rope_sin = t.make({4, 3});
       }},
      {kMask, "mask [1,H,Tq,L]: 4 at axis 3, 5 is needed",
       shaped(&A::mask, {1, 4, 2, 4}, kBool)},
      {kMask, "mask [1,H,Tq,L]: 3 at axis 2, 2 is needed",
       shaped(&A::mask, {1, 4, 3, 5}, kBool)},
      {kBias, "bias [1,H,Tq,L]: 3 at axis 1, 4 is needed",
       shaped(&A::bias, {1, 3, 2, 5})},
      {kBias, "bias [1,H,Tq,L]: the wrong rank", shaped(&A::bias, {4, 2, 5})},
      {kMask, "mask must be bool or uint8", shaped(&A::mask, {1, 4, 2, 5}),
       kNo},
      {kBias, "bias must be f32 or of the type of the cache",
       shaped(&A::bias, {1, 4, 2, 5}, kInt32), kNo},
      {kMask, "lse, mask and bias belong to queries, and q is absent",
       [](A& a, Tensors& t) {
         a.mask = t.make({1, 4, 2, 5}, kBool);
         a.q = a.o = a.lse = {};
       }},
  };
}

// Two tokens and two queries after three tokens.
TEST(CacheRefused, StepsThatContradictTheirCacheAndChangeNothing) {
  const qkvet_cache_config config = small_config();
  for (const qkvet_kernel* kernel : cache_kernels()) {
    OpenCache cache(kernel, config);
    ASSERT_EQ(cache.step(0, tokens_from(1, 3), 3), QKVET_OK) << kernel->name;
    const std::vector<float> keys = cache.keys(0);
    const auto make = [&config](Tensors& t) {
      return step_call(t, config, 0, {4, 5}, 2);
    };
    const auto run = [&cache](const qkvet_cache_args& a, qkvet_text* why) {
      return cache.step(a, why);
    };
    for (const StepRow& row : step_rows()) {
      if ((row.options & ~kernel->cache->options) != 0) {
        continue;
      }
      EXPECT_EQ(wrong_refusal<qkvet_cache_args>(row, make, run), "")
          << kernel->name << ": " << row.reason;
      ASSERT_EQ(cache.length(0), 3) << row.reason;
      ASSERT_EQ(cache.length(1), 0) << row.reason;
    }
    EXPECT_EQ(cache.keys(0), keys) << kernel->name;
    EXPECT_EQ(wrong_with_newer<qkvet_cache_args>(make, run), "")
        << kernel->name;
    EXPECT_EQ(cache.length(0), 5);
    // Without lse, a field that older hosts lack, o is the same.
    Tensors t;
    qkvet_cache_args older = step_call(t, config, 0, {}, 2);
    EXPECT_EQ(cache.step(older, nullptr), QKVET_OK);
    t.remember();
    older.struct_size = offsetof(qkvet_cache_args, lse);
    EXPECT_EQ(cache.step(older, nullptr), QKVET_OK) << kernel->name;
    EXPECT_TRUE(t.unchanged()) << kernel->name;
  }
}

TEST(CacheRefused, MasksAndBiasesThatAreNotDeclared) {
  for (const qkvet_kernel* kernel : cache_kernels()) {
    OpenCache cache(kernel, small_config());
    for (const uint64_t option : {QKVET_CACHE_MASK, QKVET_CACHE_BIAS}) {
      Tensors t;
      qkvet_cache_args args = step_call(t, cache.config, 0, {1}, 1);
      (option == QKVET_CACHE_MASK ? args.mask : args.bias) =
          option == QKVET_CACHE_MASK ? t.make({1, 4, 1, 1}, kBool)
                                     : t.make({1, 4, 1, 1});
      const bool declared = (kernel->cache->options & option) != 0;
      EXPECT_EQ(cache.step(args, nullptr),
                declared ? QKVET_OK : QKVET_UNSUPPORTED)
          << kernel->name;
      ASSERT_EQ(cache.reset(0), QKVET_OK);
    }
  }
}

// Numbers that no operation sequence can spell.
TEST(CacheRefused, SequencesAndTokensThatAreNotThere) {
  for (const qkvet_kernel* kernel : cache_kernels()) {
    OpenCache cache(kernel, small_config());
    ASSERT_EQ(cache.step(0, tokens_from(1, 3), 0), QKVET_OK);
    const qkvet_cache_table& table = *kernel->cache;
    int64_t tokens = 77;
    EXPECT_EQ(cache.length(2, &tokens), QKVET_INVALID_ARGUMENT);
    EXPECT_EQ(cache.length(-1, &tokens), QKVET_INVALID_ARGUMENT);
    EXPECT_EQ(tokens, 77);
    EXPECT_EQ(cache.reset(-1), QKVET_INVALID_ARGUMENT);
    if (table.truncate != nullptr) {
      EXPECT_EQ(cache.truncate(-1, 0), QKVET_INVALID_ARGUMENT);
    }
    if (table.evict != nullptr) {
      EXPECT_EQ(cache.evict(0, 1, INT64_MAX), QKVET_INVALID_ARGUMENT);
      EXPECT_EQ(cache.evict(0, INT64_MAX, INT64_MAX), QKVET_INVALID_ARGUMENT);
      EXPECT_EQ(cache.evict(0, 0, 0), QKVET_INVALID_ARGUMENT);
    }
    if (table.fork != nullptr) {
      EXPECT_EQ(cache.fork(-1, 0), QKVET_INVALID_ARGUMENT);
      EXPECT_EQ(cache.reorder({-1, 1}), QKVET_INVALID_ARGUMENT);
    }
    if (table.read_back != nullptr) {
      Tensors t;
      const qkvet_tensor k = t.make({1, 2, 3, 6}), v = t.make({1, 2, 3, 5});
      const qkvet_tensor longer = t.make({1, 2, 4, 5});
      t.remember();
      Reason why;
      EXPECT_EQ(cache.read_back(-1, k, v, &why.text), QKVET_INVALID_ARGUMENT);
      EXPECT_EQ(cache.read_back(0, k, longer, &why.text),
                QKVET_INVALID_ARGUMENT);
      EXPECT_STRNE(why.room, "");
      EXPECT_TRUE(t.unchanged()) << kernel->name;
      EXPECT_EQ(cache.read_back(0, k, v, nullptr), QKVET_OK);
    }
    EXPECT_EQ(cache.length(0), 3) << kernel->name;
  }
}

}  // namespace
}  // namespace qkvet::impl::cache_refused_test

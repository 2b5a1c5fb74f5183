// SPDX-License-Identifier: Apache-2.0
// Differences between the kinds of caches that no law can see: bytes for
// tokens, bytes shared by sequences, and the code that a tie becomes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "impl/kv_cache/prefix.h"
#include "impl/skeletons/cache_table.h"
#include "impl/testing/open_cache.h"

namespace qkvet::impl::memory_test {
namespace {

constexpr int64_t kCapacity = 32;
constexpr int64_t kHeads = 2;  // Hkv
// The bytes of one token in f32, in all key/value heads.
constexpr int64_t kToken = kHeads * (6 + 5) * 4;
constexpr int64_t kPage = 4 * kToken;

qkvet_cache_config three_sequences() {
  qkvet_cache_config config = small_config();
  config.sequences = 3;
  config.capacity = kCapacity;
  return config;
}

// A kind of cache at every available instruction set.
std::vector<const qkvet_kernel*> kinds(const std::string& name) {
  const auto found = kernels_that([&name](const qkvet_kernel& kernel) {
    const std::string full = kernel.name;
    return full == "kv_cache/" + name || full == "kv_cache_avx2/" + name;
  });
  EXPECT_FALSE(found.empty()) << name;
  return found;
}

TEST(CacheMemory, IsAllThereOrGrows) {
  for (const char* name : {"contiguous", "split", "ring", "quantised"}) {
    for (const qkvet_kernel* kernel : kinds(name)) {
      OpenCache cache(kernel, three_sequences());
      EXPECT_EQ(cache.memory(), 3 * kCapacity * kToken) << name;
      ASSERT_EQ(cache.step(0, tokens_from(1, 20), 1), QKVET_OK);
      ASSERT_EQ(cache.fork(0, 1), QKVET_OK);
      EXPECT_EQ(cache.memory(), 3 * kCapacity * kToken) << name;
    }
  }
  for (const qkvet_kernel* kernel : kinds("growing")) {
    OpenCache cache(kernel, three_sequences());
    EXPECT_EQ(cache.memory(), 0);
    ASSERT_EQ(cache.step(0, tokens_from(1, 5), 1), QKVET_OK);
    ASSERT_EQ(cache.step(0, {9}, 1), QKVET_OK);
    EXPECT_EQ(cache.memory(), 10 * kToken);
    ASSERT_EQ(cache.fork(0, 2), QKVET_OK);
    ASSERT_EQ(cache.reset(0), QKVET_OK);
    EXPECT_EQ(cache.memory(), 20 * kToken);
  }
}

TEST(CacheMemory, OfARingIsWhatItsWindowShows) {
  qkvet_cache_config config = three_sequences();
  config.window = 4;
  config.first_tokens = 2;
  config.rollback = 1;
  for (const qkvet_kernel* kernel : kinds("ring")) {
    OpenCache cache(kernel, config);
    ASSERT_EQ(cache.step(0, tokens_from(1, 30), 30), QKVET_OK);
    EXPECT_EQ(cache.memory(), 3 * (4 + 2 + 1) * kToken);
    config.capacity = 5;  // less than that
    EXPECT_EQ(OpenCache(kernel, config).memory(), 3 * 5 * kToken);
    config.capacity = kCapacity;
  }
}

TEST(CacheMemory, OfCodesIsAByteANumberAndTheScales) {
  Tensors t;
  for (const qkvet_kernel* kernel : kinds("quantised")) {
    for (const qkvet_dtype code : {kInt8Code, kFp8Code}) {
      qkvet_cache_config config = three_sequences();
      config.stored = code;
      config.scales = QKVET_SCALES_PER_TOKEN;
      EXPECT_EQ(OpenCache(kernel, config).memory(),
                3 * kHeads * kCapacity * (6 + 5 + 4 + 4));
      config.scales = QKVET_SCALES_PER_CHANNEL;
      config.k_scale = t.make({kHeads, 6});
      config.v_scale = t.make({kHeads, 5});
      for (const qkvet_tensor& scales : {config.k_scale, config.v_scale}) {
        std::fill_n(static_cast<float*>(scales.data), kHeads * scales.shape[1],
                    1.0f);
      }
      EXPECT_EQ(OpenCache(kernel, config).memory(),
                3 * kHeads * kCapacity * (6 + 5));
    }
  }
}

// The largest number of a row is the largest code, so that the scale is 1.
TEST(CacheMemory, OfCodesIsTheNearestAndOnTiesTheEvenOne) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const struct {
    qkvet_dtype coded;
    float given[4], kept[4];
  } rows[] = {{kInt8Code, {127, 2.5f, 3.5f, -0.5f}, {127, 2, 4, 0}},
              {kInt8Code, {-127, -1.5f, 1.25f, 126.5f}, {-127, -2, 1, 126}},
              {kInt8Code, {0, 0, 0, 0}, {0, 0, 0, 0}},
              {kInt8Code, {1, nan, 0, 2}, {nan, nan, nan, nan}},
              {kFp8Code, {448, 17, 19, 0x1p-10f}, {448, 16, 20, 0}},
              {kFp8Code, {-448, 33, 0x3p-10f, 1}, {-448, 32, 0x1p-8f, 1}},
              {kFp8Code, {0, 0, 0, 0}, {0, 0, 0, 0}},
              {kFp8Code, {1, 2, 3, nan}, {nan, nan, nan, nan}}};
  for (const qkvet_kernel* kernel : kinds("quantised")) {
    for (const auto& row : rows) {
      qkvet_cache_config config = small_config();
      config.kv_heads = 1;
      config.d = 4;
      config.stored = row.coded;
      config.scales = QKVET_SCALES_PER_TOKEN;
      OpenCache cache(kernel, config);
      ASSERT_EQ(cache.status(), QKVET_OK) << cache.reason().room;
      Tensors t;
      const qkvet_cache_args args = step_call(t, config, 0, {1}, 0);
      std::copy_n(row.given, 4, static_cast<float*>(args.k.data));
      ASSERT_EQ(cache.step(args, nullptr), QKVET_OK);
      const std::vector<float> k = cache.keys(0);
      ASSERT_EQ(k.size(), 4u);
      for (size_t c = 0; c < 4; ++c) {
        if (std::isnan(row.kept[c])) {
          EXPECT_TRUE(std::isnan(k[c])) << kernel->name;
        } else {
          EXPECT_EQ(k[c], row.kept[c]) << kernel->name << " " << c;
        }
      }
    }
  }
}

TEST(CacheMemory, OfPagesIsSharedUntilASequenceWrites) {
  for (const char* name : {"paged", "prefix"}) {
    for (const qkvet_kernel* kernel : kinds(name)) {
      OpenCache cache(kernel, three_sequences());
      const auto pages = [&cache] { return cache.memory() / kPage; };
      EXPECT_EQ(pages(), 0) << name;
      ASSERT_EQ(cache.step(0, tokens_from(1, 6), 6), QKVET_OK);
      EXPECT_EQ(pages(), 2) << name;
      ASSERT_EQ(cache.fork(0, 1), QKVET_OK);
      ASSERT_EQ(cache.fork(0, 2), QKVET_OK);
      EXPECT_EQ(pages(), 2) << name;
      ASSERT_EQ(cache.step(1, {21}, 1), QKVET_OK);
      EXPECT_EQ(pages(), 3) << name;
      ASSERT_EQ(cache.step(2, {22}, 1), QKVET_OK);
      EXPECT_EQ(pages(), 4) << name;
      ASSERT_EQ(cache.step(0, {23}, 1), QKVET_OK);  // no longer shared
      EXPECT_EQ(pages(), 4) << name;
      for (const int64_t s : {0, 1, 2}) {
        ASSERT_EQ(cache.reset(s), QKVET_OK);
      }
      ASSERT_EQ(cache.step(1, tokens_from(31, 16), 16), QKVET_OK);
      EXPECT_EQ(pages(), 4) << name;  // all were free
      ASSERT_EQ(cache.step(1, {50}, 1), QKVET_OK);
      EXPECT_EQ(pages(), 5) << name;
    }
  }
}

// Tokens of a first page and of a second.
Tokens prompt(int first, int second) {
  Tokens all = tokens_from(first, 4);
  const Tokens more = tokens_from(second, 4);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Pages that are allocated after these prompts, each in a sequence of its own.
int64_t pages_of(const qkvet_kernel* kernel,
                 const std::vector<Tokens>& prompts) {
  OpenCache cache(kernel, three_sequences());
  for (size_t s = 0; s < prompts.size(); ++s) {
    EXPECT_EQ(cache.step(static_cast<int64_t>(s), prompts[s], 1), QKVET_OK);
  }
  return cache.memory() / kPage;
}

// A prompt has pages of its own until it is recognised as an existing one: they
// are then free for the next one.
TEST(CacheMemory, OfOneBeginningIsSharedByPrefix) {
  const Tokens same = prompt(1, 11);
  for (const qkvet_kernel* kernel : kinds("paged")) {
    EXPECT_EQ(pages_of(kernel, {same, same, same}), 6);
  }
  for (const qkvet_kernel* kernel : kinds("prefix")) {
    EXPECT_EQ(pages_of(kernel, {same, same, same}), 4);
    // The same first page only: 2 + 2, of which one is free.
    EXPECT_EQ(pages_of(kernel, {same, prompt(1, 21), prompt(1, 31)}), 5);
    // A second page with equal tokens after another first page is not shared.
    EXPECT_EQ(pages_of(kernel, {same, prompt(5, 11), prompt(6, 11)}), 6);
  }
}

// Rows of queries meet the same keys in the same order in any memory.
// check.* has few operation sequences that wrap around a ring after first
// tokens.
TEST(CacheMemory, AnswersAreThoseOfContiguousMemory) {
  for (const char* name : {"growing", "paged", "prefix", "ring"}) {
    for (const int64_t first : {0, 1, 3}) {
      qkvet_cache_config config = three_sequences();
      config.window = 4;
      config.first_tokens = first;
      config.rollback = 1;
      OpenCache right(find_kernel("kv_cache/contiguous"), config);
      OpenCache other(find_kernel(std::string("kv_cache/") + name), config);
      for (int token = 1; token < 31; ++token) {
        Tensors t;
        const qkvet_cache_args args =
            step_call(t, config, 0, {token}, token > 1 ? 2 : 1);
        ASSERT_EQ(right.step(args, nullptr), QKVET_OK);
        t.remember();
        ASSERT_EQ(other.step(args, nullptr), QKVET_OK);
        EXPECT_TRUE(t.unchanged()) << name << " " << first << " " << token;
      }
    }
  }
}

// All pages have the same hash: only the comparison can distinguish them.
class OneHash : public PrefixCache {
 public:
  using PrefixCache::PrefixCache;

 protected:
  uint64_t hash_of(int64_t, size_t) override { return 0; }
};
constexpr qkvet_kernel kOneHash = cache_kernel(
    "right/one_hash", "prefixes that all have one hash",
    {"impl/kv_cache/memory_test.cpp", __LINE__}, &kCacheTable<OneHash>);

// A hash finds candidates and does not prove equality. Pages that an eviction
// has closed up are looked up as well.
TEST(CacheMemory, PrefixesAreComparedByteByByte) {
  OpenCache one_hash(&kOneHash, three_sequences());
  OpenCache right(find_kernel("kv_cache/contiguous"), three_sequences());
  for (OpenCache* cache : {&one_hash, &right}) {
    ASSERT_EQ(cache->step(0, prompt(1, 11), 1), QKVET_OK);
    ASSERT_EQ(cache->step(1, prompt(1, 21), 1), QKVET_OK);
    ASSERT_EQ(cache->step(2, prompt(5, 11), 1), QKVET_OK);
    ASSERT_EQ(cache->evict(2, 1, 2), QKVET_OK);
    ASSERT_EQ(cache->step(2, tokens_from(41, 6), 1), QKVET_OK);
  }
  for (const int64_t s : {0, 1, 2}) {
    EXPECT_FALSE(right.keys(s).empty());
    EXPECT_EQ(one_hash.keys(s), right.keys(s)) << s;
  }
}

}  // namespace
}  // namespace qkvet::impl::memory_test

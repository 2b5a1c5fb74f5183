// SPDX-License-Identifier: Apache-2.0
// qkvet bench decode and qkvet demo memory: their output, their refusals, and
// their arithmetic. No time is asserted.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/base/checked.h"
#include "cli/base/growth.h"
#include "cli/base/model_text.h"
#include "cli/base/program_run.h"
#include "cli/base/read_loop.h"
#include "cli/bench/bench_call.h"
#include "cli/bench/bench_decode.h"
#include "cli/demos/kv_memory.h"
#include "core/case/story.h"
#include "core/testing/tables_plugin_calls.h"

namespace qkvet::cli::bench_test {
namespace {

using Numbers = std::vector<double>;

const Numbers kExtents = {2048, 4096, 8192, 16384, 32768};

Numbers times(double (*of)(double)) {
  Numbers seconds;
  for (const double extent : kExtents) seconds.push_back(of(extent));
  return seconds;
}

TEST(Growth, PowersAreFound) {
  const auto p = [](double (*of)(double)) {
    return growth_exponent(kExtents, times(of)).value_or(-1);
  };
  EXPECT_NEAR(p([](double n) { return 3e-8 * n; }), 1, 1e-12);
  EXPECT_NEAR(p([](double n) { return 7e-9 * n * n; }), 2, 1e-12);
  EXPECT_NEAR(p([](double) { return 0.5; }), 0, 1e-12);
  // The number of pairs if a prefix of n + 1 tokens is recomputed.
  EXPECT_NEAR(p([](double n) { return (n + 1) * (n + 2) / 2; }), 2, 1e-3);
  // The controls: neither a square nor a constant in front is taken for linear.
  EXPECT_GT(p([](double n) { return n * n; }), 1.9);
  EXPECT_LT(p([](double n) { return 1e-3 + 3e-8 * n; }), 0.9);
}

// A fit through the ends alone would ignore the point in the middle.
TEST(Growth, EveryPointCounts) {
  const Numbers extents = {1, 2, 4, 8};
  const double bent = growth_exponent(extents, Numbers{1, 4, 4, 8}).value();
  // Slopes of squares: x = -3, -1, 1, 3 half octaves, y = 0, 2, 2, 3 octaves.
  EXPECT_NEAR(bent, (-1 * 2 + 1 * 2 + 3 * 3) / 20.0 * 2, 1e-12);
}

TEST(Growth, WhatIsNotDeterminedIsAbsent) {
  EXPECT_FALSE(growth_exponent(Numbers{8}, Numbers{1}));
  EXPECT_FALSE(growth_exponent(Numbers{8, 8}, Numbers{1, 2}));
  EXPECT_FALSE(growth_exponent(Numbers{8, 16}, Numbers{1}));
  EXPECT_FALSE(growth_exponent(Numbers{8, 16}, Numbers{0, 1}));
  EXPECT_FALSE(growth_exponent(Numbers{8, 16}, Numbers{1, std::nan("")}));
  EXPECT_TRUE(growth_exponent(Numbers{8, 16}, Numbers{1, 1}));
}

TEST(Growth, SpreadsAreInOrder) {
  const Spread odd = spread_of({5, 1, 3});
  EXPECT_EQ(odd.least, 1);
  EXPECT_EQ(odd.median, 3);
  EXPECT_EQ(odd.most, 5);
  EXPECT_EQ(spread_of({4, 1, 2, 9}).median, 3);
  EXPECT_EQ(spread_of({}).most, 0);
}

TEST(ReadLoop, ReadsEveryValue) {
  for (const size_t count : {0, 1, 31, 32, 33, 70}) {
    std::vector<float> values(count, 1);
    EXPECT_EQ(sum_of(values), static_cast<float>(count));
    for (float& value : values) {
      value = 2;
      EXPECT_EQ(sum_of(values), static_cast<float>(count + 1));
      value = 1;
    }
  }
}

TEST(ModelText, IsReadAsACaseSpellsExtents) {
  int64_t H = 1, d = 16;
  std::vector<int64_t> Tk = {5};
  const auto read = [&](const std::string& text, std::string* dtype = nullptr) {
    std::vector<ModelExtent> extents = {
        {"H", 1024, &H}, {"d", 1024, &d}, {"Tk", 16777216, nullptr, &Tk}};
    return read_model_text(text, extents, dtype);
  };
  EXPECT_EQ(read("H3"), "");
  EXPECT_EQ(H, 3);
  EXPECT_EQ(d, 16);
  EXPECT_EQ(Tk, std::vector<int64_t>{5});
  std::string dtype;
  EXPECT_EQ(read("Tk1.5.16777216,f16,d8", &dtype), "");
  EXPECT_EQ(Tk, (std::vector<int64_t>{1, 5, 16777216}));
  EXPECT_EQ(d, 8);
  EXPECT_EQ(dtype, "f16");
  const std::pair<const char*, const char*> rows[] = {
      {"", "\"\" is no extent"},
      {"H3,", "\"\" is no extent; allowed: H, d, Tk"},
      {"X3", "X3 is no extent"},
      {"f16", "f16 is no extent"},
      {"H", "H: allowed is H with a number from 1 to 1024"},
      {"H0", "H0: allowed"},
      {"H-1", "H-1: allowed"},
      {"H1025", "H1025: allowed"},
      {"H1.2", "H1.2: allowed"},
      {"H99999999999999999999", "allowed"},
      {"H2,H3", "H3: H is given twice"},
      {"Tk4.4", "Tk4.4: allowed is Tk with ascending numbers"},
      {"Tk4.2", "ascending"},
      {"Tk2k", "ascending"},
      {"Tk1..2", "ascending"}};
  for (const auto& [text, part] : rows) EXPECT_TRUE(has(read(text), part));
  for (const char* const text : {"H3", "L2,H4", "Tk1.5", "f16,L32", "H-1"})
    EXPECT_TRUE(is_model_text(text)) << text;
  for (const char* const text : {"scalar/plain", "./lib.so", "mine.cpp",
                                 "lib2.so", "a:b", "*", "kv_cache/*", "", "H"})
    EXPECT_FALSE(is_model_text(text)) << text;
}

TEST(Contexts, TooLargeIsSaidBeforehand) {
  DecodeBench bench;
  bench.contexts = {8, 1024};
  EXPECT_EQ(too_large(bench), "");
  bench.H = bench.Hkv = bench.d = 1 << 12;
  bench.contexts = {8, 1 << 24};
  EXPECT_TRUE(has(too_large(bench), "are free"));
  bench.H = bench.Hkv = bench.d = 1 << 24;
  EXPECT_TRUE(has(too_large(bench), "any memory"));
}

// Steps, cuts and recomputing, with grouped heads and by both ways of going on.
TEST(BenchDecode, ReachesTheKernelAndGoesOn) {
  const auto executor = tables();
  DecodeBench bench;
  bench.contexts = {1, 6};
  bench.H = 2;
  bench.d = kKeyWidth;
  bench.repeat = 2;
  for (const char* const kernel : {"cache", "no_truncate"}) {
    const DecodeResult result =
        bench_decode(bench, *executor, number_of(*executor, kernel, "tables"));
    ASSERT_EQ(result.error, "");
    EXPECT_EQ(result.truncates, std::string(kernel) == "cache");
    ASSERT_EQ(result.rows.size(), 2U);
    EXPECT_EQ(result.rows[0].context, 1);
    EXPECT_EQ(result.rows[0].bytes, 2 * 2 * kKeyWidth * 4);
    EXPECT_EQ(result.rows[1].bytes, 2 * 7 * kKeyWidth * 4);
    for (const DecodeTimes& row : result.rows)
      for (const Spread& spread : {row.cached, row.recomputed}) {
        EXPECT_GT(spread.least, 0);
        EXPECT_LE(spread.least, spread.median);
        EXPECT_LE(spread.median, spread.most);
      }
  }
}

TEST(BenchDecode, WhatGoesWrongIsTheError) {
  const auto executor = tables();
  DecodeBench bench;
  bench.contexts = {4};
  bench.d = kKeyWidth;
  const struct {
    const char* kernel;
    const char* error;
    bool died;
  } rows[] = {{"no_create", "keeps no such cache", false},
              {"wrong_length", "should hold 4 tokens", false},
              {"no_memory", "lost count", false},
              {"reset_crash", "", false},  // nothing resets
              {"truncate_crash", "SIGSEGV", true}};
  for (const auto& row : rows) {
    const DecodeResult result = bench_decode(
        bench, *executor, number_of(*executor, row.kernel, "tables"));
    EXPECT_EQ(result.error.empty(), *row.error == 0) << result.error;
    EXPECT_TRUE(has(result.error, row.error));
    EXPECT_EQ(result.died, row.died);
  }
}

TEST(BenchDecode, GrowthIsThatOfTheChosenTimes) {
  // Least times are as in theory, medians are those of a busy machine.
  std::vector<DecodeTimes> rows;
  for (const double N : kExtents) {
    DecodeTimes row;
    row.context = static_cast<int64_t>(N);
    row.cached = {N, 1.5 * N * std::sqrt(N / kExtents[0]), 9 * N * N};
    row.recomputed = {N * N, N * N * N, N * N * N};
    rows.push_back(row);
  }
  const DecodeGrowth least = growth_of(rows, &Spread::least);
  EXPECT_NEAR(least.cached.value(), 1, 1e-12);
  EXPECT_NEAR(least.recomputed.value(), 2, 1e-12);
  const DecodeGrowth median = growth_of(rows, &Spread::median);
  EXPECT_NEAR(median.cached.value(), 1.5, 1e-12);
  EXPECT_NEAR(median.recomputed.value(), 3, 1e-12);
  EXPECT_NEAR(noise_of(rows), kExtents.back(), 1e-6);
  for (DecodeTimes& row : rows) row.recomputed.median = row.recomputed.least;
  EXPECT_NEAR(noise_of(rows), 1.5 * 4, 1e-12);
}

// Llama 3.1 8B, 128 Ki tokens, f16: 16 GiB.
KvGeometry large() { return {32, 8, 128, 131072, 1, Dtype::kF16}; }

TEST(KvMemory, TheFormula) {
  EXPECT_EQ(kv_bytes(large()), int64_t{16} << 30);
  EXPECT_EQ(kv_bytes({1, 1, 1, 1, 1, Dtype::kInt8}), 2);
  // Every factor counts, once.
  const KvGeometry one = {2, 3, 5, 7, 11, Dtype::kF32};
  EXPECT_EQ(kv_bytes(one), 2 * 2 * 3 * 5 * 7 * 11 * 4);
  KvGeometry most = {int64_t{1} << 61, 1, 1, 1, 1, Dtype::kInt8};
  EXPECT_EQ(kv_bytes(most), int64_t{1} << 62);
  most.batch = 2;
  EXPECT_FALSE(kv_bytes(most));
  most = {int64_t{1} << 32, int64_t{1} << 32, 1, 1, 1, Dtype::kInt8};
  EXPECT_FALSE(kv_bytes(most)) << "2^65 modulo 2^64";
  EXPECT_EQ(checked_product({INT64_MAX, 1}), INT64_MAX);
}

TEST(KvMemory, SamplesFitAndSayHow) {
  constexpr int64_t kMost = int64_t{64} << 20;
  for (const int64_t batch : {1, 2, 7, 8, 9, 16, 17, 24})
    for (const int64_t context : {1, 100, 131072, 999999999})
      for (const int64_t heads : {1, 8, 999}) {
        KvGeometry whole = large();
        whole.batch = batch;
        whole.context = context;
        whole.Hkv = heads;
        const KvGeometry sample = sample_of(whole, kMost).geometry;
        EXPECT_LE(kv_bytes(sample), kMost);
        EXPECT_EQ(whole.batch % sample.batch, 0);
        EXPECT_LE(sample.batch, kMostSequences);
        EXPECT_EQ(sample.d, whole.d);
        // A cache as large as the formula predicts is so after scaling, too.
        EXPECT_NEAR(scaled_up(*kv_bytes(sample), sample, whole) /
                        static_cast<double>(*kv_bytes(whole)),
                    1, 1e-12);
      }
  EXPECT_EQ(sample_of({1, 2, 4, 8, 8, Dtype::kF32}, kMost).scaled, "");
  EXPECT_EQ(sample_of({2, 2, 4, 8, 12, Dtype::kF32}, kMost).scaled,
            "layers 2 -> 1, batch 12 -> 6");
  EXPECT_EQ(sample_of({1, 2, 4, 8, 1, Dtype::kF32}, 64).scaled,
            "kv-heads 2 -> 1, context 8 -> 2");
}

TEST(KvMemory, TheKernelIsAsked) {
  const auto executor = tables();
  const auto asked = [&](const char* kernel, const KvGeometry& geometry,
                         StoredAs stored = StoredAs::kAsGiven) {
    return allocate(geometry, stored, *executor,
                    number_of(*executor, kernel, "tables"));
  };
  const KvGeometry small = {1, 2, 4, 5, 3, Dtype::kF32};
  const KvAllocated told = asked("cache", small);
  EXPECT_EQ(told.error, "");
  EXPECT_EQ(told.bytes, kv_bytes(small));
  EXPECT_EQ(asked("no_truncate", small).bytes, -1);  // without memory()
  EXPECT_TRUE(has(asked("wrong_memory", small).error, "memory() returns -"));
  EXPECT_FALSE(asked("wrong_memory", small).died);
  EXPECT_TRUE(asked("memory_crash", small).died);
  // It keeps codes as floats, and so takes four times the size by the formula.
  const KvGeometry codes = {1, 2, 4, 5, 3, Dtype::kInt8};
  EXPECT_EQ(asked("cache", codes, StoredAs::kInt8PerChannel).bytes,
            *kv_bytes(codes) * 4);
  EXPECT_NE(asked("cache", codes, StoredAs::kInt8PerToken).error, "");
  EXPECT_EQ(ways_to_store(Dtype::kFp8e4m3).size(), 2U);
  EXPECT_EQ(ways_to_store(Dtype::kF16),
            std::vector<StoredAs>{StoredAs::kAsGiven});
}

TEST(BenchCall, OperationsAndBytesOfTheDefinition) {
  const struct {
    const char* value;
    double operations, bytes;
  } rows[] = {
      {"f32,B2,H4,Hkv2,Tq3,Tk5,d8,dv6", 2. * 2 * 4 * 15 * 14,
       4. * 2 * (4 * 3 * 8 + 2 * 5 * 14)},
      {"f16,B1,H1,Tq3,Tk5,d8,causal=tl", 2. * 6 * 16, 2. * (24 + 80)},
      {"f32,B1,H1,Tq3,Tk5,d8,causal=br", 2. * 12 * 16, 4. * (24 + 80)},
      {"f32,B1,H1,Tq5,Tk3,d8,causal=br", 2. * 6 * 16, 4. * (40 + 48)},
      {"f32,B1,H1,Tq3,Tk5,d8,backward", 5. * 15 * 16, 4. * (24 + 80)},
      {"f32,B1,H2,T3,D8", 2. * 2 * 9 * 8 + 8. * 3 * 64, 4. * (24 + 256)},
      {"f32,B1,H2,T3,D8,backward", 5. * 2 * 9 * 8 + 16. * 3 * 64,
       4. * (24 + 256)},
  };
  for (const auto& row : rows) {
    const Case value = parse_case(row.value).value.value();
    EXPECT_EQ(operations_of(value), row.operations) << row.value;
    EXPECT_EQ(bytes_of(value), row.bytes) << row.value;
  }
}

TEST(BenchCall, NoiseIsWhatTheLeastTimesAllow) {
  EXPECT_EQ(compared({1, 2, 9}, {1.5, 3, 4}), "noise");
  EXPECT_EQ(compared({1, 2, 9}, {2, 3, 4}), "noise");
  EXPECT_EQ(compared({1, 2, 9}, {2.5, 4, 5}), "0.50 times as fast");
  EXPECT_EQ(compared({2.5, 4, 5}, {1, 2, 9}), "2.00 times as fast");
}

TEST(BenchProgram, TimesCallsBesideTheLimitsOfACore) {
  const std::string json = "'" + (scratch() / "calls.jsonl").string() + "'";
  const std::string call =
      "bench call f32,B1,H1,Tq4,Tk4,d4 f32,B1,H1,Tq4,Tk4,d4,backward "
      "--repeat 2 -k scalar/plain ";
  for (const std::string more : {"--json ", "--baseline "}) {
    const Ran ran = exits(0, run_qkvet(call + more + json));
    EXPECT_EQ(ran.error, "");
    for (const char* const part :
         {"f32,B1,H1,Tq4,Tk4,d4,backward   one core; its peak ", "GFLOP/s with",
          "of peak", "of loop", "scalar/plain "})
      EXPECT_TRUE(has(ran.out, part)) << part;
    EXPECT_EQ(has(ran.out, "baseline"), more == "--baseline ");
  }
  const Ran refused = exits(0, run_qkvet("bench call layer --repeat 1"));
  EXPECT_TRUE(has(refused.out, "avx2/flash               no layer"));
}

TEST(BenchProgram, PrintsTheTable) {
  const std::filesystem::path json = scratch() / "bench.jsonl";
  const Ran ran =
      run_qkvet("bench decode H4,Hkv2,d4,Tk16.32.64 --repeat 1 --json '" +
                json.string() + "'");
  EXPECT_EQ(ran.exit, 0) << ran.error;
  EXPECT_EQ(ran.error, "");
  for (const char* const part :
       {"kv_cache/contiguous   f32,H4,Hkv2,d4", "context N", "growth", "N^1  ",
        "N^2", "plain loop, GB/s", "\n         64  "})
    EXPECT_TRUE(has(ran.out, part)) << part;
  std::istringstream lines(read_text(json));
  std::vector<nlohmann::json> objects;
  for (std::string line; std::getline(lines, line);)
    objects.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(objects.size(), 4U);
  EXPECT_EQ(objects[2]["context"], 64);
  EXPECT_EQ(objects[2]["bytes"], 2 * 2 * 65 * 4 * 4);
  EXPECT_EQ(objects[3]["type"], "bench_decode_growth");
}

TEST(BenchProgram, TakesSeveralKernelsAndOneContext) {
  const Ran ran = run_qkvet(
      "bench decode Tk8 --repeat 1 --kernel 'kv_cache/*' '" + plugin("tables") +
      "' --kernel tables/no_truncate --in-process");
  EXPECT_EQ(ran.exit, 0) << ran.error;
  for (const char* const part : {"kv_cache/growing", "tables/no_truncate",
                                 "not determined", "no truncate"})
    EXPECT_TRUE(has(ran.out, part)) << part;
}

TEST(BenchProgram, WrongUseIsOneLineAndTwo) {
  const std::string bench = "bench decode Tk8 --repeat 1 ";
  const std::string tables = "'" + plugin("tables") + "' --kernel ";
  const std::pair<std::string, const char*> rows[] = {
      {"bench", "subcommand"},
      {"bench prefill", "prefill"},
      {"bench call f32,B1,H1,Tq1,Tk1,dd", "dd"},
      {"bench call f32,B1,H1,d1,cap4,story=step.a.1", "times no cache"},
      {"bench call decode --repeat 0", "--repeat"},
      {"bench call decode nosuch/kernel", "nosuch/kernel"},
      {"bench call f32,B4096,H64,Tq1,Tk16777216,d4096", "most allowed"},
      {"bench call decode --baseline /nowhere", "/nowhere"},
      {"bench decode Tk8.x", "Tk8.x"},
      {"bench decode Tk64.8", "ascending"},
      {"bench decode Tk0", "Tk0"},
      {bench + "--repeat 0", "--repeat"},
      {bench + "d0", "d0"},
      {bench + "H3,Hkv2", "must divide"},
      {bench + "--kernel scalar/plain", "scalar/plain: keeps no cache"},
      {bench + "--kernel kv_cache/none", "kv_cache/none"},
      {bench + "/nowhere.so", "/nowhere.so"},
      {bench + "--json /nowhere/x.jsonl", "/nowhere/x.jsonl"},
      {bench + tables + "tables/no_create", "tables/no_create: create()"},
      {"bench decode H4096,d4096,Tk16777216", "are free"},
      {"demo memory", "model"},
  };
  for (const auto& [arguments, part] : rows) {
    SCOPED_TRACE(arguments);
    expect_wrong_use(run_qkvet(arguments), part);
  }
  EXPECT_EQ(run_qkvet(bench + tables + "tables/step_crash").exit, 0);
  EXPECT_EQ(run_qkvet(bench + tables + "tables/length_crash").exit, 4);
}

// "B0" instead of the batch below, and so on; without it for "".
std::string memory_with(const std::string& name = "none",
                        const std::string& part = "") {
  std::string line;
  for (const std::string one : {"L32", "Hkv8", "d128", "f16", "T4096", "B3"}) {
    const std::string kept = one.starts_with(name) ? part : one;
    if (!kept.empty()) line += (line.empty() ? "" : ",") + kept;
  }
  return "demo memory " + line;
}

TEST(KvMemoryProgram, PrintsTheFormulaAndTheCaches) {
  const Ran ran = exits(0, run_qkvet(memory_with()));
  for (const char* const part :
       {"2 x layers x kv-heads x d-head x context x batch x bytes",
        "2 x 32 x 8 x 128 x 4096 x 3 x 2 = 1,610,612,736 bytes = 1.5 GiB",
        "layers 32 -> 1", "kv_cache/contiguous", "kv_cache/growing"})
    EXPECT_TRUE(has(ran.out, part)) << part;
  EXPECT_FALSE(has(ran.out, "no such cache"));
  // Different sequences share nothing.
  EXPECT_FALSE(has(ran.out, " 0."));

  const Ran codes = exits(0, run_qkvet(memory_with("f16", "int8")));
  EXPECT_TRUE(has(codes.out, "= 805,306,368 bytes"));
  EXPECT_TRUE(has(codes.out, "without the scales"));
}

TEST(KvMemoryProgram, WrongUseIsOneLineAndTwo) {
  for (const std::string name : {"L", "Hkv", "d", "T", "B"}) {
    SCOPED_TRACE(name);
    expect_wrong_use(run_qkvet(memory_with(name)), name + " is missing");
    for (const char* const value : {"0", "-1", "many", "1.5"})
      expect_wrong_use(run_qkvet(memory_with(name, name + value)), name);
  }
  expect_wrong_use(run_qkvet(memory_with("f16")), "a type is missing");
  expect_wrong_use(run_qkvet(memory_with("f16", "f64")), "fp8e4m3");
  expect_wrong_use(run_qkvet(memory_with("f16", "q8")), "q8 is no extent");
  expect_wrong_use(run_qkvet(memory_with("T", "T9223372036854775807")),
                   "more than 2^63 - 1 bytes");
}

}  // namespace
}  // namespace qkvet::cli::bench_test

// SPDX-License-Identifier: Apache-2.0
#include "core/door/arena.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "core/capability/descriptor.h"
#include "core/door/guarded.h"
#include "core/door/workspace.h"

namespace qkvet::arena_test {
namespace {

// Touch memory through a system call, which returns an error instead of killing
// the process.
bool readable(const std::byte* at) {
  const Descriptor sink(memfd_create("sink", MFD_CLOEXEC));
  return write(sink.get(), at, 1) == 1;
}
bool writable(std::byte* at) {
  const Descriptor source(memfd_create("source", MFD_CLOEXEC));
  return write(source.get(), "x", 1) == 1 && pread(source.get(), at, 1, 0) == 1;
}

struct Fixture {
  explicit Fixture(const Shape& shape, Placement placement = Placement::kEnd) {
    call.shape = shape;
    call.placement = placement;
    call.want_lse = true;
    data.resize(1 << 16);
    for (size_t i = 0; i < data.size(); ++i)
      data[i] = static_cast<std::byte>(i % 100);
    call.q = call.k = call.v = data.data();
    std::string error;
    arena = Arena::create(&error);
    kernel =
        std::make_unique<WindowTable>(arena->fd(), WindowTable::Side::kKernel);
  }
  void prepare(int slot = 0) {
    std::string why;
    ASSERT_TRUE(plan_call(call, info, &plan, &why)) << why;
    ASSERT_TRUE(arena->prepare(slot, plan, call, &why)) << why;
    ASSERT_TRUE(kernel->locate(slot, plan, &at, &why)) << why;
  }
  CallOutcome collect(int slot = 0) {
    CallOutcome outcome;
    arena->collect(slot, plan, &outcome);
    return outcome;
  }
  std::byte* tensor(TensorName name) { return at[static_cast<size_t>(name)]; }
  TensorSpec& spec(TensorName name) {
    return plan.tensors[static_cast<size_t>(name)];
  }
  int64_t bytes(TensorName name) { return spec(name).span_bytes(); }
  void write(TensorName name) {
    std::memset(tensor(name), 1, static_cast<size_t>(bytes(name)));
  }
  void write_outputs() {
    write(TensorName::kO);
    write(TensorName::kLse);
  }
  // Its elements, as strides say, are the first of the data.
  void expect_data(const TensorSpec& of, TensorName name) {
    std::vector<std::byte> seen(static_cast<size_t>(of.elements() * 4));
    gather(of, tensor(name), seen.data());
    EXPECT_EQ(std::memcmp(seen.data(), data.data(), seen.size()), 0);
  }

  KernelCall call;
  KernelInfo info;
  std::vector<std::byte> data;
  CallPlan plan;
  TensorAddresses at{};
  std::unique_ptr<Arena> arena;
  std::unique_ptr<WindowTable> kernel;
};

constexpr Placement kPlacements[] = {Placement::kEnd, Placement::kEndAligned,
                                     Placement::kStart};
constexpr Shape kSmall = {1, 2, 2, 5, 7, 3, 9};

TEST(Canary, IsNanInEveryFloatingType) {
  std::byte bytes[64];
  Canary(4).fill(bytes, 0, 64);
  double d = 0;
  float f = 0;
  uint16_t h = 0;
  std::memcpy(&d, bytes + 8, 8);
  std::memcpy(&f, bytes + 4, 4);
  std::memcpy(&h, bytes + 2, 2);
  EXPECT_TRUE(std::isnan(d));
  EXPECT_TRUE(std::isnan(f));
  EXPECT_GT(h & 0x7fff, 0x7c00);  // f16
  EXPECT_GT(h & 0x7fff, 0x7f80);  // bf16
  Canary(1).fill(bytes, 0, 64);
  EXPECT_EQ(bytes[5], std::byte{0x7f});  // both fp8 formats
}

TEST(Canary, EveryChangedByteIsFound) {
  for (const int64_t element : {1, 4})
    for (int64_t begin = 0; begin < 4; ++begin)
      for (int64_t end = begin; end < 40; ++end) {
        std::byte bytes[48] = {};
        const Canary canary(element);
        canary.fill(bytes, begin, end);
        EXPECT_EQ(bytes[end], std::byte{0});
        EXPECT_EQ(canary.first_damage(bytes, begin, end), -1);
        for (int64_t i = begin; i < end; ++i) {
          bytes[i] ^= std::byte{1};
          EXPECT_EQ(canary.first_damage(bytes, begin, end), i);
          EXPECT_EQ(canary.last_damage(bytes, begin, end), i);
          bytes[i] ^= std::byte{1};
        }
      }
}

TEST(Place, EndStartAndAlignment) {
  const TensorSpec spec = packed_spec(Dtype::kF32, 2, {3, 7});  // 84 bytes
  const int64_t page = page_bytes();
  EXPECT_EQ(place_tensor(spec, Placement::kEnd, 0).start, page - 84);
  EXPECT_EQ(place_tensor(spec, Placement::kEndAligned, 0).start, page - 128);
  EXPECT_EQ(place_tensor(spec, Placement::kStart, 0).start, 0);
  EXPECT_EQ(place_tensor(spec, Placement::kEnd, 16).start, page - 96);
  EXPECT_EQ(place_tensor(spec, Placement::kEndAligned, 256).start, page - 256);
}

TEST(Place, SlackIsAtMostTheTensorOrAPage) {
  for (int64_t n = 1; n < 100000; n = n * 3 / 2 + 1) {
    const TensorSpec spec = packed_spec(Dtype::kF32, 1, {n});
    const Place place = place_tensor(spec, Placement::kStart, 0);
    EXPECT_GE(window_bytes(place.size_class), spec.span_bytes());
    EXPECT_LE(window_bytes(place.size_class),
              std::max(2 * spec.span_bytes(), page_bytes()));
  }
}

TEST(Plan, HugeTensorsAreRefusedInWords) {
  KernelCall call;
  call.shape = {1, 1, 1, int64_t{1} << 62, 1, int64_t{1} << 62, 1};
  CallPlan plan;
  std::string why;
  EXPECT_FALSE(plan_call(call, KernelInfo(), &plan, &why));
  EXPECT_EQ(why, "q is too large for any memory");
  call.shape = {1, 1, 1, 1, int64_t{1} << 33, 1, 8};  // v: 256 GiB
  EXPECT_FALSE(plan_call(call, KernelInfo(), &plan, &why));
  EXPECT_EQ(why, "v is too large for any memory");
}

TEST(Arena, LargerThanTheMemoryIsRefusedInWords) {
  Fixture f({1, 1, 1, 1, int64_t{1} << 33, 1, 1});
  f.call.want_weights = true;
  CallPlan plan;
  std::string why;
  ASSERT_TRUE(plan_call(f.call, KernelInfo(), &plan, &why)) << why;
  if (available_memory() > int64_t{100} << 30)
    GTEST_SKIP() << "this machine has memory for tensors of 100 GiB";
  EXPECT_FALSE(f.arena->prepare(0, plan, f.call, &why));
  EXPECT_NE(why.find("the tensors of this call take"), std::string::npos);
}

TEST(Arena, GuardsAndReadOnlyInputs) {
  for (const Placement placement : kPlacements) {
    Fixture f(kSmall, placement);
    f.prepare();
    for (const auto name : {TensorName::kQ, TensorName::kK, TensorName::kV,
                            TensorName::kO, TensorName::kLse}) {
      std::byte* first = f.tensor(name);
      std::byte* behind = first + f.bytes(name);
      EXPECT_TRUE(readable(first));
      EXPECT_EQ(writable(first), is_output(name));
      EXPECT_EQ(readable(behind), placement == Placement::kStart ||
                                      (placement == Placement::kEndAligned &&
                                       f.bytes(name) % 64 != 0));
      EXPECT_EQ(readable(first - 1), placement != Placement::kStart);
      if (placement == Placement::kEndAligned) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
      }
    }
    EXPECT_EQ(std::memcmp(f.tensor(TensorName::kK), f.call.k,
                          static_cast<size_t>(f.bytes(TensorName::kK))),
              0);
  }
}

TEST(Arena, SlackOfInputsIsCanaryAfterOtherCalls) {
  Fixture f({1, 4, 4, 9, 9, 8, 8});
  f.prepare();
  f.call.shape = kSmall;
  f.call.placement = Placement::kStart;
  f.prepare();
  const std::byte* k = f.tensor(TensorName::kK);
  EXPECT_EQ(Canary(4).first_damage(k, f.bytes(TensorName::kK), page_bytes()),
            -1);
}

TEST(Arena, OutputsComeBack) {
  Fixture f(kSmall);
  f.prepare(5);
  f.write_outputs();
  const CallOutcome outcome = f.collect(5);
  EXPECT_FALSE(outcome.damage);
  EXPECT_FALSE(outcome.unwritten);
  EXPECT_EQ(outcome.o.size(), 4u * 2 * 5 * 9);
  EXPECT_EQ(outcome.lse.size(), 4u * 2 * 5);
  EXPECT_EQ(outcome.weights.size(), 0u);
  EXPECT_EQ(outcome.o[0], std::byte{1});
}

TEST(Arena, UnwrittenElementIsNamed) {
  Fixture f(kSmall);
  f.prepare();
  EXPECT_EQ(f.collect().unwritten, TensorName::kO);
  EXPECT_EQ(f.collect().unwritten_index, 0);
  f.prepare();
  f.write_outputs();
  Canary(4).fill(f.tensor(TensorName::kLse), 28, 32);
  EXPECT_EQ(f.collect().unwritten, TensorName::kLse);
  EXPECT_EQ(f.collect().unwritten_index, 7);
}

TEST(Arena, DamageInTheSlackIsNamedOnce) {
  Fixture f(kSmall, Placement::kStart);
  f.prepare();
  f.write_outputs();
  f.tensor(TensorName::kO)[f.bytes(TensorName::kO) + 9] = std::byte{1};
  const CallOutcome outcome = f.collect();
  ASSERT_TRUE(outcome.damage);
  EXPECT_EQ(outcome.damage->tensor, TensorName::kO);
  EXPECT_EQ(outcome.damage->bytes, 8);
  EXPECT_FALSE(outcome.damage->before_start);
  EXPECT_TRUE(outcome.damage->is_write);
  f.prepare();
  f.write_outputs();
  EXPECT_FALSE(f.collect().damage);
}

TEST(Arena, DamageBeforeTheStart) {
  Fixture f(kSmall);
  f.prepare();
  f.write_outputs();
  f.tensor(TensorName::kLse)[-3] = std::byte{1};
  const CallOutcome outcome = f.collect();
  ASSERT_TRUE(outcome.damage);
  EXPECT_EQ(outcome.damage->tensor, TensorName::kLse);
  EXPECT_TRUE(outcome.damage->before_start);
  EXPECT_EQ(outcome.damage->bytes, 4);
}

TEST(Arena, GapsBetweenStridedElementsAreWatched) {
  Fixture f(kSmall);
  f.prepare();
  TensorSpec& o = f.spec(TensorName::kO);
  o.strides = {120, 60, 12, 1};  // rows of 9 in 12
  f.plan.places[static_cast<size_t>(TensorName::kO)] =
      place_tensor(o, Placement::kEnd, 0);
  std::string why;
  const std::vector<std::byte> ones(4 * 2 * 5 * 9, std::byte{1});
  for (const bool damaged : {false, true}) {
    ASSERT_TRUE(f.arena->prepare(0, f.plan, f.call, &why)) << why;
    ASSERT_TRUE(f.kernel->locate(0, f.plan, &f.at, &why)) << why;
    scatter(o, ones.data(), f.tensor(TensorName::kO));
    if (damaged) f.tensor(TensorName::kO)[4 * 10] = std::byte{1};
    const CallOutcome outcome = f.collect();
    EXPECT_EQ(outcome.o, ones);
    ASSERT_EQ(outcome.damage.has_value(), damaged);
    if (!damaged) continue;
    EXPECT_TRUE(outcome.damage->inside);
    EXPECT_EQ(outcome.damage->bytes, 40);
  }
}

float last_in_front_of_keys(Fixture& f) {
  float value = 0;
  std::memcpy(&value, f.tensor(TensorName::kK) - sizeof value, sizeof value);
  return value;
}

// With around_inputs, the gaps are full of that byte; after such a call they
// are canaries again.
TEST(Arena, GapsOfInputsAreCanaries) {
  for (const Layout layout : {Layout::kPacked, Layout::kGaps, Layout::kApart}) {
    Fixture f({2, 4, 2, 3, 3, 5, 5});
    f.call.layout = layout;
    for (const int byte : {0, 0, 0x3f, 0}) {
      f.call.around_inputs = static_cast<uint8_t>(byte);
      f.prepare();
      const TensorSpec& k = f.spec(TensorName::kK);
      std::vector<std::byte> seen(static_cast<size_t>(k.span_bytes()));
      std::memcpy(seen.data(), f.tensor(TensorName::kK), seen.size());
      const std::vector<std::byte> nothing(60 * 4);
      scatter(k, nothing.data(), seen.data());
      size_t gaps = 0;
      for (size_t at = 0; at < seen.size(); at += 4) {
        float value = 0;
        std::memcpy(&value, &seen[at], sizeof value);
        gaps += std::isnan(value);
      }
      const size_t all = seen.size() / 4 - 60;
      EXPECT_GT(all, 0u);
      EXPECT_EQ(gaps, byte == 0 ? all : 0);
      EXPECT_EQ(std::isnan(last_in_front_of_keys(f)), byte == 0);
    }
  }
}

// Floats at the offsets of `parts`, and no memory at an offset that is cut to
// 32 bits, with or without a sign, in bytes or in elements.
void expect_only_parts(std::byte* first, int64_t stride, int64_t parts,
                       int64_t bytes) {
  for (int64_t part = 0; part < parts; ++part) {
    std::byte* const begin = first + part * stride;
    EXPECT_TRUE(readable(begin));
    EXPECT_TRUE(readable(begin + bytes - 1));
    EXPECT_FALSE(readable(begin + bytes + page_bytes()));
    EXPECT_FALSE(readable(begin - bytes - page_bytes()));
    for (const int64_t unit : {1, 4}) {
      const int64_t offset = part * stride / unit;
      for (const int64_t cut : {int64_t{static_cast<int32_t>(offset)},
                                int64_t{static_cast<uint32_t>(offset)}})
        if (cut != offset) {
          EXPECT_FALSE(readable(first + cut * unit));
        }
    }
  }
}

TEST(Arena, PartsLieFarApartForTheKernelAlone) {
  for (const int64_t B : {2, 3})
    for (const Placement placement : kPlacements) {
      Fixture f({B, 2, 2, 5, 7, 3, 9}, placement);
      f.call.layout = Layout::kFar;
      for (int round = 0; round < 2; ++round) {
        f.kernel->forget_far();
        f.prepare();
        constexpr auto kO = static_cast<size_t>(TensorName::kO);
        const TensorSpec o = f.plan.seen(kO);
        EXPECT_GT((B - 1) * o.strides[0], int64_t{1} << 32);
        EXPECT_LT(f.plan.window_total(), 1 << 20);
        expect_only_parts(f.tensor(TensorName::kO), 4 * o.strides[0], B,
                          4 * 2 * 5 * 9);
        const TensorSpec q = f.plan.seen(static_cast<size_t>(TensorName::kQ));
        f.expect_data(q, TensorName::kQ);
        EXPECT_FALSE(writable(f.tensor(TensorName::kQ) + 4 * q.strides[0]));

        std::vector<std::byte> ones(static_cast<size_t>(o.elements() * 4),
                                    std::byte{1});
        scatter(o, ones.data(), f.tensor(TensorName::kO));
        f.write(TensorName::kLse);
        const CallOutcome good = f.collect();
        EXPECT_EQ(good.o, ones);
        EXPECT_FALSE(good.damage);
        EXPECT_FALSE(good.unwritten);
      }
      // The last part, beside what it has.
      f.prepare();
      const auto o = static_cast<size_t>(TensorName::kO);
      std::byte* const last =
          f.tensor(TensorName::kO) + f.plan.part_offset(o, B - 1);
      const bool behind = placement == Placement::kStart;
      last[behind ? f.plan.part_bytes(o) : -4] = std::byte{1};
      EXPECT_TRUE(f.collect().damage);
    }
}

TEST(Arena, WithoutAddressesNothingLiesFarApart) {
#ifdef QKVET_SANITIZED
  GTEST_SKIP() << "a sanitizer has more addresses than the limit of this test";
#endif
  Fixture f({2, 1, 1, 2, 2, 2, 2});
  f.call.layout = Layout::kFar;
  std::string why;
  ASSERT_TRUE(plan_call(f.call, f.info, &f.plan, &why)) << why;
  ASSERT_TRUE(f.arena->prepare(0, f.plan, f.call, &why)) << why;
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  const rlimit few{rlim_t{20} << 30, before.rlim_max};
  setrlimit(RLIMIT_AS, &few);
  const bool located = f.kernel->locate(0, f.plan, &f.at, &why);
  setrlimit(RLIMIT_AS, &before);
  EXPECT_FALSE(located);
  EXPECT_EQ(why,
            "this machine, or a limit (ulimit -v), gives no 32.0 GiB of "
            "addresses to q, whose parts lie far apart");
  f.kernel->forget_far();
  EXPECT_TRUE(f.kernel->locate(0, f.plan, &f.at, &why)) << why;
}

TEST(Arena, NoMorePartsLieFarApartThanMappingsAllow) {
  for (const int64_t rows : {4096, 4097}) {
    Fixture f({1, 1, 1, rows, 1, 1, 1});
    f.call.layout = Layout::kFar;
    std::string why;
    EXPECT_EQ(plan_call(f.call, f.info, &f.plan, &why), rows == 4096);
    EXPECT_EQ(why, rows == 4096 ? ""
                                : "q has 4097 parts, and at most 4096 are put "
                                  "far apart");
  }
}

// A kernel that declares it has q, k and v in one block between two guards.
TEST(Arena, DeclaredBlocksLieInOneWindow) {
  constexpr int64_t kRow = (4 + 2 * 2) * 5;  // elements of a token
  for (const bool declared : {false, true})
    for (const Placement placement : kPlacements) {
      Fixture f({2, 4, 2, 3, 3, 5, 5}, placement);
      f.call.layout = Layout::kPacked;
      if (declared) f.info.capabilities.layouts = QKVET_LAYOUT_PACKED_QKV;
      for (int round = 0; round < 2; ++round) {
        f.prepare();
        std::byte* const q = f.tensor(TensorName::kQ);
        std::byte* const k = f.tensor(TensorName::kK);
        std::byte* const v = f.tensor(TensorName::kV);
        EXPECT_EQ(k == q + 4 * 5 * 4 && v == k + 2 * 5 * 4, declared);
        if (!declared) {
          EXPECT_FALSE(readable(q + f.bytes(TensorName::kQ)) &&
                       placement == Placement::kEnd);
          continue;
        }
        // Each element is where the strides say, and there are no others.
        constexpr int64_t kBytes = 2 * 3 * kRow * 4;
        std::vector<std::byte> left(q, q + kBytes);
        for (const TensorName name :
             {TensorName::kQ, TensorName::kK, TensorName::kV}) {
          const TensorSpec& spec = f.spec(name);
          f.expect_data(spec, name);
          const std::vector<std::byte> nothing(
              static_cast<size_t>(spec.elements() * 4), std::byte{0xee});
          scatter(spec, nothing.data(), left.data() + (f.tensor(name) - q));
        }
        EXPECT_EQ(std::count(left.begin(), left.end(), std::byte{0xee}),
                  kBytes);
        EXPECT_FALSE(writable(q));
        if (placement == Placement::kEnd) {
          EXPECT_FALSE(readable(q + kBytes));
        }
        if (placement == Placement::kStart) {
          EXPECT_FALSE(readable(q - 1));
        }
      }
    }
}

// No tensor is near enough to another one for a kernel to run into it: between
// any two there are at least two guards, in either order.
TEST(Arena, TensorsLieApartInEitherOrder) {
  Fixture f(kSmall);
  f.prepare();
  constexpr TensorName kAll[] = {TensorName::kQ, TensorName::kK, TensorName::kV,
                                 TensorName::kO, TensorName::kLse};
  for (const TensorName a : kAll) {
    const Place& place = f.plan.places[static_cast<size_t>(a)];
    const std::byte* const window = f.tensor(a) - place.start;
    const int64_t size = window_bytes(place.size_class);
    for (int64_t at = 0; at < guard_bytes(); at += page_bytes()) {
      EXPECT_FALSE(readable(window + size + at));
      EXPECT_FALSE(readable(window - 1 - at));
    }
    for (const TensorName b : kAll) {
      if (a == b) continue;
      const std::byte* const other =
          f.tensor(b) - f.plan.places[static_cast<size_t>(b)].start;
      EXPECT_GE(std::abs(other - window), size + 2 * guard_bytes());
    }
  }
}

TEST(Arena, EmptyTensorsArePresentAndGuarded) {
  Fixture f({1, 2, 2, 5, 0, 3, 3});
  f.prepare();
  EXPECT_NE(f.tensor(TensorName::kK), nullptr);
  EXPECT_FALSE(readable(f.tensor(TensorName::kK)));
  EXPECT_EQ(f.tensor(TensorName::kWeights), nullptr);
}

TEST(Plan, LayersHaveTheirOwnTensors) {
  KernelCall call;
  call.operation = Operation::kLayer;
  call.shape = {2, 4, 2, 5, 5, 3, 7, 11};
  const std::byte data{};
  call.b_v = &data;
  call.want_stages = true;
  KernelInfo info;
  info.layer_stage = dtype_to_abi(Dtype::kF64);
  CallPlan plan;
  std::string why;
  ASSERT_TRUE(plan_call(call, info, &plan, &why)) << why;
  const struct {
    TensorName name;
    int ndim;
    Extents shape;
  } rows[] = {{TensorName::kX, 3, {2, 5, 11}},
              {TensorName::kWq, 2, {11, 12}},
              {TensorName::kWk, 2, {11, 6}},
              {TensorName::kWv, 2, {11, 14}},
              {TensorName::kWo, 2, {28, 11}},
              {TensorName::kBv, 1, {14}},
              {TensorName::kY, 3, {2, 5, 11}},
              {TensorName::kStageQ, 4, {2, 4, 5, 3}},
              {TensorName::kStageK, 4, {2, 2, 5, 3}},
              {TensorName::kStageV, 4, {2, 2, 5, 7}},
              {TensorName::kAttended, 4, {2, 4, 5, 7}}};
  int present = 0;
  for (const TensorSpec& spec : plan.tensors) present += spec.present();
  EXPECT_EQ(present, static_cast<int>(std::size(rows)));
  for (const auto& row : rows) {
    const TensorSpec& spec = plan.tensors[static_cast<size_t>(row.name)];
    EXPECT_EQ(spec.ndim, row.ndim) << tensor_name(row.name);
    EXPECT_EQ(spec.shape, row.shape) << tensor_name(row.name);
    EXPECT_EQ(spec.dtype,
              row.name > TensorName::kY ? Dtype::kF64 : Dtype::kF32);
  }
  call.shape.H = int64_t{1} << 62;
  EXPECT_FALSE(plan_call(call, info, &plan, &why));
  EXPECT_EQ(why, "w_q is too large for any memory");
}

// Elements that a mistake adds to a tensor are canaries. All others are at
// their index, even after a larger tensor in the same window.
TEST(Arena, MistakesAddCanaries) {
  for (const Placement placement : {Placement::kEnd, Placement::kStart}) {
    Fixture f({1, 1, 1, 2, 3, 4, 4}, placement);
    f.call.operation = Operation::kCacheStep;
    f.call.want_lse = false;
    f.call.shape.d = 5;
    f.prepare();
    const int64_t all = f.bytes(TensorName::kK);
    f.call.shape.d = 4;
    f.call.mistake = Mistake::kKeyWidth;
    f.prepare();
    EXPECT_EQ(f.bytes(TensorName::kK), all);
    const std::byte* k = f.tensor(TensorName::kK);
    for (int64_t row = 0; row < 3; ++row) {
      EXPECT_EQ(std::memcmp(k + 20 * row, f.data.data() + 16 * row, 16), 0);
      float surplus = 0;
      std::memcpy(&surplus, k + 20 * row + 16, sizeof surplus);
      EXPECT_TRUE(std::isnan(surplus));
    }
    f.call.mistake = Mistake::kValueAbsent;
    f.prepare();
    EXPECT_EQ(f.tensor(TensorName::kV), nullptr);
    EXPECT_LT(f.bytes(TensorName::kK), all);
  }
}

// One row of a mask for all heads and queries: nothing after it is read.
TEST(Arena, AMistakeLeavesWhatIsBroadcastSo) {
  Fixture f({1, 2, 2, 2, 3, 4, 4});
  std::vector<std::byte> mask(12, std::byte{7});
  const std::byte row[] = {std::byte{1}, std::byte{0}, std::byte{1}};
  std::copy_n(row, 3, mask.begin());
  f.call.mask = mask.data();
  f.call.mask_own = kOwnB | kOwnK;
  f.call.mistake = Mistake::kMaskExtent;
  f.prepare();
  EXPECT_EQ(f.bytes(TensorName::kMask), 4);
  EXPECT_EQ(std::memcmp(f.tensor(TensorName::kMask), row, 3), 0);
}

// A step has a column for each token that is held, not for each new one.
TEST(Arena, PairsOfAStepHaveTheTokensThatAreHeld) {
  Fixture f({1, 2, 2, 2, 1, 4, 4});
  f.call.operation = Operation::kCacheStep;
  f.call.tokens = 3;
  std::vector<std::byte> mask, bias;
  for (uint8_t n = 0; n < 6; ++n) mask.push_back(std::byte{n});
  for (uint8_t n = 0; n < 12; ++n) bias.insert(bias.end(), 4, std::byte{n});
  f.call.mask = mask.data();
  f.call.mask_own = kOwnH | kOwnK;
  f.call.bias = bias.data();
  f.prepare();
  EXPECT_EQ(f.bytes(TensorName::kMask), 6);
  EXPECT_EQ(std::memcmp(f.tensor(TensorName::kMask), mask.data(), 6), 0);
  EXPECT_EQ(f.bytes(TensorName::kBias), 48);
  EXPECT_EQ(std::memcmp(f.tensor(TensorName::kBias), bias.data(), 48), 0);
}

TEST(Arena, LargeTensorsAreGivenBack) {
  Fixture f({1, 1, 1, 1 << 13, 1 << 13, 1, 1});
  f.call.want_weights = true;  // 256 MiB
  f.prepare();
  f.arena->trim();
  f.call.want_weights = false;
  f.prepare();
  f.write_outputs();
  EXPECT_FALSE(f.collect().damage);
  EXPECT_FALSE(readable(f.tensor(TensorName::kQ) + f.bytes(TensorName::kQ)));
}

TEST(Workspace, IsNanAlignedAndWatched) {
  Workspace workspace;
  for (const int64_t bytes : {100, 100000, 8}) {
    std::byte* memory = workspace.prepare(bytes);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
    EXPECT_FALSE(readable(memory + (bytes + 63) / 64 * 64));
    float first = 0;
    std::memcpy(&first, memory, sizeof first);
    EXPECT_TRUE(std::isnan(first));
    std::memset(memory, 1, static_cast<size_t>(bytes));
    EXPECT_FALSE(workspace.damage());
    memory[bytes] = std::byte{1};
    EXPECT_EQ(workspace.damage(), 0);
  }
}

}  // namespace
}  // namespace qkvet::arena_test

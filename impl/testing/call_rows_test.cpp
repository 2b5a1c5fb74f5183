// SPDX-License-Identifier: Apache-2.0
// The table of rows that checks calls: each operation on extents, each set of
// types, and that the first refusal stays. Kernels are refused in the other
// tests here.
#include "impl/call/call_rows.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "impl/testing/calls.h"

namespace qkvet::impl::call_rows_test {
namespace {

struct Pair {
  qkvet_tensor a, b;
};

constexpr qkvet_capabilities kHalves = [] {
  qkvet_capabilities c = {};
  for (const qkvet_dtype type : {kF16, kBf16}) {
    c.dtypes[c.dtype_count++] = {type, type, type};
  }
  return c;
}();

// The reason of the refusal of a pair, "" if none.
std::string reason_of(const TensorRow (&rows)[2], const Pair& pair,
                      Empty empty = Empty::kAllowed) {
  Reason why;
  Check check(kHalves, &why.text);
  check.empty = empty;
  check["H"] = 4;
  check["d"] = 6;
  check["Tk"] = 7;
  check.stage = kF16;
  check.rows(rows, &pair);
  EXPECT_EQ(check.ok(), *why.room == '\0');
  return why.room;
}

#define ROW(field, ...) QKVET_ROW(Pair, field, __VA_ARGS__)
constexpr TensorRow kNames[] = {ROW(a, "B,n;n", kTypeF32, Need::kRequired),
                                ROW(b, "n,B+1", kTypeF32)};
constexpr TensorRow kOperations[] = {ROW(a, "H*dv,d/2,H|1", kTypeF32),
                                     ROW(b, "dv,2,Tk/2", kTypeF32)};
constexpr TensorRow kTypes[] = {ROW(a, "n", kOfCall),
                                ROW(b, "n", kTypeInt64 | kOfCall)};
constexpr TensorRow kBytesAndStages[] = {ROW(a, "n", kTypeByte),
                                         ROW(b, "n", kOfStages)};
#undef ROW

TEST(CallRows, TheFirstTensorSetsANameAndOthersAgree) {
  Tensors t;
  EXPECT_EQ(reason_of(kNames, {t.make({2, 5}), t.make({5, 3})}), "");
  EXPECT_EQ(reason_of(kNames, {t.make({5}), t.make({5, 9})}), "");
  EXPECT_EQ(reason_of(kNames, {t.make({2, 5}), {}}), "");
  EXPECT_EQ(reason_of(kNames, {t.make({2, 5}), t.make({4, 3})}),
            "b [n,B+1]: 4 at axis 0, 5 is needed");
  EXPECT_EQ(reason_of(kNames, {t.make({2, 5}), t.make({5, 2})}),
            "b [n,B+1]: 2 at axis 1, 3 is needed");
  EXPECT_EQ(reason_of(kNames, {t.make({5}), t.make({5, 0})}),
            "b [n,B+1]: 0 at axis 1, 1 or more is needed");
  EXPECT_EQ(reason_of(kNames, {{}, {}}), "a [B,n;n]: is absent");
}

TEST(CallRows, Operations) {
  Tensors t;
  const qkvet_tensor legal = t.make({8, 3, 4});
  EXPECT_EQ(reason_of(kOperations, {legal, {}}), "");
  EXPECT_EQ(reason_of(kOperations, {t.make({8, 3, 1}), {}}), "");
  EXPECT_EQ(reason_of(kOperations, {t.make({8, 3, 2}), {}}),
            "a [H*dv,d/2,H|1]: 2 at axis 2, 4 is needed");
  EXPECT_EQ(reason_of(kOperations, {t.make({6, 3, 1}), {}}),
            "a [H*dv,d/2,H|1]: 6 at axis 0, no multiple of H = 4");
  EXPECT_EQ(reason_of(kOperations, {t.make({8, 6, 1}), {}}),
            "a [H*dv,d/2,H|1]: 6 at axis 1, 3 is needed");
  EXPECT_EQ(reason_of(kOperations, {legal, t.make({2, 2, 3})}),
            "b [dv,2,Tk/2]: 3 at axis 2, Tk = 7 is odd");
  EXPECT_EQ(reason_of(kOperations, {legal, t.make({2, 3, 3})}),
            "b [dv,2,Tk/2]: 3 at axis 1, 2 is needed");
}

TEST(CallRows, TypesOfTheCallAndOthers) {
  Tensors t;
  const auto reason = [&t](qkvet_dtype a, qkvet_dtype b) {
    return reason_of(kTypes, {t.make({2}, a), t.make({2}, b)});
  };
  EXPECT_EQ(reason(kF16, kF16), "");
  EXPECT_EQ(reason(kBf16, kInt64), "");
  EXPECT_EQ(reason(kF16, kBf16), "b must be int64 or of the type of a");
  EXPECT_EQ(reason(kF32, kF32), "a must be of a type that the kernel declares");
  EXPECT_EQ(reason(kF16, kInt32), "b must be int64 or of the type of a");
}

// Types without a name of their own: no type at all is none of them.
TEST(CallRows, TypesOfBytesAndStages) {
  Tensors t;
  const auto reason = [&t](qkvet_dtype a, qkvet_dtype b) {
    Pair pair = {t.make({2}), t.make({2})};
    pair.a.dtype = a;
    pair.b.dtype = b;
    return reason_of(kBytesAndStages, pair);
  };
  EXPECT_EQ(reason(kBool, kF16), "");
  EXPECT_EQ(reason(kInt32, kF16), "a must be of 8 bits");
  EXPECT_EQ(reason({}, kF16), "a must be of 8 bits");
  EXPECT_EQ(reason(kBool, kBf16),
            "b must be of the declared type of the stages");
  EXPECT_EQ(reason(kBool, {}), "b must be of the declared type of the stages");
}

// None of these may be read further than the part that is right.
TEST(CallRows, TensorsThatAreNotWhole) {
  Tensors t;
  const auto reason = [&t](const auto& spoil, Empty empty = Empty::kAllowed) {
    Pair pair = {t.make({2, 5}), {}};
    spoil(pair.a);
    return reason_of(kNames, pair, empty);
  };
  const std::string rank = "a [B,n;n]: the wrong rank, or no shape and strides";
  EXPECT_EQ(reason([](qkvet_tensor& a) { a.shape = nullptr; }), rank);
  EXPECT_EQ(reason([](qkvet_tensor& a) { a.strides = nullptr; }), rank);
  EXPECT_EQ(reason([](qkvet_tensor& a) { a.ndim = 3; }), rank);
  EXPECT_EQ(reason([](qkvet_tensor& a) { a.ndim = 0; }), rank);
  EXPECT_EQ(reason([](qkvet_tensor& a) { a.device_type = QKVET_DEVICE_CUDA; }),
            "a [B,n;n]: only the CPU is supported");
  EXPECT_EQ(reason([](qkvet_tensor& a) { a.data = nullptr; }),
            "a [B,n;n]: elements and no data");
  EXPECT_EQ(reason([](qkvet_tensor& a) { a.shape[1] = -3; }),
            "a [B,n;n]: -3 at axis 1, is negative");
  const auto empty = [](qkvet_tensor& a) {
    a.shape[1] = 0;
    a.data = nullptr;
  };
  EXPECT_EQ(reason(empty), "");
  EXPECT_EQ(reason(empty, Empty::kRefused),
            "a [B,n;n]: empty extents are not supported");
}

// The largest extents neither overflow nor agree by wrapping around.
TEST(CallRows, ExtentsThatOverflow) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  Tensors t;
  Pair pair = {t.make({2, 5}), t.make({5, 3})};
  pair.a.shape[0] = kMost;
  EXPECT_EQ(reason_of(kNames, pair),
            "b [n,B+1]: 3 at axis 1, 1 or more is needed");
  Check check(kHalves, nullptr);
  check["H"] = 4;
  check["dv"] = kMost / 2;
  pair.a = t.make({8, 3, 1});
  check.rows(kOperations, &pair);
  EXPECT_EQ(check.status, QKVET_INVALID_ARGUMENT);
}

TEST(CallRows, TheFirstRefusalStays) {
  Reason why;
  Check check(kHalves, &why.text);
  check.rules(QKVET_INVALID_ARGUMENT,
              {{false, "kept"}, {true, "first"}, {true, "second"}});
  check.rules(QKVET_UNSUPPORTED, {{true, "third"}});
  check.rows(kNames, nullptr);  // reads nothing
  EXPECT_EQ(check.status, QKVET_INVALID_ARGUMENT);
  EXPECT_STREQ(why.room, "first");
}

}  // namespace
}  // namespace qkvet::impl::call_rows_test

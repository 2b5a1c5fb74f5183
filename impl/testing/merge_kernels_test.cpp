// SPDX-License-Identifier: Apache-2.0
// Kernels that merge states, against the formula of merge.h in double, in every
// form of a call that they take; and the faults of merging, each of which must
// be seen to be wrong by the same comparison.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "impl/abi/declare.h"
#include "impl/testing/family_fixture.h"

namespace qkvet::impl::merge_kernels_test {
namespace {

constexpr int64_t kRows = 3, kHeads = 2, kWidth = 11, kStates = 10;
constexpr double kNone = -std::numeric_limits<double>::infinity();

// f32 with gaps of NaN between the channels, and NaN behind all.
class Numbers {
 public:
  Numbers(std::vector<int64_t> shape, int64_t gap) : shape_(std::move(shape)) {
    strides_.resize(shape_.size());
    int64_t step = gap;
    for (size_t axis = shape_.size(); axis-- > 0;) {
      strides_[axis] = step;
      step *= shape_[axis];
    }
    numbers_.assign(static_cast<size_t>(step) + 64, NAN);
  }
  // [.., T, H] lies as [.., H, T].
  void heads_first() {
    const size_t last = shape_.size() - 1;
    strides_[last] = shape_[last - 1] * strides_[last];
    strides_[last - 1] = strides_[last] / shape_[last - 1];
  }
  float& at(const std::vector<int64_t>& index) {
    int64_t place = 0;
    for (size_t axis = 0; axis < index.size(); ++axis) {
      place += index[axis] * strides_[axis];
    }
    return numbers_[static_cast<size_t>(place)];
  }
  qkvet_tensor tensor() {
    qkvet_tensor t = {};
    t.data = numbers_.data();
    t.device_type = QKVET_DEVICE_CPU;
    t.ndim = static_cast<int32_t>(shape_.size());
    t.dtype = kF32;
    t.shape = shape_.data();
    t.strides = strides_.data();
    return t;
  }

 private:
  std::vector<int64_t> shape_, strides_;
  std::vector<float> numbers_;
};

struct Form {
  uint64_t options = 0;  // QKVET_MERGE_* that it takes
  int64_t states = kStates;
  float shift = 0;  // every lse has it on top
  bool has(uint64_t option) const { return (options & option) != 0; }
};

// Rows of 0, 1 and the other states; or the same number in each.
class MergeCall {
 public:
  MergeCall(const Form& form, bool base2)
      : form_(form),
        base2_(base2),
        ragged_(form.has(QKVET_MERGE_RAGGED)),
        in_place_(form.has(QKVET_MERGE_IN_PLACE)),
        states_(shape({kHeads, kWidth}), gap()),
        lse_(shape({kHeads}), gap()),
        o_({kRows, kHeads, kWidth}, gap()),
        o_lse_({kRows, kHeads}, gap()) {
    if (form.has(QKVET_MERGE_LSE_HEADS_FIRST)) {
      lse_.heads_first();
      o_lse_.heads_first();
    }
    for (int64_t t = 0; t < kRows; ++t) {
      for (int64_t h = 0; h < kHeads; ++h) {
        fill(t, h);
      }
    }
  }

  qkvet_merge_args args() {
    qkvet_merge_args a = {};
    a.struct_size = sizeof(a);
    a.states = states_.tensor();
    a.states_lse = lse_.tensor();
    a.o = o_.tensor();
    a.lse = o_lse_.tensor();
    a.in_place = in_place_ ? 1 : 0;
    if (ragged_) {
      a.indptr = list(starts_.data(), kRows + 1, {QKVET_DTYPE_INT, 64, 1}, 0);
    }
    if (form_.has(QKVET_MERGE_ROW_MASK)) {
      a.row_mask = list(mask_.data(), kRows, {QKVET_DTYPE_UINT, 8, 1}, 1);
    }
    return a;
  }

  // In front of the call: what o and lse will be.
  void expect() {
    for (int64_t t = 0; t < kRows; ++t) {
      for (int64_t h = 0; h < kHeads; ++h) {
        expect_head(t, h);
      }
    }
  }
  bool is_right() {
    size_t n = 0;
    bool right = true;
    for (int64_t t = 0; t < kRows; ++t) {
      for (int64_t h = 0; h < kHeads; ++h) {
        for (int64_t c = 0; c < kWidth; ++c) {
          right &= near(o_.at({t, h, c}), expected_[n++]);
        }
        right &= near(o_lse_.at({t, h}), expected_[n++]);
      }
    }
    return right;
  }

 private:
  static bool near(double seen, double wanted) {
    if (std::isinf(wanted) || std::isinf(seen)) return seen == wanted;
    return std::fabs(seen - wanted) <= kRoom * std::fmax(1, std::fabs(wanted));
  }
  int64_t gap() const { return form_.has(QKVET_MERGE_ANY_STRIDES) ? 3 : 1; }
  std::vector<int64_t> shape(std::vector<int64_t> row) const {
    row.insert(row.begin(), ragged_ ? form_.states : kRows);
    if (!ragged_) row.insert(row.begin(), form_.states);
    return row;
  }
  int64_t others(int64_t t) const {
    return ragged_ ? starts_[size_t(t + 1)] - starts_[size_t(t)] : form_.states;
  }
  std::vector<int64_t> index(int64_t t, int64_t n, int64_t h) const {
    return ragged_ ? std::vector<int64_t>{starts_[size_t(t)] + n, h}
                   : std::vector<int64_t>{n, t, h};
  }
  static std::vector<int64_t> channel(std::vector<int64_t> at, int64_t c) {
    at.push_back(c);
    return at;
  }
  // Some lse are far up, and rise by more than e^88; state 1 is empty, and so
  // are all of row 2.
  float some(uint64_t n) const {
    return float(int64_t(hash(7, n) % 4096)) / 512 - 4;
  }
  float lse_of(int64_t t, int64_t n, int64_t h) const {
    if (t == 2 || n == 1) return float(kNone);
    return some(uint64_t(t * 100 + n * 10 + h)) + (n > 2 ? 120.0f : 0.0f) +
           form_.shift;
  }
  void fill(int64_t t, int64_t h) {
    for (int64_t n = 0; n < others(t); ++n) {
      lse_.at(index(t, n, h)) = lse_of(t, n, h);
      for (int64_t c = 0; c < kWidth; ++c) {
        states_.at(channel(index(t, n, h), c)) =
            some(uint64_t(((t * 20 + n) * 20 + h) * 20 + c + 1000));
      }
    }
    if (in_place_) {
      o_lse_.at({t, h}) = t == 2 ? float(kNone) : 119.5f + form_.shift;
      for (int64_t c = 0; c < kWidth; ++c) {
        o_.at({t, h, c}) = some(uint64_t((t * 20 + h) * 20 + c + 9000));
      }
    }
  }
  static qkvet_tensor list(void* data, int64_t count, qkvet_dtype type,
                           int which) {
    static int64_t shapes[2], stride = 1;
    shapes[which] = count;
    qkvet_tensor t = {};
    t.data = data;
    t.device_type = QKVET_DEVICE_CPU;
    t.ndim = 1;
    t.dtype = type;
    t.shape = &shapes[which];
    t.strides = &stride;
    return t;
  }

  void expect_head(int64_t t, int64_t h) {
    const double ln = base2_ ? std::log(2.0) : 1;
    std::vector<double> lse;
    for (int64_t n = 0; n < others(t); ++n) {
      lse.push_back(lse_.at(index(t, n, h)) * ln);
    }
    if (in_place_) lse.push_back(o_lse_.at({t, h}) * ln);
    double max = kNone, sum = 0;
    for (const double x : lse) max = std::fmax(max, x);
    for (const double x : lse) sum += max == kNone ? 0 : std::exp(x - max);
    const bool stays = form_.has(QKVET_MERGE_ROW_MASK) && mask_[size_t(t)] == 0;
    for (int64_t c = 0; c < kWidth; ++c) {
      double o = 0;
      for (size_t n = 0; sum > 0 && n < lse.size(); ++n) {
        const bool own = in_place_ && n + 1 == lse.size();
        const double x = own ? o_.at({t, h, c})
                             : states_.at(channel(index(t, int64_t(n), h), c));
        o += std::exp(lse[n] - max) / sum * x;
      }
      expected_.push_back(stays ? double(o_.at({t, h, c})) : o);
    }
    expected_.push_back(stays      ? double(o_lse_.at({t, h}))
                        : sum == 0 ? kNone
                                   : (max + std::log(sum)) / ln);
  }

  Form form_;
  bool base2_, ragged_, in_place_;
  std::array<int64_t, kRows + 1> starts_ = {0, kStates - 1, kStates - 1,
                                            kStates};
  std::array<uint8_t, kRows> mask_ = {1, 0, 2};
  Numbers states_, lse_, o_, o_lse_;
  std::vector<double> expected_;
};

bool merges(const qkvet_kernel& kernel) {
  return kernel.merge != nullptr && is_declared(*kernel.capabilities, kF32) &&
         OpenKernel(&kernel).status() == QKVET_OK;
}

bool in_base2(const qkvet_kernel& kernel) {
  return kernel.dialect != nullptr &&
         kernel.dialect->lse_base == QKVET_LSE_BASE2;
}

std::vector<Form> all_forms() {
  constexpr uint64_t kMasked = QKVET_MERGE_IN_PLACE | QKVET_MERGE_ROW_MASK;
  std::vector<Form> forms;
  for (const uint64_t way :
       {uint64_t{0}, QKVET_MERGE_RAGGED, QKVET_MERGE_IN_PLACE, kMasked}) {
    for (const uint64_t layout :
         {uint64_t{0}, QKVET_MERGE_LSE_HEADS_FIRST, QKVET_MERGE_ANY_STRIDES}) {
      forms.push_back({way | layout, kStates});
    }
  }
  forms.push_back({0, 1});
  forms.push_back({0, 2});
  // Below what stands for minus infinity in some kernels.
  forms.push_back({0, kStates, -0x1p21f});
  return forms;
}

qkvet_status merge(const qkvet_kernel* kernel, MergeCall* call, Reason* why) {
  const qkvet_merge_args args = call->args();
  return kernel->merge->merge(kernel, nullptr, &args, nullptr, &why->text);
}

bool takes(const qkvet_kernel* kernel, const Form& form) {
  const uint64_t has = kernel->merge->options;
  return (form.options & ~has) == 0 &&
         ((has & QKVET_MERGE_LSE_HEADS_FIRST_ONLY) == 0 ||
          form.has(QKVET_MERGE_LSE_HEADS_FIRST));
}

// Forms that the kernel takes and answers wrongly.
int wrong_forms(const qkvet_kernel* kernel) {
  int wrong = 0;
  for (const Form& form : all_forms()) {
    if (!takes(kernel, form)) continue;
    MergeCall call(form, in_base2(*kernel));
    call.expect();
    Reason why;
    EXPECT_EQ(merge(kernel, &call, &why), QKVET_OK)
        << kernel->name << " " << why.room;
    wrong += call.is_right() ? 0 : 1;
  }
  return wrong;
}

TEST(MergeKernels, StatesBecomeOneInEveryForm) {
  const auto kernels = kernels_that(/*faulty=*/false, merges);
  ASSERT_GE(kernels.size(), 4u);
  for (const qkvet_kernel* kernel : kernels) {
    EXPECT_EQ(wrong_forms(kernel), 0) << kernel->name;
  }
}

TEST(MergeKernels, LseHeadsFirstAloneRefusesAllElse) {
  const auto kernels = kernels_that(false, [](const qkvet_kernel& kernel) {
    return merges(kernel) &&
           (kernel.merge->options & QKVET_MERGE_LSE_HEADS_FIRST_ONLY) != 0;
  });
  ASSERT_EQ(kernels.size(), 1u);
  for (const Form& form : all_forms()) {
    MergeCall call(form, in_base2(*kernels[0]));
    Reason why;
    EXPECT_EQ(merge(kernels[0], &call, &why) == QKVET_OK,
              takes(kernels[0], form))
        << why.room;
  }
}

TEST(MergeKernels, WhatIsAskedAndNotDeclaredIsRefused) {
  for (const qkvet_kernel* kernel : kernels_that(/*faulty=*/true, merges)) {
    for (const Form& form : all_forms()) {
      constexpr uint64_t kWays = QKVET_MERGE_RAGGED | QKVET_MERGE_IN_PLACE;
      if ((form.options & kWays & ~kernel->merge->options) == 0) continue;
      MergeCall call(form, in_base2(*kernel));
      Reason why;
      EXPECT_EQ(merge(kernel, &call, &why), QKVET_UNSUPPORTED) << kernel->name;
    }
  }
}

TEST(MergeFaults, AreWrongInSomeForm) {
  const auto kernels = kernels_that(/*faulty=*/true, merges);
  ASSERT_GE(kernels.size(), 12u);
  for (const qkvet_kernel* kernel : kernels) {
    // Two have right numbers: a guard page and a count of memory find them.
    const std::string name = kernel->name;
    const bool has_right_numbers = name == "faulty/merge_reads_one_more" ||
                                   name == "faulty/merge_leaks_memory";
    EXPECT_EQ(wrong_forms(kernel) == 0, has_right_numbers) << name;
  }
}

}  // namespace
}  // namespace qkvet::impl::merge_kernels_test

// SPDX-License-Identifier: Apache-2.0
// Kernels that serve, against scalar/plain on the same tokens in rows; what
// they must refuse; and the faults of serving, in and out of their trigger.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "impl/abi/declare.h"
#include "impl/testing/family_fixture.h"

namespace qkvet::impl::serving_test {
namespace {

struct ServingCase {
  Problem problem;
  std::vector<int64_t> lengths;  // with new tokens
  int64_t page_size = 3;
  std::vector<int32_t> table;  // [batch, columns]
  int64_t pages = 0;
  int64_t new_tokens = 0;
  bool csr = false;     // the table as lists
  bool narrow = false;  // lengths in int32
  bool groups = false;  // keys in groups of channels
};

// Two members of 7 and 6 tokens in pages of 3, anywhere. The tail of the second
// names a page of the first.
ServingCase trigger(int32_t causal) {
  ServingCase s;
  s.problem = {.batch = 2,
               .heads = 4,
               .kv_heads = 2,
               .queries = 3,
               .keys = 7,
               .width = 8,
               .value_width = 5,
               .causal = causal};
  s.lengths = {7, 6};
  s.table = {4, 0, 6, -1, 2, 5, 4, 7};
  s.pages = 7;
  s.new_tokens = 2;
  return s;
}

// One member, pages of 4 in order, nothing new.
ServingCase harmless() {
  ServingCase s;
  s.problem = {.heads = 4,
               .kv_heads = 2,
               .queries = 3,
               .keys = 6,
               .width = 8,
               .value_width = 5,
               .causal = QKVET_CAUSAL_BOTTOM_RIGHT};
  s.lengths = {6};
  s.page_size = 4;
  s.table = {0, 1, -1};
  s.pages = 3;
  return s;
}

class ServingCall {
 public:
  explicit ServingCall(const ServingCase& served)
      : s_(served),
        rows_(served.problem),
        k_({s_.pages, heads(), s_.page_size, s_.problem.width},
           s_.problem.layout, s_.problem.place),
        v_({s_.pages, heads(), s_.page_size, s_.problem.value_width},
           s_.problem.layout, s_.problem.place),
        k_new_({s_.problem.batch, heads(), fresh(), s_.problem.width},
               s_.problem.layout, s_.problem.place),
        v_new_({s_.problem.batch, heads(), fresh(), s_.problem.value_width},
               s_.problem.layout, s_.problem.place),
        before_(s_.lengths) {
    k_.fill(NAN);
    v_.fill(NAN);
    for (int64_t b = 0; b < s_.problem.batch; ++b) {
      before_[size_t(b)] -= s_.new_tokens;
      place(b, rows_.k, s_.problem.width, &k_, &k_new_);
      place(b, rows_.v, s_.problem.value_width, &v_, &v_new_);
    }
  }

  qkvet_forward_args args() {
    qkvet_forward_args a = rows_.args();
    a.k = k_.tensor();
    a.v = v_.tensor();
    a.kv_len = list(before_, &batch_);
    table_shape_[0] = s_.problem.batch;
    table_shape_[1] = columns();
    table_strides_[0] = columns();
    a.block_table = {};
    a.block_table.data = s_.table.data();
    a.block_table.device_type = QKVET_DEVICE_CPU;
    a.block_table.ndim = 2;
    a.block_table.dtype = {QKVET_DTYPE_INT, 32, 1};
    a.block_table.shape = table_shape_;
    a.block_table.strides = table_strides_;
    a.page_size = s_.page_size;
    if (s_.new_tokens > 0) {
      a.k_new = k_new_.tensor();
      a.v_new = v_new_.tensor();
    }
    if (s_.narrow) {
      narrow_.assign(before_.begin(), before_.end());
      a.kv_len = list32(narrow_, &batch_);
    }
    if (s_.csr) {
      make_lists();
      a.block_table = a.kv_len = {};
      a.page_indptr = list32(starts_, &extents_[0]);
      a.page_indices = list32(list_, &extents_[1]);
      a.last_page_len = list32(last_, &extents_[2]);
    }
    if (s_.groups) {
      in_groups(&a);
    }
    return a;
  }

  qkvet_forward_args in_rows() { return rows_.args(); }
  // The answer of scalar/plain, on rows.
  std::vector<float> right() {
    qkvet_forward_args a = rows_.args();
    a.kv_len = list(s_.lengths, &batch_);
    OpenKernel open(find_kernel("scalar/plain"));
    EXPECT_EQ(open.forward(a), QKVET_OK) << open.reason().room;
    return rows_.outputs();
  }
  std::vector<float> outputs() const { return rows_.outputs(); }
  float key(int64_t page, int64_t slot) { return k_.at(page, 0, slot, 0); }
  float given_key(int64_t b, int64_t j) { return rows_.k.at(b, 0, j, 0); }

  static qkvet_tensor list(std::vector<int64_t>& numbers, int64_t* shape) {
    static int64_t stride = 1;
    *shape = int64_t(numbers.size());
    qkvet_tensor t = {};
    t.data = numbers.data();
    t.device_type = QKVET_DEVICE_CPU;
    t.ndim = 1;
    t.dtype = {QKVET_DTYPE_INT, 64, 1};
    t.shape = shape;
    t.strides = &stride;
    return t;
  }

  static qkvet_tensor list32(std::vector<int32_t>& numbers, int64_t* shape) {
    static std::vector<int64_t> none;
    qkvet_tensor t = list(none, shape);
    *shape = int64_t(numbers.size());
    t.data = numbers.data();
    t.dtype = {QKVET_DTYPE_INT, 32, 1};
    return t;
  }

  ServingCase s_;

 private:
  // The table as lists, with a page of nobody and none behind them.
  void make_lists() {
    starts_ = {0};
    list_.clear();
    last_.clear();
    for (int64_t b = 0; b < s_.problem.batch; ++b) {
      const int64_t length = s_.lengths[size_t(b)];
      for (int64_t p = 0; p * s_.page_size < length; ++p) {
        list_.push_back(s_.table[size_t(b * columns() + p)]);
      }
      starts_.push_back(int32_t(list_.size()));
      last_.push_back(int32_t((length - 1) % s_.page_size + 1));
    }
    list_.push_back(1);
    list_.push_back(-1);
  }

  // The pools as vLLM's paged_attention_v1 has them: keys [pages, Hkv, d / 4,
  // page, 4], values [pages, Hkv, dv, page].
  void in_groups(qkvet_forward_args* a) {
    constexpr int64_t kX = 4;
    const int64_t page = s_.page_size, d = s_.problem.width;
    const int64_t dv = s_.problem.value_width;
    a->channel_group = kX;
    group_shape_ = {s_.pages, heads(), page, d / kX, kX};
    group_strides_ = {heads() * page * d, page * d, kX, page * kX, 1};
    value_shape_ = {s_.pages, heads(), page, dv};
    value_strides_ = {heads() * page * dv, page * dv, 1, page};
    grouped_keys_.resize(size_t(s_.pages * heads() * page * d));
    turned_values_.resize(size_t(s_.pages * heads() * page * dv));
    for (int64_t head = 0; head < s_.pages * heads(); ++head) {
      const int64_t p = head / heads(), h = head % heads();
      for (int64_t t = 0; t < page; ++t) {
        for (int64_t c = 0; c < d; ++c) {
          grouped_keys_[size_t(head * page * d + (c / kX * page + t) * kX +
                               c % kX)] = k_.at(p, h, t, c);
        }
        for (int64_t c = 0; c < dv; ++c) {
          turned_values_[size_t((head * dv + c) * page + t)] =
              v_.at(p, h, t, c);
        }
      }
    }
    a->k.ndim = 5;
    a->k.data = grouped_keys_.data();
    a->k.shape = group_shape_.data();
    a->k.strides = group_strides_.data();
    a->v.data = turned_values_.data();
    a->v.shape = value_shape_.data();
    a->v.strides = value_strides_.data();
    a->k.byte_offset = a->v.byte_offset = 0;
  }

  int64_t heads() const { return s_.problem.kv_heads; }
  int64_t fresh() const { return s_.new_tokens > 0 ? s_.new_tokens : 1; }
  int64_t columns() const {
    return int64_t(s_.table.size()) / s_.problem.batch;
  }

  void place(int64_t b, const GuardedTensor& from, int64_t width,
             GuardedTensor* pool, GuardedTensor* fresh) {
    const int64_t held = s_.lengths[size_t(b)] - s_.new_tokens;
    for (int64_t j = 0; j < s_.lengths[size_t(b)]; ++j) {
      const int64_t page = s_.table[size_t(b * columns() + j / s_.page_size)];
      for (int64_t h = 0; h < heads(); ++h) {
        for (int64_t c = 0; c < width; ++c) {
          float& to = j < held ? pool->at(page, h, j % s_.page_size, c)
                               : fresh->at(b, h, j - held, c);
          to = from.at(b, h, j, c);
        }
      }
    }
  }

  Call rows_;
  GuardedTensor k_, v_, k_new_, v_new_;
  std::vector<int64_t> before_;
  std::vector<int32_t> narrow_, starts_, list_, last_;
  std::vector<float> grouped_keys_, turned_values_;
  std::array<int64_t, 5> group_shape_{}, group_strides_{};
  std::array<int64_t, 4> value_shape_{}, value_strides_{};
  int64_t extents_[3] = {};
  int64_t batch_ = 0;
  int64_t table_shape_[2] = {}, table_strides_[2] = {1, 1};
};

// Pages of every size, and NaN in slots of nobody.
// Of those that take values of their own.
bool serves(const qkvet_kernel& kernel) {
  const bool finite =
      kernel.dialect != nullptr &&
      kernel.dialect->unowned_nonfinite == QKVET_UNOWNED_NOT_IGNORED;
  const bool in_keys =
      (kernel.capabilities->flags & QKVET_FLAG_VALUES_IN_KEYS_ONLY) != 0;
  return kernel.forward != nullptr && !finite && !in_keys &&
         (kernel.capabilities->options & QKVET_OPTION_PAGED) != 0 &&
         kernel.capabilities->page_size_count == 0;
}

std::vector<const qkvet_kernel*> serving_kernels(bool faulty) {
  return kernels_that(faulty, serves);
}

bool packs(const qkvet_kernel& kernel) {
  return serves(kernel) &&
         (kernel.capabilities->options & QKVET_OPTION_PACKED_PAGES) != 0;
}

bool lists(const qkvet_kernel& kernel) {
  return serves(kernel) &&
         (kernel.capabilities->options & QKVET_OPTION_PAGED_CSR) != 0;
}

ServingCase in_lists(ServingCase served) {
  served.csr = true;
  return served;
}

bool takes_groups(const qkvet_kernel& kernel) {
  return serves(kernel) && (kernel.capabilities->options &
                            QKVET_OPTION_PAGED_CHANNEL_GROUPS) != 0;
}

// Of a width of six groups, four and two.
ServingCase in_groups(ServingCase served) {
  served.groups = true;
  served.problem.width = 24;
  return served;
}

// The members of trigger() with their rows side by side, as a packed batch has
// them, and cut into members anew.
class PackedCall {
 public:
  PackedCall(int32_t causal, std::vector<int64_t> starts)
      : call_(in_rows(causal)), starts_(std::move(starts)) {}

  qkvet_forward_args args() {
    qkvet_forward_args a = call_.args();
    pack_rows(a);
    return a;
  }
  // The answer of scalar/plain to a packed batch in rows. The first member
  // fills its rows of k and v, so that the second follows it.
  std::vector<float> right() {
    qkvet_forward_args a = call_.in_rows();
    pack_rows(a);
    pack(2, &a.k);
    pack(3, &a.v);
    a.cu_seqlens_k = ServingCall::list(key_starts_, &key_count_);
    OpenKernel open(find_kernel("scalar/plain"));
    EXPECT_EQ(open.forward(a), QKVET_OK) << open.reason().room;
    return call_.outputs();
  }
  std::vector<float> outputs() const { return call_.outputs(); }

 private:
  static ServingCase in_rows(int32_t causal) {
    ServingCase served = trigger(causal);
    served.problem.layout = Layout::kBthd;
    return served;
  }
  // [B, H, T, ...] as [1, H, B T, ...].
  void pack(size_t n, qkvet_tensor* t) {
    std::copy_n(t->shape, t->ndim, shapes_[n]);
    shapes_[n][2] *= shapes_[n][0];
    shapes_[n][0] = 1;
    t->shape = shapes_[n];
  }
  void pack_rows(qkvet_forward_args& a) {
    pack(0, &a.q);
    pack(1, &a.o);
    pack(4, &a.lse);
    a.cu_seqlens_q = ServingCall::list(starts_, &count_);
  }

  ServingCall call_;
  std::vector<int64_t> starts_, key_starts_ = {0, 7, 13};
  int64_t shapes_[5][4] = {};
  int64_t count_ = 0, key_count_ = 0;
};

// A step of decoding and a prompt in either order, two prompts, and a member
// without rows.
bool is_right_packed(const qkvet_kernel* kernel) {
  OpenKernel open(kernel);
  if (open.status() == QKVET_UNAVAILABLE) {
    return true;
  }
  bool right = true;
  for (const int32_t causal :
       {QKVET_CAUSAL_NONE, QKVET_CAUSAL_TOP_LEFT, QKVET_CAUSAL_BOTTOM_RIGHT}) {
    for (const std::vector<int64_t>& starts :
         {std::vector<int64_t>{0, 1, 6}, {0, 5, 6}, {0, 3, 6}, {0, 0, 6}}) {
      PackedCall call(causal, starts);
      const std::vector<float> expected = call.right();
      EXPECT_EQ(open.forward(call.args()), QKVET_OK)
          << kernel->name << " " << open.reason().room;
      const std::vector<float> seen = call.outputs();
      for (size_t n = 0; n < expected.size(); ++n) {
        right &=
            std::fabs(seen[n] - expected[n]) <= kRoom || seen[n] == expected[n];
      }
    }
  }
  return right;
}

// The kernel answers as scalar/plain does.
bool is_right(const qkvet_kernel* kernel, const ServingCase& served) {
  ServingCall call(served);
  const std::vector<float> right = call.right();
  OpenKernel open(kernel);
  if (open.status() == QKVET_UNAVAILABLE) {
    return true;
  }
  EXPECT_EQ(open.forward(call.args()), QKVET_OK)
      << kernel->name << " " << open.reason().room;
  const std::vector<float> seen = call.outputs();
  for (size_t n = 0; n < right.size(); ++n) {
    if (!(std::fabs(seen[n] - right[n]) <= kRoom)) {
      return false;
    }
  }
  return true;
}

TEST(Serving, PagesAnywhereAnswerAsRowsDo) {
  ASSERT_GE(serving_kernels(false).size(), 3u);
  for (const qkvet_kernel* kernel : serving_kernels(false)) {
    EXPECT_TRUE(is_right(kernel, harmless())) << kernel->name;
    for (const int32_t causal :
         {QKVET_CAUSAL_NONE, QKVET_CAUSAL_TOP_LEFT, QKVET_CAUSAL_BOTTOM_RIGHT})
      for (const Layout layout :
           {Layout::kBhtd, Layout::kBthd, Layout::kBhdt, Layout::kGaps})
        for (const Placement place :
             {Placement::kEndFlush, Placement::kStartFlush}) {
          ServingCase served = trigger(causal);
          served.problem.layout = layout;
          served.problem.place = place;
          EXPECT_TRUE(is_right(kernel, served)) << kernel->name;
          served.new_tokens = 0;
          EXPECT_TRUE(is_right(kernel, served)) << kernel->name;
        }
  }
}

TEST(Serving, NewTokensStayInThePages) {
  for (const qkvet_kernel* kernel : serving_kernels(false)) {
    OpenKernel open(kernel);
    if (open.status() == QKVET_UNAVAILABLE) {
      continue;
    }
    ServingCall call(trigger(QKVET_CAUSAL_NONE));
    ASSERT_EQ(open.forward(call.args()), QKVET_OK);
    // Tokens 5 and 6 of the first member, 4 and 5 of the second.
    EXPECT_EQ(call.key(0, 2), call.given_key(0, 5)) << kernel->name;
    EXPECT_EQ(call.key(6, 0), call.given_key(0, 6)) << kernel->name;
    EXPECT_EQ(call.key(5, 1), call.given_key(1, 4)) << kernel->name;
    EXPECT_EQ(call.key(5, 2), call.given_key(1, 5)) << kernel->name;
    EXPECT_TRUE(std::isnan(call.key(6, 1))) << kernel->name;
    EXPECT_TRUE(std::isnan(call.key(1, 0))) << kernel->name;
  }
}

TEST(Serving, ListsOfPagesAnswerAsTablesDo) {
  ASSERT_GE(kernels_that(false, lists).size(), 3u);
  for (const qkvet_kernel* kernel : kernels_that(false, lists)) {
    EXPECT_TRUE(is_right(kernel, in_lists(harmless()))) << kernel->name;
    for (const int32_t causal : {QKVET_CAUSAL_NONE, QKVET_CAUSAL_BOTTOM_RIGHT})
      for (const int64_t fresh : {0, 2}) {
        ServingCase served = in_lists(trigger(causal));
        served.new_tokens = fresh;
        EXPECT_TRUE(is_right(kernel, served)) << kernel->name;
      }
  }
}

TEST(Serving, LengthsOfEitherWidthAreTheSame) {
  int64_t kernels = 0;
  for (const qkvet_kernel* kernel : serving_kernels(false)) {
    ServingCase served = trigger(QKVET_CAUSAL_BOTTOM_RIGHT);
    served.narrow = true;
    if ((kernel->capabilities->options & QKVET_OPTION_INT32_LENGTHS) != 0) {
      EXPECT_TRUE(is_right(kernel, served)) << kernel->name;
      ++kernels;
      continue;
    }
    OpenKernel open(kernel);
    if (open.status() == QKVET_UNAVAILABLE) {
      continue;
    }
    ServingCall call(served);
    EXPECT_EQ(open.forward(call.args()), QKVET_INVALID_ARGUMENT);
    EXPECT_STREQ(open.reason().room, "lengths are int64") << kernel->name;
  }
  EXPECT_GE(kernels, 3);
}

TEST(Serving, ListsThatCannotBeAreRefusedBeforeAnythingIsWritten) {
  using A = qkvet_forward_args;
  const auto at = [](const qkvet_tensor& t, size_t n) -> int32_t& {
    return static_cast<int32_t*>(t.data)[n];
  };
  static const auto number = at;
  const std::pair<const char*, void (*)(A&)> wrong[] = {
      {"a list of pages begins at 0",
       [](A& a) { number(a.page_indptr, 0) = 1; }},
      {"the pages of a member end before they begin, or behind the list",
       [](A& a) { number(a.page_indptr, 1) = 6; }},
      {"the pages of a member end before they begin, or behind the list",
       [](A& a) { number(a.page_indptr, 2) = 8; }},
      {"a last page has no token, or more than a page has",
       [](A& a) { number(a.last_page_len, 1) = 0; }},
      {"a last page has no token, or more than a page has",
       [](A& a) { number(a.last_page_len, 0) = 4; }},
      {"a length is negative, or there is no room for it",
       [](A& a) {
         number(a.page_indptr, 1) = 0;  // and two tokens are new
         number(a.page_indptr, 2) = 1;
       }},
      {"a block table names a page that is not there",
       [](A& a) { number(a.page_indices, 1) = 7; }},
      {"lists of pages are int32",
       [](A& a) { a.page_indices.dtype.bits = 64; }},
      {"lists of pages have a start for each member and the end, and a number "
       "of tokens for each",
       [](A& a) { a.page_indptr = a.last_page_len; }},
      {"pages are in a block table with kv_len or in lists, not in both",
       [](A& a) { a.kv_len = a.last_page_len; }},
      {"a required tensor is absent", [](A& a) { a.last_page_len = {}; }}};
  for (const qkvet_kernel* kernel : kernels_that(false, lists)) {
    OpenKernel open(kernel);
    for (const auto& [message, spoil] : wrong) {
      ServingCall call(in_lists(trigger(QKVET_CAUSAL_NONE)));
      A args = call.args();
      spoil(args);
      EXPECT_EQ(open.forward(args), QKVET_INVALID_ARGUMENT)
          << kernel->name << " " << message;
      EXPECT_STREQ(open.reason().room, message) << kernel->name;
      EXPECT_TRUE(std::isnan(call.key(0, 2))) << kernel->name << message;
    }
  }
}

TEST(Serving, PackedMembersInPagesAnswerAsInRows) {
  ASSERT_GE(kernels_that(false, packs).size(), 3u);
  for (const qkvet_kernel* kernel : kernels_that(false, packs)) {
    EXPECT_TRUE(is_right_packed(kernel)) << kernel->name;
  }
}

TEST(Serving, PackedMembersThatCannotBeAreRefused) {
  using A = qkvet_forward_args;
  const std::pair<const char*, void (*)(A&)> wrong[] = {
      {"a packed batch over pages has B = 1, cu_seqlens_q and kv_len, and no "
       "other lengths",
       [](A& a) { a.cu_seqlens_k = a.cu_seqlens_q; }},
      {"pages come with kv_len", [](A& a) { a.kv_len = {}; }},
      {"a block table has a row for each member",
       [](A& a) { a.cu_seqlens_q = a.kv_len; }},
      {"the starts of a packed batch do not ascend from 0",
       [](A& a) { static_cast<int64_t*>(a.cu_seqlens_q.data)[0] = 4; }},
      {"a member of a packed batch is beyond the extents",
       [](A& a) { static_cast<int64_t*>(a.cu_seqlens_q.data)[2] = 7; }}};
  for (const qkvet_kernel* kernel : kernels_that(false, packs)) {
    OpenKernel open(kernel);
    if (open.status() == QKVET_UNAVAILABLE) {
      continue;
    }
    for (const auto& [message, spoil] : wrong) {
      PackedCall call(QKVET_CAUSAL_NONE, {0, 2, 6});
      A args = call.args();
      spoil(args);
      EXPECT_EQ(open.forward(args), QKVET_INVALID_ARGUMENT)
          << kernel->name << " " << message;
      EXPECT_STREQ(open.reason().room, message) << kernel->name;
    }
  }
}

// Nothing is written of a call that is refused.
TEST(Serving, WhatCannotBeIsRefusedBeforeAnythingIsWritten) {
  using A = qkvet_forward_args;
  const std::pair<const char*, void (*)(A&)> wrong[] = {
      {"pages come with kv_len", [](A& a) { a.kv_len = {}; }},
      {"k and v are not pages of page_size tokens",
       [](A& a) { a.page_size = 4; }},
      {"a block table is int32", [](A& a) { a.block_table.dtype.bits = 64; }},
      {"a page size, and no block table", [](A& a) { a.block_table = {}; }},
      {"new tokens are not [B, Hkv, Tnew, d] and [B, Hkv, Tnew, dv]",
       [](A& a) { a.k_new = a.v_new; }},
      {"a required tensor is absent", [](A& a) { a.v_new = {}; }},
      {"a length is negative, or there is no room for it",
       [](A& a) { static_cast<int64_t*>(a.kv_len.data)[1] = -1; }},
      {"a length is negative, or there is no room for it",
       [](A& a) { static_cast<int64_t*>(a.kv_len.data)[0] = 11; }},
      {"a block table names a page that is not there",
       [](A& a) { static_cast<int64_t*>(a.kv_len.data)[0] = 8; }},
      {"a block table names a page that is not there",
       [](A& a) { static_cast<int32_t*>(a.block_table.data)[5] = 7; }}};
  for (const qkvet_kernel* kernel : serving_kernels(false)) {
    OpenKernel open(kernel);
    if (open.status() == QKVET_UNAVAILABLE) {
      continue;
    }
    for (const auto& [message, spoil] : wrong) {
      ServingCall call(trigger(QKVET_CAUSAL_NONE));
      A args = call.args();
      spoil(args);
      EXPECT_EQ(open.forward(args), QKVET_INVALID_ARGUMENT)
          << kernel->name << " " << message;
      EXPECT_STREQ(open.reason().room, message) << kernel->name;
      EXPECT_TRUE(std::isnan(call.key(0, 2))) << kernel->name << message;
    }
  }
}

TEST(Serving, KeysInGroupsOfChannelsAreTheSameKeys) {
  int taken = 0;
  for (const qkvet_kernel* kernel : serving_kernels(false)) {
    OpenKernel open(kernel);
    if (open.status() == QKVET_UNAVAILABLE) {
      continue;
    }
    const ServingCase grouped = in_groups(trigger(QKVET_CAUSAL_BOTTOM_RIGHT));
    if (!takes_groups(*kernel)) {
      ServingCall call(grouped);
      const qkvet_forward_args args = call.args();
      EXPECT_EQ(open.forward(args), QKVET_UNSUPPORTED) << kernel->name;
      continue;
    }
    ++taken;
    EXPECT_TRUE(is_right(kernel, grouped)) << kernel->name;
    EXPECT_TRUE(is_right(kernel, in_lists(grouped))) << kernel->name;
    const std::pair<const char*, void (*)(qkvet_forward_args&)> wrong[] = {
        {"groups of channels are 16 bytes each",
         [](qkvet_forward_args& a) { a.channel_group = 8; }},
        {"groups of channels are 16 bytes each",
         [](qkvet_forward_args& a) { a.channel_group = -4; }},
        {"groups of channels are those of keys in pages",
         [](qkvet_forward_args& a) { a.page_size = 0; }}};
    for (const auto& [message, spoil] : wrong) {
      ServingCall call(grouped);
      qkvet_forward_args args = call.args();
      spoil(args);
      EXPECT_EQ(open.forward(args), QKVET_INVALID_ARGUMENT)
          << kernel->name << " " << message;
      EXPECT_STREQ(open.reason().room, message) << kernel->name;
    }
    ServingCall call(grouped);
    qkvet_forward_args args = call.args();
    args.channel_group = 0;  // of rank 5
    EXPECT_NE(open.forward(args), QKVET_OK) << kernel->name;
  }
  EXPECT_GE(taken, 2);
}

TEST(ServingFaults, AreWrongInTheirTriggerAndRightOutsideOfIt) {
  ASSERT_GE(serving_kernels(true).size(), 12u);
  for (const qkvet_kernel* kernel : serving_kernels(true)) {
    EXPECT_TRUE(is_right(kernel, harmless())) << kernel->name;
    // None of these calls has lists of keys; the laws ask about them.
    if ((kernel->capabilities->options & QKVET_OPTION_KEY_LISTS) != 0) {
      EXPECT_TRUE(is_right(kernel, in_lists(trigger(QKVET_CAUSAL_NONE))))
          << kernel->name;
      EXPECT_TRUE(is_right_packed(kernel)) << kernel->name;
      continue;
    }
    if (takes_groups(*kernel)) {
      EXPECT_TRUE(is_right(kernel, trigger(QKVET_CAUSAL_BOTTOM_RIGHT)))
          << kernel->name;
      EXPECT_FALSE(is_right(kernel, in_groups(trigger(QKVET_CAUSAL_NONE))))
          << kernel->name;
      continue;
    }
    // Begins behind the few pages of trigger(); the laws ask it of large pools.
    if (std::string(kernel->source_file) == "impl/faulty/long.cpp") continue;
    if (lists(*kernel)) {
      EXPECT_TRUE(is_right(kernel, trigger(QKVET_CAUSAL_BOTTOM_RIGHT)))
          << kernel->name;
      EXPECT_TRUE(is_right_packed(kernel)) << kernel->name;
      EXPECT_FALSE(is_right(kernel, in_lists(trigger(QKVET_CAUSAL_NONE))))
          << kernel->name;
      continue;
    }
    if (packs(*kernel)) {
      EXPECT_TRUE(is_right(kernel, trigger(QKVET_CAUSAL_BOTTOM_RIGHT)))
          << kernel->name;
      EXPECT_FALSE(is_right_packed(kernel)) << kernel->name;
      continue;
    }
    const bool right = is_right(kernel, trigger(QKVET_CAUSAL_NONE)) &&
                       is_right(kernel, trigger(QKVET_CAUSAL_BOTTOM_RIGHT));
    EXPECT_FALSE(right) << kernel->name;
  }
}

}  // namespace
}  // namespace qkvet::impl::serving_test

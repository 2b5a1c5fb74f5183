// SPDX-License-Identifier: Apache-2.0
// What a kernel must declare for masks, biases, lengths and layouts.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "core/capability/capability.h"

namespace qkvet::capability_options_test {
namespace {

constexpr std::byte kData[1] = {};

// Allowed by a kernel that declares a default scale and nothing else.
KernelCall plain_call() {
  KernelCall call;
  call.shape = {1, 2, 2, 8, 8, 16, 16};
  call.q = call.k = call.v = kData;
  return call;
}

KernelInfo plain_kernel() {
  KernelInfo kernel;
  kernel.capabilities.options = QKVET_OPTION_DEFAULT_SCALE;
  return kernel;
}

// Where two members begin and end.
constexpr int64_t kEnds[] = {0, 3, 8};
constexpr int64_t kOtherEnds[] = {0, 5, 8};

void pack(KernelCall& call, const int64_t* q, const int64_t* k) {
  call.members = 2;
  call.cu_q = reinterpret_cast<const std::byte*>(q);
  call.cu_k = reinterpret_cast<const std::byte*>(k);
}

// The reason against the call; "" if it is allowed.
std::string reason(const std::function<void(KernelCall&)>& change,
                   uint64_t more_options = 0) {
  KernelCall call = plain_call();
  KernelInfo kernel = plain_kernel();
  kernel.capabilities.options |= more_options;
  change(call);
  std::string why;
  const bool allowed = capability_allows(kernel, call, &why);
  EXPECT_EQ(allowed, why.empty());
  return why;
}

TEST(CapabilityOptions, EveryOptionIsNeeded) {
  const struct {
    std::function<void(KernelCall&)> change;
    uint64_t option;
    const char* why;
  } rows[] = {
      {[](auto& c) { c.shape.Tq = c.shape.Tk = 0; }, QKVET_OPTION_EMPTY_EXTENTS,
       "empty extents"},
      {[](auto& c) { c.window = Window{}; }, QKVET_OPTION_WINDOW, "a window"},
      {[](auto& c) { c.mask = kData; }, QKVET_OPTION_MASK, "a mask"},
      {[](auto& c) { c.bias = kData; }, QKVET_OPTION_BIAS, "a bias"},
      {[](auto& c) { c.softcap = 3; }, QKVET_OPTION_SOFTCAP, "a softcap"},
      {[](auto& c) { c.sink = kData; }, QKVET_OPTION_SINK, "a sink"},
      {[](auto& c) { c.slopes = kData; }, QKVET_OPTION_ALIBI, "ALiBi"},
      {[](auto& c) { c.q_len = kData; }, QKVET_OPTION_LENGTHS,
       "lengths (q_len, kv_len)"},
      {[](auto& c) { c.kv_len = kData; }, QKVET_OPTION_LENGTHS,
       "lengths (q_len, kv_len)"},
      {[](auto& c) { pack(c, kEnds, kEnds); }, QKVET_OPTION_PACKED,
       "a packed batch"},
      {[](auto& c) {
         c.dropout = Dropout{0.5F, 1, 0};
       },
       QKVET_OPTION_DROPOUT, "dropout"},
  };
  EXPECT_EQ(reason([](auto&) {}), "");
  for (const auto& row : rows) {
    EXPECT_EQ(reason(row.change), std::string(row.why) + " is not declared");
    EXPECT_EQ(reason(row.change, row.option), "");
    EXPECT_NE(reason(row.change, ~row.option), "");
  }
}

TEST(CapabilityOptions, TheMaskOfDropoutIsAnOptionOfItsOwn) {
  const auto asked = [](auto& c) {
    c.dropout = Dropout{0.5F, 1, 0};
    c.want_dropout_mask = true;
  };
  EXPECT_EQ(reason(asked, QKVET_OPTION_DROPOUT),
            "a dropout_mask is not declared");
  EXPECT_EQ(reason(asked, QKVET_OPTION_DROPOUT | QKVET_OPTION_DROPOUT_MASK),
            "");
}

TEST(CapabilityOptions, DropoutIsAProbabilityBelowOne) {
  for (const float p : {1.0F, -0.5F, std::numeric_limits<float>::quiet_NaN()})
    EXPECT_EQ(reason(
                  [p](auto& c) {
                    c.dropout = Dropout{p, 1, 0};
                  },
                  QKVET_OPTION_DROPOUT),
              "dropout is no probability below 1");
  EXPECT_EQ(
      reason([](auto& c) { c.want_dropout_mask = true; }, QKVET_OPTION_DROPOUT),
      "a mask of dropout without dropout");
}

// Each layout has a bit of its own; any strides will do for all of them.
TEST(CapabilityOptions, LayoutsAndSharing) {
  const struct {
    Layout layout;
    uint8_t share;
    uint64_t enough;
    const char* why;
  } rows[] = {
      {Layout::kBhtd, 0, QKVET_LAYOUT_BHTD, "contiguous [B, H, T, d]"},
      {Layout::kBthd, 0, QKVET_LAYOUT_BTHD, "contiguous [B, T, H, d]"},
      {Layout::kPacked, 0, QKVET_LAYOUT_PACKED_QKV, "packed q, k and v"},
      {Layout::kGaps, 0, 0, "any strides (gaps between rows)"},
      {Layout::kApart, 0, 0, "any strides (channels apart)"},
      {Layout::kFar, 0, 0, "any strides (members far apart)"},
      {Layout::kBhtd, kShareB, 0, "any strides (shared k and v)"},
      {Layout::kBhtd, kShareH, 0, "any strides (shared k and v)"}};
  constexpr uint64_t kContiguous =
      QKVET_LAYOUT_BHTD | QKVET_LAYOUT_BTHD | QKVET_LAYOUT_PACKED_QKV;
  for (const auto& row : rows) {
    const auto reason_with = [&](uint64_t layouts) {
      KernelInfo kernel = plain_kernel();
      kernel.capabilities.layouts = layouts;
      KernelCall call = plain_call();
      call.layout = row.layout;
      call.share = row.share;
      std::string why;
      capability_allows(kernel, call, &why);
      return why;
    };
    const std::string missing = std::string(row.why) + " is not declared";
    EXPECT_EQ(reason_with(QKVET_LAYOUT_ANY_STRIDES), "");
    EXPECT_EQ(reason_with(kContiguous), row.enough != 0 ? "" : missing);
    EXPECT_EQ(reason_with(kContiguous & ~row.enough), missing);
    // Nothing declared is contiguous [B, H, T, d].
    EXPECT_EQ(reason_with(0), row.enough == QKVET_LAYOUT_BHTD ? "" : missing);
  }
}

TEST(CapabilityOptions, MaskAndCausalMayBeRefused) {
  const int32_t dialects[] = {0, QKVET_MASK_AND_CAUSAL_BOTH,
                              QKVET_MASK_AND_CAUSAL_REFUSED};
  for (const int32_t both : dialects) {
    KernelInfo kernel = plain_kernel();
    kernel.capabilities.options = ~uint64_t{0};
    kernel.dialect.mask_and_causal = both;
    KernelCall call = plain_call();
    std::string why;
    call.causal = Causal::kTopLeft;
    EXPECT_TRUE(capability_allows(kernel, call, &why)) << why;
    call.mask = kData;
    const bool refused = both == QKVET_MASK_AND_CAUSAL_REFUSED;
    EXPECT_EQ(capability_allows(kernel, call, &why), !refused);
    EXPECT_EQ(why, refused
                       ? "a mask together with causal is declared as refused"
                       : "");
    call.causal = Causal::kNone;
    EXPECT_TRUE(capability_allows(kernel, call, &why)) << why;
  }
}

TEST(CapabilityOptions, NegativeScalesAndMasksWithBiasesMayBeRefused) {
  KernelInfo kernel = plain_kernel();
  kernel.capabilities.options = ~uint64_t{0};
  KernelCall negative = plain_call(), both = plain_call();
  negative.scale = -0.5f;
  both.mask = both.bias = kData;
  std::string why;
  EXPECT_TRUE(capability_allows(kernel, negative, &why)) << why;
  EXPECT_TRUE(capability_allows(kernel, both, &why)) << why;
  kernel.capabilities.flags =
      QKVET_FLAG_POSITIVE_SCALE | QKVET_FLAG_MASK_OR_BIAS;
  EXPECT_FALSE(capability_allows(kernel, negative, &why));
  EXPECT_EQ(why, "a negative scale is declared as refused");
  EXPECT_FALSE(capability_allows(kernel, both, &why));
  EXPECT_EQ(why, "a mask together with a bias is declared as refused");
  KernelCall causal = plain_call();
  causal.bias = kData;
  causal.causal = Causal::kTopLeft;
  EXPECT_TRUE(capability_allows(kernel, causal, &why)) << why;
  kernel.capabilities.flags |= QKVET_FLAG_BIAS_OR_CAUSAL;
  EXPECT_FALSE(capability_allows(kernel, causal, &why));
  EXPECT_EQ(why, "a bias together with causal is declared as refused");
  causal.causal = Causal::kNone;
  EXPECT_TRUE(capability_allows(kernel, causal, &why)) << why;
  negative.scale = 0.5f;
  both.bias = nullptr;
  EXPECT_TRUE(capability_allows(kernel, negative, &why)) << why;
  EXPECT_TRUE(capability_allows(kernel, both, &why)) << why;
}

TEST(CapabilityOptions, MembersOfAPackedBatchHaveLengthsOfTheirOwn) {
  const auto unequal = [](auto& c) { pack(c, kEnds, kOtherEnds); };
  EXPECT_EQ(reason([](auto& c) { pack(c, kEnds, kEnds); }, QKVET_OPTION_PACKED),
            "");
  EXPECT_EQ(reason(unequal, QKVET_OPTION_PACKED),
            "cross lengths (Tq != Tk) is not declared");
  EXPECT_EQ(reason(unequal, QKVET_OPTION_PACKED | QKVET_OPTION_CROSS_LENGTHS),
            "");
}

TEST(CapabilityOptions, ListsOfPagesAreAnOptionOfTheirOwn) {
  static constexpr int32_t kStarts[] = {0, 2, 3}, kLast[] = {1, 2};
  const auto lists = [](auto& c) {
    c.shape.B = 2;
    c.page_indptr = reinterpret_cast<const std::byte*>(kStarts);
    c.page_indices = kData;
    c.last_page_len = reinterpret_cast<const std::byte*>(kLast);
    c.page_size = c.pages = c.page_entries = 2;
  };
  EXPECT_EQ(reason(lists, QKVET_OPTION_PAGED_CSR), "");
  EXPECT_EQ(reason(lists, QKVET_OPTION_PAGED),
            "a list of pages (page_indptr, page_indices, last_page_len) is not "
            "declared");
  EXPECT_EQ(reason(
                [&](auto& c) {
                  lists(c);
                  c.kv_len = kData;
                },
                QKVET_OPTION_PAGED_CSR | QKVET_OPTION_PAGED),
            "lists of pages have no block table and no kv_len beside them");
  EXPECT_EQ(reason(
                [&](auto& c) {
                  lists(c);
                  c.last_page_len = nullptr;
                },
                QKVET_OPTION_PAGED_CSR),
            "lists of pages come with page_indptr, page_indices and "
            "last_page_len");
}

TEST(CapabilityOptions, Int32LengthsAreAnOptionOfTheirOwn) {
  static constexpr int32_t kShort[] = {1, 1};
  const auto narrow = [](auto& c) {
    c.shape.B = 2;
    c.kv_len = reinterpret_cast<const std::byte*>(kShort);
    c.int32_lengths = true;
  };
  EXPECT_EQ(reason(narrow, QKVET_OPTION_LENGTHS),
            "int32 lengths (q_len, kv_len, cu_seqlens_*) is not declared");
  EXPECT_EQ(reason(narrow, QKVET_OPTION_LENGTHS | QKVET_OPTION_INT32_LENGTHS),
            "");
}

TEST(CapabilityOptions, ListsOfKeysAndTheirLengthsAreTwoOptions) {
  const auto listed = [](auto& c) {
    c.listed = {4, false, true};
    c.key_indices = kData;
    c.topk_length = kData;
  };
  EXPECT_EQ(reason(listed, 0), "lists of keys (key_indices) is not declared");
  EXPECT_EQ(reason(listed, QKVET_OPTION_KEY_LISTS),
            "lengths of lists of keys (topk_length) is not declared");
  EXPECT_EQ(
      reason(listed, QKVET_OPTION_KEY_LISTS | QKVET_OPTION_KEY_LIST_LENGTHS),
      "");
}

TEST(CapabilityOptions, GroupsOfChannelsAreAnOptionBesidePages) {
  const auto grouped = [](auto& c) {
    c.shape.d = c.shape.dv = 8;
    c.kv_len = c.block_table = kData;
    c.page_size = c.pages = c.table_columns = 1;
    c.channel_group = 4;
  };
  EXPECT_EQ(reason(grouped, QKVET_OPTION_PAGED),
            "pages of keys in groups of channels (channel_group) is not "
            "declared");
  constexpr uint64_t kBoth =
      QKVET_OPTION_PAGED | QKVET_OPTION_PAGED_CHANNEL_GROUPS;
  EXPECT_EQ(reason(grouped, kBoth), "");
  const auto spoilt = [&](auto spoil) {
    return reason(
        [&](auto& c) {
          grouped(c);
          spoil(c);
        },
        kBoth);
  };
  constexpr char kWrong[] =
      "groups of channels are 16 bytes of keys in pages, and d is a multiple "
      "of them";
  EXPECT_EQ(spoilt([](auto& c) { c.channel_group = 8; }), kWrong);
  EXPECT_EQ(spoilt([](auto& c) { c.shape.d = 6; }), kWrong);
  EXPECT_EQ(spoilt([](auto& c) {
              c.kv_len = c.block_table = nullptr;
              c.page_size = c.pages = c.table_columns = 0;
            }),
            kWrong);
}

TEST(CapabilityOptions, ListsOfBlocksAreAnOptionOfTheirOwn) {
  const auto listed = [](auto& c) {
    c.listed = {4, false, false, false, 16};
    c.key_indices = kData;
  };
  EXPECT_EQ(reason(listed, QKVET_OPTION_KEY_LISTS),
            "lists of blocks of keys (key_block_size) is not declared");
  EXPECT_EQ(
      reason(listed, QKVET_OPTION_KEY_LISTS | QKVET_OPTION_KEY_LIST_BLOCKS),
      "");
}

TEST(CapabilityOptions, SlopesOfEachMemberAreAnOptionOfTheirOwn) {
  const auto sloped = [](auto& c) {
    c.slopes = kData;
    c.member_slopes = true;
  };
  EXPECT_EQ(reason(sloped, QKVET_OPTION_ALIBI),
            "ALiBi slopes of each member (slopes [B, H]) is not declared");
  EXPECT_EQ(reason(sloped, QKVET_OPTION_ALIBI | QKVET_OPTION_ALIBI_PER_MEMBER),
            "");
}

// In pages it is an option of its own, beside pages and not beside packing.
TEST(CapabilityOptions, APackedBatchOverPagesIsAnOptionOfItsOwn) {
  static constexpr int64_t kLengths[] = {3, 5}, kOthers[] = {5, 3};
  const auto paged = [](KernelCall& c, const int64_t* lengths) {
    pack(c, kEnds, nullptr);
    c.kv_len = reinterpret_cast<const std::byte*>(lengths);
    c.block_table = kData;
    c.page_size = c.pages = c.table_columns = 2;
  };
  const auto equal = [&](auto& c) { paged(c, kLengths); };
  const uint64_t both = QKVET_OPTION_PAGED | QKVET_OPTION_PACKED_PAGES;
  EXPECT_EQ(reason(equal, both), "");
  EXPECT_EQ(reason(equal, QKVET_OPTION_PAGED | QKVET_OPTION_PACKED),
            "a packed batch over pages (cu_seqlens_q, block_table) is not "
            "declared");
  EXPECT_EQ(reason(equal, QKVET_OPTION_PACKED_PAGES),
            "pages (block_table) is not declared");
  EXPECT_EQ(reason([&](auto& c) { paged(c, kOthers); }, both),
            "cross lengths (Tq != Tk) is not declared");
  EXPECT_EQ(reason(
                [&](auto& c) {
                  equal(c);
                  c.cu_k = c.cu_q;
                },
                both),
            "a packed batch over pages has members, cu_seqlens_q and no "
            "cu_seqlens_k");
  EXPECT_EQ(reason(
                [&](auto& c) {
                  equal(c);
                  c.kv_len = nullptr;
                },
                both),
            "pages and new tokens come with kv_len");
  EXPECT_EQ(reason(
                [](auto& c) {
                  pack(c, kEnds, kEnds);
                  c.new_tokens = 1;
                  c.k_new = c.v_new = kData;
                },
                ~uint64_t{0}),
            "a packed batch has no new tokens without pages");
}

TEST(CapabilityOptions, ContradictionsOfOptions) {
  const std::pair<std::function<void(KernelCall&)>, const char*> rows[] = {
      {[](auto& c) {
         c.window = Window{-2, 0};
       },
       "a side of the window is below -1"},
      {[](auto& c) { c.softcap = -1; }, "the softcap is no positive number"},
      {[](auto& c) { c.members = 2; },
       "a packed batch has members and both cu_seqlens"},
      {[](auto& c) { c.cu_k = kData; },
       "a packed batch has members and both cu_seqlens"},
      {[](auto& c) {
         pack(c, kEnds, kEnds);
         c.shape.B = 2;
       },
       "a packed batch has B = 1"},
      {[](auto& c) {
         pack(c, kEnds, kEnds);
         c.kv_len = kData;
       },
       "a packed batch and q_len or kv_len exclude each other"}};
  for (const auto& [change, why] : rows)
    EXPECT_EQ(reason(change, ~uint64_t{0}), why);
}

// What takes two parts may refuse both in one call, by its word or by the
// version of its library, which says nothing where there is no such part.
TEST(CapabilityOptions, WhatAVersionKnewIsAllThatIsAsked) {
  constexpr uint64_t kBoth =
      QKVET_FLAG_LISTS_OR_PAGES | QKVET_FLAG_LISTS_IN_FORWARD_ONLY;
  KernelInfo kernel = plain_kernel();
  kernel.has_backward = true;
  const auto add = [&kernel](uint64_t option) {
    kernel.capabilities.options |= option;
  };
  add(QKVET_OPTION_PAGED | QKVET_OPTION_LENGTHS | QKVET_OPTION_CROSS_LENGTHS);
  EXPECT_EQ(flags_of_version(3, kernel), 0u);  // no lists
  add(QKVET_OPTION_KEY_LISTS);
  EXPECT_EQ(flags_of_version(3, kernel), kBoth);
  EXPECT_EQ(flags_of_version(4, kernel), 0u);
  kernel.has_backward = false;
  EXPECT_EQ(flags_of_version(3, kernel), QKVET_FLAG_LISTS_OR_PAGES);

  KernelCall call = plain_call();
  call.listed.entries = 2;
  call.key_indices = kData;
  std::string why;
  kernel.capabilities.flags = kBoth;
  EXPECT_TRUE(capability_allows(kernel, call, &why)) << why;
  call.operation = Operation::kBackward;
  call.d_o = call.given_o = call.given_lse = kData;
  kernel.has_backward = true;
  EXPECT_FALSE(capability_allows(kernel, call, &why));
  EXPECT_NE(why.find("lists of keys in gradients"), why.npos) << why;
  kernel.capabilities.flags = QKVET_FLAG_LISTS_OR_PAGES;
  EXPECT_TRUE(capability_allows(kernel, call, &why)) << why;
}

}  // namespace
}  // namespace qkvet::capability_options_test

// SPDX-License-Identifier: Apache-2.0
// The declarations that a kernel needs for masks, biases, lengths and layouts.
#include <gtest/gtest.h>

#include <limits>

#include "core/testing/capability_calls.h"

namespace qkvet::capability_options_test {
namespace {

// The starts and the end of two members.
constexpr int64_t kEnds[] = {0, 3, 8};
constexpr int64_t kOtherEnds[] = {0, 5, 8};

void pack(KernelCall& call, const int64_t* q, const int64_t* k) {
  call.members = 2;
  call.cu_q = reinterpret_cast<const std::byte*>(q);
  call.cu_k = reinterpret_cast<const std::byte*>(k);
}

constexpr uint64_t kGroups =
    QKVET_OPTION_PAGED | QKVET_OPTION_PAGED_CHANNEL_GROUPS;

// Keys in pages, in groups of channels.
void group_channels(KernelCall& call) {
  call.shape.d = call.shape.dv = 8;
  call.kv_len = call.block_table = kData;
  call.page_size = call.pages = call.table_columns = 1;
  call.channel_group = 4;
}

template <class Number>
const std::byte* bytes(const Number* numbers) {
  return reinterpret_cast<const std::byte*>(numbers);
}

// Two members over pages.
void pack_pages(KernelCall& call, const int64_t* lengths) {
  pack(call, kEnds, nullptr);
  call.kv_len = bytes(lengths);
  call.block_table = kData;
  call.page_size = call.pages = call.table_columns = 2;
}

void list_pages(KernelCall& call) {
  static constexpr int32_t kStarts[] = {0, 2, 3}, kLast[] = {1, 2};
  call.shape.B = 2;
  call.page_indptr = bytes(kStarts);
  call.page_indices = kData;
  call.last_page_len = bytes(kLast);
  call.page_size = call.pages = call.page_entries = 2;
}

void drop(KernelCall& call) { call.dropout = Dropout{0.5F, 1, 0}; }

TEST(CapabilityOptions, EveryOptionIsNeeded) {
  EXPECT_EQ(reason([](auto&) {}), "");
  const char* const lengths = "lengths (q_len, kv_len)";
  expect_needed({
      {[](auto& c) { c.shape.Tq = c.shape.Tk = 0; }, QKVET_OPTION_EMPTY_EXTENTS,
       "empty extents"},
      {[](auto& c) { c.window = Window{}; }, QKVET_OPTION_WINDOW, "a window"},
      {[](auto& c) { c.mask = kData; }, QKVET_OPTION_MASK, "a mask"},
      {[](auto& c) { c.bias = kData; }, QKVET_OPTION_BIAS, "a bias"},
      {[](auto& c) { c.softcap = 3; }, QKVET_OPTION_SOFTCAP, "a softcap"},
      {[](auto& c) { c.sink = kData; }, QKVET_OPTION_SINK, "a sink"},
      {[](auto& c) { c.slopes = kData; }, QKVET_OPTION_ALIBI, "ALiBi"},
      {[](auto& c) { c.q_len = kData; }, QKVET_OPTION_LENGTHS, lengths},
      {[](auto& c) { c.kv_len = kData; }, QKVET_OPTION_LENGTHS, lengths},
      {[](auto& c) { pack(c, kEnds, kEnds); }, QKVET_OPTION_PACKED,
       "a packed batch"},
      {drop, QKVET_OPTION_DROPOUT, "dropout"},
  });
}

// An option that requires another one: only both together are declared.
TEST(CapabilityOptions, SomeAreNeededBesideOthers) {
  static constexpr int32_t kShort[] = {1, 1};
  static constexpr int64_t kLengths[] = {3, 5};
  const struct {
    Change change;
    uint64_t others, option;
    std::string what;
  } rows[] = {
      {[](auto& c) {
         drop(c);
         c.want_dropout_mask = true;
       },
       QKVET_OPTION_DROPOUT, QKVET_OPTION_DROPOUT_MASK, "a dropout_mask"},
      {[](auto& c) { pack(c, kEnds, kOtherEnds); }, QKVET_OPTION_PACKED,
       QKVET_OPTION_CROSS_LENGTHS, "cross lengths (Tq != Tk)"},
      {list_pages, QKVET_OPTION_PAGED, QKVET_OPTION_PAGED_CSR,
       "a list of pages (page_indptr, page_indices, last_page_len)"},
      {[](auto& c) {
         c.shape.B = 2;
         c.kv_len = bytes(kShort);
         c.int32_lengths = true;
       },
       QKVET_OPTION_LENGTHS, QKVET_OPTION_INT32_LENGTHS,
       "int32 lengths (q_len, kv_len, cu_seqlens_*)"},
      {[](auto& c) {
         c.listed = {4, false, true};
         c.key_indices = c.topk_length = kData;
       },
       QKVET_OPTION_KEY_LIST_LENGTHS, QKVET_OPTION_KEY_LISTS,
       "lists of keys (key_indices)"},
      {[](auto& c) {
         c.listed = {4, false, true};
         c.key_indices = c.topk_length = kData;
       },
       QKVET_OPTION_KEY_LISTS, QKVET_OPTION_KEY_LIST_LENGTHS,
       "lengths of lists of keys (topk_length)"},
      {[](auto& c) {
         c.listed = {4, false, false, false, 16};
         c.key_indices = kData;
       },
       QKVET_OPTION_KEY_LISTS, QKVET_OPTION_KEY_LIST_BLOCKS,
       "lists of blocks of keys (key_block_size)"},
      {[](auto& c) {
         c.slopes = kData;
         c.member_slopes = true;
       },
       QKVET_OPTION_ALIBI, QKVET_OPTION_ALIBI_PER_MEMBER,
       "ALiBi slopes of each member (slopes [B, H])"},
      {[](auto& c) {
         c.rope = RopeStyle::kHalf;
         c.rope_channels = 2;
         c.rope_rows = 1;
         c.rope_cos = c.rope_sin = c.q_positions = c.k_positions = kData;
       },
       QKVET_OPTION_ROPE, QKVET_OPTION_ROPE_PART,
       "a rotation of some channels (rope_cos [positions, r/2], r < d)"},
      {[](auto& c) { group_channels(c); }, QKVET_OPTION_PAGED,
       QKVET_OPTION_PAGED_CHANNEL_GROUPS,
       "pages of keys in groups of channels (channel_group)"},
      // In pages a packed batch is an option beside pages and not beside
      // packing.
      {[](auto& c) { pack_pages(c, kLengths); },
       QKVET_OPTION_PAGED | QKVET_OPTION_PACKED, QKVET_OPTION_PACKED_PAGES,
       "a packed batch over pages (cu_seqlens_q, block_table)"},
      {[](auto& c) { pack_pages(c, kLengths); }, QKVET_OPTION_PACKED_PAGES,
       QKVET_OPTION_PAGED, "pages (block_table)"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(reason(row.change, row.others), row.what + " is not declared");
    EXPECT_EQ(reason(row.change, row.others | row.option), "") << row.what;
  }
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
      return reason_of(kernel, call);
    };
    const std::string missing = std::string(row.why) + " is not declared";
    EXPECT_EQ(reason_with(QKVET_LAYOUT_ANY_STRIDES), "");
    EXPECT_EQ(reason_with(kContiguous), row.enough != 0 ? "" : missing);
    EXPECT_EQ(reason_with(kContiguous & ~row.enough), missing);
    // Without a declaration the layout is contiguous [B, H, T, d].
    EXPECT_EQ(reason_with(0), row.enough == QKVET_LAYOUT_BHTD ? "" : missing);
  }
}

TEST(CapabilityOptions, WhatIsDeclaredAsRefusedIsRefused) {
  const Change negative = [](auto& c) { c.scale = -0.5f; };
  const Change positive = [](auto& c) { c.scale = 0.5f; };
  const Change mask = [](auto& c) { c.mask = kData; };
  const Change both = [](auto& c) { c.mask = c.bias = kData; };
  const Change bias = [](auto& c) { c.bias = kData; };
  const Change causal = [](auto& c) { c.causal = Causal::kTopLeft; };
  const Change causal_bias = [](auto& c) {
    c.bias = kData;
    c.causal = Causal::kTopLeft;
  };
  const Change causal_mask = [](auto& c) {
    c.mask = kData;
    c.causal = Causal::kTopLeft;
  };
  constexpr uint64_t kTwo = QKVET_FLAG_POSITIVE_SCALE | QKVET_FLAG_MASK_OR_BIAS;
  constexpr uint64_t kThree = kTwo | QKVET_FLAG_BIAS_OR_CAUSAL;
  const std::string mask_and_causal =
      "a mask together with causal is declared as refused";
  const struct {
    Change change;
    uint64_t flags;
    int32_t mask_and_causal;
    std::string why;
  } rows[] = {
      {negative, 0, 0, ""},
      {both, 0, 0, ""},
      {negative, kTwo, 0, "a negative scale is declared as refused"},
      {both, kTwo, 0, "a mask together with a bias is declared as refused"},
      {causal_bias, kTwo, 0, ""},
      {causal_bias, kThree, 0,
       "a bias together with causal is declared as refused"},
      {bias, kThree, 0, ""},
      {positive, kThree, 0, ""},
      {mask, kThree, 0, ""},
      {causal_mask, 0, 0, ""},
      {causal_mask, 0, QKVET_MASK_AND_CAUSAL_BOTH, ""},
      {causal_mask, 0, QKVET_MASK_AND_CAUSAL_REFUSED, mask_and_causal},
      {causal, 0, QKVET_MASK_AND_CAUSAL_REFUSED, ""},
      {mask, 0, QKVET_MASK_AND_CAUSAL_REFUSED, ""}};
  for (const auto& row : rows) {
    KernelInfo kernel = plain_kernel();
    kernel.capabilities.options = kAllOptions;
    kernel.capabilities.flags = row.flags;
    kernel.dialect.mask_and_causal = row.mask_and_causal;
    KernelCall call = plain_call();
    row.change(call);
    EXPECT_EQ(reason_of(kernel, call), row.why);
  }
}

TEST(CapabilityOptions, Contradictions) {
  static constexpr int64_t kLengths[] = {3, 5}, kOthers[] = {5, 3};
  const auto dropout = [](float p) {
    return [p](auto& c) { c.dropout = Dropout{p, 1, 0}; };
  };
  const std::string no_probability = "dropout is no probability below 1";
  const std::string wrong_groups =
      "groups of channels are 16 bytes of keys in pages, and d is a multiple "
      "of them";
  const std::string packed = "a packed batch has members and both cu_seqlens";
  const uint64_t packed_pages = QKVET_OPTION_PAGED | QKVET_OPTION_PACKED_PAGES;
  expect_reasons({
      {[](auto& c) {
         c.window = Window{-2, 0};
       },
       kAllOptions, "a side of the window is below -1"},
      {[](auto& c) { c.softcap = -1; }, kAllOptions,
       "the softcap is no positive number"},
      {[](auto& c) { c.members = 2; }, kAllOptions, packed},
      {[](auto& c) { c.cu_k = kData; }, kAllOptions, packed},
      {[](auto& c) {
         pack(c, kEnds, kEnds);
         c.shape.B = 2;
       },
       kAllOptions, "a packed batch has B = 1"},
      {[](auto& c) {
         pack(c, kEnds, kEnds);
         c.kv_len = kData;
       },
       kAllOptions, "a packed batch and q_len or kv_len exclude each other"},
      {[](auto& c) {
         pack(c, kEnds, kEnds);
         c.new_tokens = 1;
         c.k_new = c.v_new = kData;
       },
       kAllOptions, "a packed batch has no new tokens without pages"},
      {dropout(1), QKVET_OPTION_DROPOUT, no_probability},
      {dropout(-0.5F), QKVET_OPTION_DROPOUT, no_probability},
      {dropout(std::numeric_limits<float>::quiet_NaN()), QKVET_OPTION_DROPOUT,
       no_probability},
      {[](auto& c) { c.want_dropout_mask = true; }, QKVET_OPTION_DROPOUT,
       "a mask of dropout without dropout"},
      {[](auto& c) {
         list_pages(c);
         c.kv_len = kData;
       },
       QKVET_OPTION_PAGED_CSR | QKVET_OPTION_PAGED,
       "lists of pages have no block table and no kv_len beside them"},
      {[](auto& c) {
         list_pages(c);
         c.last_page_len = nullptr;
       },
       QKVET_OPTION_PAGED_CSR,
       "lists of pages come with page_indptr, page_indices and last_page_len"},
      {[](auto& c) {
         group_channels(c);
         c.channel_group = 8;
       },
       kGroups, wrong_groups},
      {[](auto& c) {
         group_channels(c);
         c.shape.d = 6;
       },
       kGroups, wrong_groups},
      {[](auto& c) {
         group_channels(c);
         c.kv_len = c.block_table = nullptr;
         c.page_size = c.pages = c.table_columns = 0;
       },
       kGroups, wrong_groups},
      {[](auto& c) { pack_pages(c, kOthers); }, packed_pages,
       "cross lengths (Tq != Tk) is not declared"},
      {[](auto& c) {
         pack_pages(c, kLengths);
         c.cu_k = c.cu_q;
       },
       packed_pages,
       "a packed batch over pages has members, cu_seqlens_q and no "
       "cu_seqlens_k"},
      {[](auto& c) {
         pack_pages(c, kLengths);
         c.kv_len = nullptr;
       },
       packed_pages, "pages and new tokens come with kv_len"},
      {[](auto& c) { pack(c, kEnds, kEnds); }, QKVET_OPTION_PACKED, ""},
      {list_pages, QKVET_OPTION_PAGED_CSR, ""},
  });
}

// A kernel that takes two parts may refuse both in one call: by a declaration,
// or through the ABI version of its library. The version refuses nothing that
// the kernel does not have.
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

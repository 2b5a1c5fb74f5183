// SPDX-License-Identifier: Apache-2.0
// Calls over pages that contradict themselves: every kernel that serves refuses
// them with the reason, before it stores a new token.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "impl/testing/calls.h"
#include "qkvet/plan.h"

namespace qkvet::impl::serving_refused_test {
namespace {

using A = qkvet_forward_args;

// The form of a call's pages.
enum class Form { kTable, kLists, kPacked, kGroups };

// Two sequences of 5 and 4 tokens and two new ones each, in seven pages of 3.
A served_call(Tensors& t, Form form) {
  A a = {};
  a.struct_size = sizeof(a);
  const bool packed = form == Form::kPacked;
  a.q = t.make({packed ? 1 : 2, 2, packed ? 6 : 3, 8});
  a.k = t.make({7, 1, 3, 8});
  a.v = t.make({7, 1, 3, 5});
  a.o = t.make({packed ? 1 : 2, 2, packed ? 6 : 3, 5});
  a.page_size = 3;
  a.k_new = t.make({2, 1, 2, 8});
  a.v_new = t.make({2, 1, 2, 5});
  if (form == Form::kLists) {
    a.page_indptr = t.list<int32_t>({0, 3, 5});
    a.page_indices = t.list<int32_t>({4, 0, 6, 2, 5});
    a.last_page_len = t.list<int32_t>({1, 3});
    return a;
  }
  a.block_table = t.list<int32_t>({4, 0, 6, 2, 5, 1}, {2, 3});
  a.kv_len = t.list<int64_t>({5, 4});
  if (packed) a.cu_seqlens_q = t.list<int64_t>({0, 2, 6});
  if (form == Form::kGroups) {
    a.k = t.make({7, 1, 3, 2, 4});
    a.channel_group = 4;
    a.k_new = a.v_new = {};
  }
  return a;
}

using Row = Refusal<A, Form>;

std::vector<Row> rows() {
  using enum Form;
  constexpr const char* kRoom =
      "a length is negative, or there is no room for it";
  constexpr const char* kPage = "a block table names a page that is not there";
  constexpr const char* kListed =
      "the pages of a member end before they begin, or behind the list";
  constexpr const char* kLast =
      "a last page has no token, or more than a page has";
  constexpr const char* kGrouped = "groups of channels are 16 bytes each";
  return {
      {kTable, "pages come with kv_len", set(&A::kv_len, {})},
      {kTable, "k [pages,Hkv,page_size,d]: 3 at axis 2, 4 is needed",
       set(&A::page_size, 4)},
      {kTable, "block_table must be int32",
       shaped(&A::block_table, {2, 3}, kInt64), QKVET_UNSUPPORTED},
      {kTable, "page_size: a block table or lists of pages have one",
       set(&A::block_table, {})},
      {kTable, "k_new [sequences,Hkv,Tnew,d]: 5 at axis 3, 8 is needed",
       [](A& a, Tensors&) { a.k_new = a.v_new; }},
      {kTable, "k_new and v_new come together", set(&A::v_new, {})},
      {kTable, kRoom, number<int64_t>(&A::kv_len, 1, -1)},
      {kTable, kRoom, number<int64_t>(&A::kv_len, 0, 8)},
      {kTable, kPage, number<int32_t>(&A::block_table, 4, 7)},
      {kTable, kPage, number<int32_t>(&A::block_table, 0, -1)},
      {kLists, "a list of pages begins at 0",
       number<int32_t>(&A::page_indptr, 0, 1)},
      {kLists, kListed, number<int32_t>(&A::page_indptr, 1, 6)},
      {kLists, kListed, number<int32_t>(&A::page_indptr, 2, 6)},
      {kLists, kLast, number<int32_t>(&A::last_page_len, 1, 0)},
      {kLists, kLast, number<int32_t>(&A::last_page_len, 0, 4)},
      {kLists,  // fewer tokens than are new
       kRoom, listed<int32_t>(&A::page_indptr, {0, 0, 1})},
      {kLists, kPage, number<int32_t>(&A::page_indices, 1, 7)},
      {kLists, "page_indices must be int32",
       shaped(&A::page_indices, {5}, kInt64), QKVET_UNSUPPORTED},
      {kLists, "page_indptr [sequences+1]: 2 at axis 0, 3 is needed",
       [](A& a, Tensors&) { a.page_indptr = a.last_page_len; }},
      {kLists,
       "pages are in a block table with kv_len or in lists, not in both",
       listed<int64_t>(&A::kv_len, {5, 4})},
      {kLists, "page_indptr, page_indices and last_page_len come together",
       set(&A::last_page_len, {})},
      {kPacked, "a packed batch has no q_len, and kv_len only with pages",
       [](A& a, Tensors&) { a.q_len = a.kv_len; }},
      {kPacked, "pages come with kv_len", set(&A::kv_len, {})},
      {kPacked, "kv_len [sequences]: 2 at axis 0, 1 is needed",
       [](A& a, Tensors&) { a.cu_seqlens_q = a.kv_len; }},
      {kPacked, "the starts of a packed batch do not ascend from 0",
       number<int64_t>(&A::cu_seqlens_q, 0, 4)},
      {kPacked, "a member of a packed batch is beyond the extents",
       number<int64_t>(&A::cu_seqlens_q, 2, 7)},
      {kGroups, kGrouped, set(&A::channel_group, 8)},
      {kGroups, kGrouped, set(&A::channel_group, -4)},
      {kGroups, kGrouped,
       [](A& a, Tensors& t) {
         a.k = t.make({7, 1, 3, 4, 2});
         a.channel_group = 2;
       }},
      {kGroups, "channel_group: only keys in pages are in groups of channels",
       [](A& a, Tensors&) {
         a.block_table = {};
         a.page_size = 0;
       }},
  };
}

uint64_t options_of(Form form) {
  constexpr uint64_t kTable = QKVET_OPTION_PAGED;
  switch (form) {
    case Form::kLists:
      return QKVET_OPTION_PAGED_CSR | QKVET_OPTION_APPEND;
    case Form::kPacked:
      return kTable | QKVET_OPTION_PACKED_PAGES | QKVET_OPTION_APPEND;
    case Form::kGroups:
      return kTable | QKVET_OPTION_PAGED_CHANNEL_GROUPS;
    default:
      return kTable | QKVET_OPTION_APPEND;
  }
}

// Pages of 3 tokens with values of their own, and int64 lengths.
std::vector<const qkvet_kernel*> takers(Form form) {
  return kernels_that([form](const qkvet_kernel& kernel) {
    const qkvet_capabilities& can = *kernel.capabilities;
    return kernel.forward != nullptr &&
           (options_of(form) & ~can.options) == 0 && can.page_size_count == 0 &&
           is_declared(can, kF32) &&
           (can.flags & QKVET_FLAG_VALUES_IN_KEYS_ONLY) == 0;
  });
}

TEST(ServingRefused, ContradictionsBeforeAnythingIsStored) {
  for (const Row& row : rows()) {
    const auto make = [&row](Tensors& t) {
      return served_call(t, row.options);
    };
    for (const qkvet_kernel* kernel : takers(row.options)) {
      OpenKernel open(kernel);
      const auto forward = [&open](const A& a, qkvet_text* why) {
        return open.forward(a, why);
      };
      EXPECT_EQ(wrong_refusal<A>(row, make, forward), "")
          << kernel->name << ": " << row.reason;
    }
  }
}

// The control: a legal call is answered, and its new tokens are stored.
TEST(ServingRefused, NoLegalCallIs) {
  for (const Form form :
       {Form::kTable, Form::kLists, Form::kPacked, Form::kGroups}) {
    EXPECT_GE(takers(form).size(), 2u);
    for (const qkvet_kernel* kernel : takers(form)) {
      Tensors t;
      const A args = served_call(t, form);
      t.remember();
      OpenKernel open(kernel);
      Reason why;
      EXPECT_EQ(open.forward(args, &why.text), QKVET_OK)
          << kernel->name << " " << why.room;
      EXPECT_FALSE(t.unchanged());
    }
  }
}

// Nothing of a tensor is compared with the plan before it is known to be there.
TEST(ServingRefused, RunsOfATensorWithoutAShape) {
  int answered = 0;
  for (const qkvet_kernel* kernel : kernels_that([](const qkvet_kernel& one) {
         return one.get_extension != nullptr &&
                one.get_extension(&one, QKVET_EXTENSION_PLAN) != nullptr;
       })) {
    const auto* table = static_cast<const qkvet_plan_table*>(
        kernel->get_extension(kernel, QKVET_EXTENSION_PLAN));
    Tensors t;
    A args = served_call(t, Form::kTable);
    args.k_new = args.v_new = {};
    OpenKernel open(kernel);
    Reason why;
    qkvet_exec exec = {};
    exec.struct_size = sizeof(exec);
    qkvet_plan* plan = nullptr;
    if (table->plan(kernel, open.context(), &args, &exec, &plan, &why.text) !=
        QKVET_OK) {
      continue;  // of the device
    }
    // Without the workspace that some ask for.
    answered += table->run(kernel, plan, &args, &exec, &why.text) == QKVET_OK;
    args.q.shape = nullptr;
    EXPECT_EQ(table->run(kernel, plan, &args, &exec, &why.text),
              QKVET_INVALID_ARGUMENT)
        << kernel->name;
    table->destroy(kernel, plan);
  }
  EXPECT_GE(answered, 1);
}

TEST(ServingRefused, Int32LengthsUnlessTheyAreDeclared) {
  for (const qkvet_kernel* kernel : takers(Form::kTable)) {
    Tensors t;
    A args = served_call(t, Form::kTable);
    args.kv_len = t.list<int32_t>({5, 4});
    const bool declared =
        (kernel->capabilities->options & QKVET_OPTION_INT32_LENGTHS) != 0;
    Reason why;
    EXPECT_EQ(kernel->supports(kernel, &args, &why.text),
              declared ? QKVET_OK : QKVET_INVALID_ARGUMENT)
        << kernel->name;
    EXPECT_STREQ(why.room, declared ? "" : "lengths are int64");
  }
}

}  // namespace
}  // namespace qkvet::impl::serving_refused_test

// SPDX-License-Identifier: Apache-2.0
// The entries of the families: versions, struct sizes, unknown arguments, CPUs
// without the extensions of a kernel.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>
#include <string>

#include "impl/testing/calls.h"

namespace qkvet::impl::family_entry_test {
namespace {

TEST(FamilyEntry, RefusesAnotherMajorVersion) {
  for (const Family& family : all_families()) {
    qkvet_host host = make_host();
    host.abi_major = QKVET_ABI_MAJOR + 1;
    qkvet_library library = {};
    library.struct_size = sizeof(library);
    Reason why;
    EXPECT_EQ(family.entry()(&host, "", &library, &why.text),
              QKVET_INVALID_ARGUMENT);
    EXPECT_NE(std::string(why.room), "");
    EXPECT_EQ(std::strchr(why.room, '\n'), nullptr);
    EXPECT_EQ(library.kernels, nullptr);
  }
}

TEST(FamilyEntry, RefusesAHostWithoutVersion) {
  for (const Family& family : all_families()) {
    qkvet_host host = make_host();
    host.struct_size = offsetof(qkvet_host, abi_major);
    qkvet_library library = {};
    library.struct_size = sizeof(library);
    EXPECT_EQ(family.entry()(&host, "", &library, nullptr),
              QKVET_INVALID_ARGUMENT);
  }
}

TEST(FamilyEntry, WritesNoByteBeyondTheRoomOfTheHost) {
  for (const Family& family : all_families()) {
    const qkvet_host host = make_host();
    qkvet_library library = {};
    library.struct_size = offsetof(qkvet_library, close);
    const auto canary = reinterpret_cast<void (*)(qkvet_library*)>(1);
    library.close = canary;
    EXPECT_EQ(family.entry()(&host, "", &library, nullptr), QKVET_OK);
    EXPECT_GT(library.kernel_count, 0);
    EXPECT_EQ(library.close, canary);
  }
}

TEST(FamilyEntry, CutsReasonsToTheRoomOfTheCaller) {
  qkvet_host host = make_host();
  host.abi_major = QKVET_ABI_MAJOR + 1;
  char room[8];
  std::memset(room, 'x', sizeof(room));
  qkvet_text text = {sizeof(text), room, 4};
  qkvet_library library = {};
  library.struct_size = sizeof(library);
  all_families()[0].entry()(&host, "", &library, &text);
  EXPECT_EQ(room[3], '\0');
  EXPECT_EQ(room[4], 'x');
}

// kv_cache_avx2 is built from kv_cache, serving_avx2 from serving, simt from
// cuda.
std::string source_of(const std::string& kernel) {
  if (kernel.starts_with("simt/")) {
    return "cuda/" + kernel.substr(std::string("simt/").size());
  }
  for (const std::string once : {"kv_cache", "serving"}) {
    const std::string twice = once + "_avx2/";
    if (kernel.starts_with(twice)) {
      return once + "/" + kernel.substr(twice.size());
    }
  }
  return kernel;
}

TEST(FamilyEntry, NamesAreUniqueAndBelongToTheirFamily) {
  std::set<std::string> names;
  for (const Family& family : all_families()) {
    const qkvet_library& library = family.library();
    for (int32_t i = 0; i < library.kernel_count; ++i) {
      const qkvet_kernel& kernel = *library.kernels[i];
      const std::string name = kernel.name;
      EXPECT_TRUE(names.insert(name).second) << name;
      EXPECT_EQ(name.substr(0, name.find('/')), library.name);
      const std::string file = kernel.source_file;
      // A file has several controls or faults of one theme.
      if (library.name == std::string("controls") ||
          library.name == std::string("faulty")) {
        EXPECT_EQ(file.rfind("impl/" + std::string(library.name) + "/", 0), 0u)
            << name << ": " << file;
      } else {
        EXPECT_EQ(file, "impl/" + source_of(name) + ".cpp");
      }
      EXPECT_GT(kernel.source_line, 0);
      ASSERT_NE(kernel.precision, nullptr) << name;
      EXPECT_NE(kernel.precision->declared, 0u) << name;
    }
  }
}

// Independent of the linker, which makes the lists of some families.
TEST(FamilyEntry, KernelsAreInTheOrderOfFilesAndLines) {
  for (const Family& family : all_families()) {
    const qkvet_library& library = family.library();
    std::set<std::string> files;
    for (int32_t i = 0; i < library.kernel_count; ++i) {
      const qkvet_kernel& kernel = *library.kernels[i];
      const qkvet_kernel& last = *library.kernels[i > 0 ? i - 1 : 0];
      if (std::string(last.source_file) != kernel.source_file || i == 0) {
        EXPECT_TRUE(files.insert(kernel.source_file).second) << kernel.name;
      } else {
        EXPECT_LT(last.source_line, kernel.source_line) << kernel.name;
      }
    }
  }
}

TEST(FamilyEntry, FaultsSayWhatTheyAre) {
  int faults = 0;
  for (const Family& family : all_families()) {
    const qkvet_library& library = family.library();
    const bool faulty = library.name == std::string("faulty");
    for (int32_t i = 0; faulty && i < library.kernel_count; ++i, ++faults) {
      const qkvet_kernel& kernel = *library.kernels[i];
      EXPECT_EQ(kernel.get_extension(&kernel, "qkvet.other/1"), nullptr);
      const auto& fault = *static_cast<const qkvet_fault*>(
          kernel.get_extension(&kernel, QKVET_EXTENSION_FAULT));
      EXPECT_EQ(fault.struct_size, sizeof(qkvet_fault));
      for (const char* text : {fault.cause, fault.fix, fault.killed_by[0]}) {
        ASSERT_NE(text, nullptr) << kernel.name;
        EXPECT_NE(std::string(text), "") << kernel.name;
        EXPECT_EQ(std::strchr(text, '\n'), nullptr) << kernel.name;
      }
    }
  }
#ifndef QKVET_SANITIZED  // that build has no faults
  EXPECT_GT(faults, 0);
#endif
}

struct Field {
  const char* name;
  uint64_t option;  // that declares it
  std::function<void(qkvet_forward_args&)> set;
};

std::vector<Field> declarable_fields(const qkvet_tensor& some) {
  using A = qkvet_forward_args;
  std::vector<Field> fields = {
      {"window", QKVET_OPTION_WINDOW, [](A& a) { a.has_window = 1; }},
      {"softcap", QKVET_OPTION_SOFTCAP, [](A& a) { a.softcap = 30; }},
      {"rope", QKVET_OPTION_ROPE, [](A& a) { a.rope = QKVET_ROPE_HALF; }},
      {"dropout", QKVET_OPTION_DROPOUT, [](A& a) { a.dropout_p = 0.1f; }},
      {"page_size", QKVET_OPTION_PAGED, [](A& a) { a.page_size = 16; }},
  };
  // Lengths are a separate option besides those of pages. All kernels declare
  // lse.
  constexpr uint64_t kServing = QKVET_OPTION_PAGED | QKVET_OPTION_PAGED_CSR |
                                QKVET_OPTION_APPEND | QKVET_OPTION_PACKED_PAGES;
#define QKVET_FORWARD_TENSOR(field, tensor, options)                       \
  if ((options) != 0 && (options) != QKVET_OPTION_LSE)                     \
    fields.push_back(                                                      \
        {#field,                                                           \
         ((options) & ~kServing) != 0 ? (options) & ~kServing : (options), \
         [some](A& a) { a.field = some; }});
#include "qkvet/tensors.def"
  return fields;
}

TEST(FamilyEntry, RefusesEveryArgumentThatIsNotDeclared) {
  std::set<std::string> refused;
  Tensors t;
  const qkvet_forward_args legal = forward_call(t);
  for (const qkvet_kernel* kernel : attention_kernels()) {
    OpenKernel open(kernel);
    ASSERT_EQ(kernel->supports(kernel, &legal, nullptr), QKVET_OK);
    for (const Field& field : declarable_fields(legal.q)) {
      if ((kernel->capabilities->options & field.option) != 0) {
        continue;
      }
      refused.insert(field.name);
      qkvet_forward_args args = legal;
      field.set(args);
      Reason why;
      EXPECT_EQ(kernel->supports(kernel, &args, &why.text), QKVET_UNSUPPORTED)
          << kernel->name << " " << field.name;
      EXPECT_STRNE(why.room, "") << field.name;
      EXPECT_EQ(open.forward(args, nullptr), QKVET_UNSUPPORTED)
          << kernel->name << " " << field.name;
    }
  }
#ifndef QKVET_SANITIZED
  // Only controls refuse some fields, and controls have no build with
  // sanitizers.
  EXPECT_EQ(refused.size(), declarable_fields(legal.q).size());
#endif
}

TEST(FamilyEntry, ReadsArgumentsOfOlderAndNewerHosts) {
  for (const qkvet_kernel* kernel : attention_kernels()) {
    const auto supports = [kernel](const qkvet_forward_args& a,
                                   qkvet_text* why) {
      return kernel->supports(kernel, &a, why);
    };
    EXPECT_EQ(wrong_with_newer<qkvet_forward_args>(
                  [](Tensors& t) { return forward_call(t); }, supports),
              "")
        << kernel->name;
    // A mask is ignored past the size of an older host's struct.
    Tensors t;
    qkvet_forward_args older = forward_call(t);
    older.mask = older.q;
    older.struct_size = offsetof(qkvet_forward_args, mask);
    EXPECT_EQ(kernel->supports(kernel, &older, nullptr), QKVET_OK);
    older.struct_size = offsetof(qkvet_forward_args, o);
    EXPECT_NE(kernel->supports(kernel, &older, nullptr), QKVET_OK);
  }
}

TEST(FamilyEntry, ForcingTheBaselineTakesAvx2Away) {
  int found = 0;
  for (const char* name :
       {"avx2/flash", "kv_cache_avx2/contiguous", "serving_avx2/paged"}) {
    const qkvet_kernel* const kernel = find_kernel(name);
    if (kernel == nullptr) {
      continue;  // only in builds without sanitizers
    }
    ++found;
    setenv("QKVET_CPU", "baseline", 1);
    const OpenKernel forced(kernel);
    unsetenv("QKVET_CPU");
    EXPECT_EQ(forced.status(), QKVET_UNAVAILABLE);
    EXPECT_STREQ(forced.reason().room,
                 "needs AVX2 and FMA, which this CPU does not have");
    const bool has = __builtin_cpu_supports("avx2") != 0 &&
                     __builtin_cpu_supports("fma") != 0;
    EXPECT_EQ(OpenKernel(kernel).status(), has ? QKVET_OK : QKVET_UNAVAILABLE);
  }
  if (found == 0) {
    GTEST_SKIP() << "no avx2 families on this architecture";
  }
}

}  // namespace
}  // namespace qkvet::impl::family_entry_test

// SPDX-License-Identifier: Apache-2.0
// Code that users copy (the templates of `qkvet new` and the examples) refuses
// each tensor of the ABI that it does not handle. The tensors are those of the
// frozen layout list, so that future ABI tensors are tested, too.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>

#include "cli/base/program_run.h"
#include "qkvet/kernel.h"
#include "qkvet/plan.h"

namespace qkvet::cli::templates_refuse_test {
namespace {

namespace fs = std::filesystem;

struct TensorField {
  std::string type, name;
  size_t at = 0;
};

std::vector<TensorField> tensors_of(const std::string& type) {
  std::vector<TensorField> all, own;
#define QKVET_SIZE(type, bytes)
#define QKVET_FIELD(type, field, at)                                 \
  if constexpr (std::is_same_v<decltype(type::field), qkvet_tensor>) \
    all.push_back({#type, #field, offsetof(type, field)});
#include "qkvet/frozen_layout.inc"
#undef QKVET_SIZE
#undef QKVET_FIELD
  for (const TensorField& field : all)
    if (field.type == type) own.push_back(field);
  return own;
}

// A shared library, and its only kernel; none if it does not compile.
class Library {
 public:
  explicit Library(const fs::path& source) {
    const fs::path file = scratch() / (source.filename().string() + ".so");
    const std::string ending = source.extension().string();
    const std::string flags = std::string(" -w -O1 -shared -fPIC -I'") +
                              QKVET_HEADERS + "' '" + source.string() +
                              "' -o '" + file.string() + "'";
    const std::string command =
        ending == ".rs" ? "rustc --crate-type cdylib --edition 2021 -O '" +
                              source.string() + "' -o '" + file.string() + "'"
        : ending == ".c" ? "cc -std=c11" + flags + " -lm"
                         : "c++ -std=c++17" + flags;
    if (std::system((command + " 2>&1").c_str()) != 0) return;
    handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) return;
    const auto open =
        reinterpret_cast<qkvet_open_function>(dlsym(handle_, "qkvet_open"));
    host_.struct_size = sizeof host_;
    host_.abi_major = QKVET_ABI_MAJOR;
    host_.abi_minor = QKVET_ABI_MINOR;
    library_.struct_size = sizeof library_;
    if (open != nullptr && open(&host_, "", &library_, nullptr) == QKVET_OK)
      kernel_ = library_.kernels[0];
  }
  ~Library() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  const qkvet_kernel* kernel() const { return kernel_; }

 private:
  void* handle_ = nullptr;
  qkvet_host host_ = {};
  qkvet_library library_ = {};
  const qkvet_kernel* kernel_ = nullptr;
};

// A struct of arguments, and room for a field that it does not have yet.
template <class Args>
struct Grown {
  Args args = {};
  std::array<unsigned char, 64> newer = {};

  Grown() { args.struct_size = sizeof args; }
  qkvet_tensor& tensor(size_t at) {
    return *reinterpret_cast<qkvet_tensor*>(reinterpret_cast<char*>(&args) +
                                            at);
  }
  void set_newer() {
    args.struct_size = sizeof *this;
    newer[8] = 1;
  }
};

// [1, 1, 2, 32] of zeros, in any type of up to 4 bytes.
struct Memory {
  std::array<float, 64> zeros = {};
  int64_t shape[4] = {1, 1, 2, 32}, strides[4] = {64, 64, 32, 1};

  qkvet_tensor tensor(qkvet_dtype type, int32_t ndim = 4) {
    return {zeros.data(), QKVET_DEVICE_CPU, 0, ndim, type, shape, strides, 0};
  }
};

constexpr qkvet_dtype kF32 = {QKVET_DTYPE_FLOAT, 32, 1};
constexpr const char* kNewer = "a field of a newer ABI";

// Names of ignored fields: a call that is accepted without the field is still
// accepted with it.
template <class Args, class Taken>
std::vector<std::string> ignored_in(const std::string& type,
                                    const std::vector<std::string>& known,
                                    const Grown<Args>& call, Taken taken) {
  Memory one;
  std::vector<std::string> ignored;
  EXPECT_TRUE(taken(call.args));
  for (const TensorField& field : tensors_of(type)) {
    if (std::count(known.begin(), known.end(), field.name) != 0) continue;
    Grown<Args> more = call;
    more.tensor(field.at) = one.tensor(kF32);
    if (taken(more.args)) ignored.push_back(field.name);
  }
  Grown<Args> more = call;
  more.set_newer();
  if (taken(more.args)) ignored.push_back(kNewer);
  return ignored;
}

std::vector<std::string> ignored_by_attention(const qkvet_kernel* kernel) {
  const qkvet_capabilities& can = *kernel->capabilities;
  const qkvet_dtype_rule types =
      can.dtype_count == 0 ? qkvet_dtype_rule{kF32, kF32, kF32} : can.dtypes[0];
  Memory q, k, v, o;
  Grown<qkvet_forward_args> call;
  call.args.q = q.tensor(types.q);
  call.args.k = k.tensor(types.kv);
  call.args.v = v.tensor(types.kv);
  call.args.o = o.tensor(types.o);
  std::vector<std::string> known = {"q", "k", "v", "o"};
  if ((can.options & QKVET_OPTION_LSE) != 0) known.push_back("lse");
  if ((can.options & QKVET_OPTION_MASK) != 0) known.push_back("mask");
  return ignored_in<qkvet_forward_args>(
      "qkvet_forward_args", known, call, [&](const qkvet_forward_args& args) {
        const bool forward = kernel->forward(kernel, nullptr, &args, nullptr,
                                             nullptr) == QKVET_OK;
        return kernel->supports(kernel, &args, nullptr) == QKVET_OK || forward;
      });
}

std::vector<std::string> ignored_by_cache(const qkvet_kernel* kernel) {
  const qkvet_cache_table& table = *kernel->cache;
  Grown<qkvet_cache_config> config;
  config.args.sequences = config.args.heads = config.args.kv_heads = 1;
  config.args.d = config.args.dv = 32;
  config.args.capacity = 1000;
  config.args.q = config.args.kv = config.args.o = kF32;
  qkvet_cache* cache = nullptr;
  std::vector<std::string> ignored = ignored_in<qkvet_cache_config>(
      "qkvet_cache_config", {}, config, [&](const qkvet_cache_config& args) {
        if (cache != nullptr) table.destroy(kernel, cache);
        cache = nullptr;
        return table.create(kernel, nullptr, &args, nullptr, &cache, nullptr) ==
               QKVET_OK;
      });
  if (cache != nullptr) table.destroy(kernel, cache);
  EXPECT_EQ(
      table.create(kernel, nullptr, &config.args, nullptr, &cache, nullptr),
      QKVET_OK);
  Memory q, k, v, o;
  Grown<qkvet_cache_args> call;
  call.args.q = q.tensor(kF32);
  call.args.k = k.tensor(kF32);
  call.args.v = v.tensor(kF32);
  call.args.o = o.tensor(kF32);
  const std::vector<std::string> of_step = ignored_in<qkvet_cache_args>(
      "qkvet_cache_args", {"q", "k", "v", "o", "lse"}, call,
      [&](const qkvet_cache_args& args) {
        return table.step(kernel, cache, &args, nullptr, nullptr) == QKVET_OK;
      });
  table.destroy(kernel, cache);
  ignored.insert(ignored.end(), of_step.begin(), of_step.end());
  return ignored;
}

// By plan(), update() and run(), each with a plan for the call without the
// field.
std::vector<std::string> ignored_by_plans(const qkvet_kernel* kernel,
                                          const qkvet_plan_table& table) {
  Memory q, k, v, o;
  Grown<qkvet_forward_args> call;
  call.args.q = q.tensor(kF32);
  call.args.k = k.tensor(kF32);
  call.args.v = v.tensor(kF32);
  call.args.o = o.tensor(kF32);
  qkvet_plan* kept = nullptr;
  EXPECT_EQ(table.plan(kernel, nullptr, &call.args, nullptr, &kept, nullptr),
            QKVET_OK);
  if (kept == nullptr) return {"it plans nothing"};
  const std::vector<std::string> ignored = ignored_in<qkvet_forward_args>(
      "qkvet_forward_args", {"q", "k", "v", "o"}, call,
      [&](const qkvet_forward_args& args) {
        qkvet_plan* plan = nullptr;
        const bool planned = table.plan(kernel, nullptr, &args, nullptr, &plan,
                                        nullptr) == QKVET_OK;
        if (plan != nullptr) table.destroy(kernel, plan);
        // A plan for lse or lengths is one for other calls.
        const bool updated =
            table.update(kernel, kept, &args, nullptr, nullptr) == QKVET_OK;
        const bool ran =
            table.run(kernel, kept, &args, nullptr, nullptr) == QKVET_OK;
        return planned || updated || ran;
      });
  table.destroy(kernel, kept);
  return ignored;
}

std::vector<std::string> ignored_by(const fs::path& source) {
  const Library library(source);
  if (library.kernel() == nullptr) return {"it does not compile or open"};
  // A kernel may be shorter than ours.
  const qkvet_kernel* kernel = library.kernel();
  const bool is_cache = kernel->struct_size > offsetof(qkvet_kernel, cache) &&
                        kernel->cache != nullptr;
  const bool has_plans =
      kernel->struct_size > offsetof(qkvet_kernel, get_extension) &&
      kernel->get_extension != nullptr;
  const void* const plans =
      has_plans ? kernel->get_extension(kernel, QKVET_EXTENSION_PLAN) : nullptr;
  if (plans != nullptr)
    return ignored_by_plans(kernel,
                            *static_cast<const qkvet_plan_table*>(plans));
  return is_cache ? ignored_by_cache(kernel) : ignored_by_attention(kernel);
}

// A template, as `qkvet new` writes it.
fs::path written(const std::string& name, const std::string& options = "") {
  fs::remove(scratch() / name);
  EXPECT_EQ(run_qkvet("new " + name + options).exit, 0) << name;
  return scratch() / name;
}

using Names = std::vector<std::string>;

TEST(TemplatesRefuse, EveryTensorThatTheyDoNotKnow) {
  EXPECT_EQ(ignored_by(written("refuses.cpp")), Names{});
  EXPECT_EQ(ignored_by(written("refuses_c.c")), Names{});
  EXPECT_EQ(ignored_by(written("refuses_abi.cpp", " -t abi")), Names{});
  EXPECT_EQ(ignored_by(written("refuses_kv.cpp", " -t cache")), Names{});
  EXPECT_EQ(ignored_by(written("refuses_plan.cpp", " -t plan")), Names{});
}

TEST(TemplatesRefuse, TheOneInRustDoesSo) {
  if (std::system("rustc --version >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "rustc is not on this machine";
  EXPECT_EQ(ignored_by(written("refuses_rust.rs")), Names{});
}

TEST(TemplatesRefuse, ExamplesDoSo) {
  for (const char* name :
       {"full_abi.c", "mask_adapter.c", "ggml_like.cpp", "cache.cpp"})
    EXPECT_EQ(ignored_by(fs::path(QKVET_EXAMPLES) / name), Names{}) << name;
}

// The list is complete: the struct ends after its last tensor.
TEST(TemplatesRefuse, TheListIsWhole) {
  const auto tensors = tensors_of("qkvet_forward_args");
  ASSERT_GT(tensors.size(), 25u);
  EXPECT_EQ(tensors.back().at + sizeof(qkvet_tensor),
            sizeof(qkvet_forward_args));
}

// The control: a header that has one tensor less, and accepts newer fields.
void expect_seen_to_forget(const std::string& name,
                           const std::string& options) {
  const fs::path headers = scratch() / "forgets" / "qkvet";
  fs::create_directories(headers);
  const fs::path file = headers.parent_path() / name;
  fs::rename(written(name, options), file);
  // The compiler searches for the list next to the header that includes it.
  fs::create_directories(headers / "qkvet");
  const struct {
    const char* header;
    fs::path to;
    std::string part, instead;
  } edits[] = {
      {"adapter.h", headers / "adapter.h", "given > size;", "0 > size;"},
      {"tensors.def", headers / "qkvet" / "tensors.def",
       "QKVET_FORWARD_TABLE(page_indptr, PageIndptr, QKVET_OPTION_PAGED_CSR)",
       ""}};
  for (const auto& edit : edits) {
    std::string text =
        read_text(fs::path(QKVET_HEADERS) / "qkvet" / edit.header);
    const size_t at = text.find(edit.part);
    ASSERT_NE(at, text.npos) << edit.part;
    text.replace(at, edit.part.size(), edit.instead);
    write_text(edit.to, text);
  }
  EXPECT_EQ(ignored_by(file), (Names{"page_indptr", kNewer}));
}

TEST(TemplatesRefuse, ATensorLeftOutIsSeen) {
  expect_seen_to_forget("forgets.cpp", " -t abi");
  expect_seen_to_forget("forgets_plan.cpp", " -t plan");
}

}  // namespace
}  // namespace qkvet::cli::templates_refuse_test

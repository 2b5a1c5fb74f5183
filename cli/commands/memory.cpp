// SPDX-License-Identifier: Apache-2.0
// qkvet demo memory: the size of a model's KV cache, by the formula and as the
// built-in caches allocate it.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>

#include "cli/base/model_text.h"
#include "cli/commands/groups.h"
#include "cli/demos/kv_memory.h"
#include "cli/terminal/select.h"
#include "report/lines.h"

namespace qkvet::cli {
namespace {

struct KvMemoryOptions {
  std::string model;  // "L32,B4,Hkv8,T8192,d128,f16"
};

constexpr std::array kDtypes = {Dtype::kF32, Dtype::kF16, Dtype::kBf16,
                                Dtype::kFp8e4m3, Dtype::kInt8};
constexpr char kCaches[] = "kv_cache/*";
constexpr char kForm[] = "L32,B4,Hkv8,T8192,d128,f16";

// Largest size that is really allocated: it takes moments, and every machine
// has enough memory.
constexpr int64_t kMostTried = int64_t{64} << 20;

std::string gib(double bytes) {
  return fmt::format("{:.4g} GiB", bytes / (1 << 30));
}

std::string read_dtype(const std::string& name, Dtype* dtype) {
  const auto known = dtype_from_name(name);
  const bool allowed = known && std::find(kDtypes.begin(), kDtypes.end(),
                                          *known) != kDtypes.end();
  if (allowed) {
    *dtype = *known;
    return "";
  }
  std::string names;
  for (const Dtype one : kDtypes)
    names += (names.empty() ? "" : ", ") + std::string(dtype_name(one));
  return (name.empty() ? "a type is missing" : name) + "; allowed: " + names;
}

void print_formula(const KvGeometry& g, int64_t bytes) {
  fmt::print(
      "2 x layers x kv-heads x d-head x context x batch x bytes   (2: K and "
      "V)\n"
      "2 x {} x {} x {} x {} x {} x {} = {} bytes = {}\n",
      g.layers, g.Hkv, g.d, g.context, g.batch, dtype_bytes(g.dtype),
      grouped(bytes), gib(static_cast<double>(bytes)));
  if (g.dtype == Dtype::kInt8 || g.dtype == Dtype::kFp8e4m3)
    fmt::print("without the scales of quantised storage\n");
}

std::string allocated_text(const KvAllocated& allocated,
                           const KvGeometry& tried, const KvGeometry& whole) {
  if (!allocated.error.empty()) return "no such cache: " + allocated.error;
  if (allocated.bytes < 0) return "not told";
  return fmt::format("{} bytes tried, {} in all, {:.3f} of the formula",
                     grouped(allocated.bytes),
                     gib(scaled_up(allocated.bytes, tried, whole)),
                     static_cast<double>(allocated.bytes) /
                         static_cast<double>(*kv_bytes(tried)));
}

const char* way_text(StoredAs stored) {
  switch (stored) {
    case StoredAs::kAsGiven:
      return "";
    case StoredAs::kInt8PerToken:
    case StoredAs::kFp8PerToken:
      return ", a scale a token";
    default:
      return ", a scale a channel";
  }
}

// False if the kernel died of it.
bool print_cache(const std::string& name, const KvGeometry& tried,
                 const KvGeometry& whole, Executor& executor, int kernel) {
  bool alive = true;
  for (const StoredAs stored : ways_to_store(whole.dtype)) {
    const KvAllocated allocated = allocate(tried, stored, executor, kernel);
    const int width = stored == StoredAs::kAsGiven ? 22 : 40;
    fmt::print("  {:<{}} {}\n", name + way_text(stored), width,
               allocated_text(allocated, tried, whole));
    alive &= !allocated.died;
  }
  return alive;
}

// Describes the sample that was tried.
void print_sample(const KvSample& sample) {
  if (sample.scaled.empty())
    fmt::print("\nAllocated by a cache of that size, with all tokens in it:\n");
  else
    fmt::print(
        "\nAllocated by a smaller cache, with all tokens in it, and in "
        "proportion\n({}):\n",
        sample.scaled);
}

ExitCode print_caches(const KvGeometry& whole) {
  const KvSample sample = sample_of(whole, kMostTried);
  if (const auto bytes = kv_bytes(sample.geometry);
      !bytes || *bytes > kMostTried) {
    fmt::print("\nOne token of one head is too large to be tried.\n");
    return kConforms;
  }
  const SelectedKernels selected = select_kernels({{kCaches}, {}});
  if (!selected.error.empty()) return wrong_use(selected.error);
  const ExecutorFactory open = executor_factory(selected, /*in_process=*/false);
  print_sample(sample);
  ExitCode code = kConforms;
  for (const KernelUnderTest& kernel : selected.kernels) {
    if (!kernel.judged.info.has_cache) continue;
    const Opened opened = open(kernel.library);
    if (opened.executor == nullptr) return wrong_use(opened.error);
    if (!print_cache(kernel.judged.info.name, sample.geometry, whole,
                     *opened.executor, kernel.index))
      code = kKernelDied;
  }
  return code;
}

ExitCode run(const KvMemoryOptions& options) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  KvGeometry whole;
  std::vector<ModelExtent> extents = {{"L", kMost, &whole.layers},
                                      {"B", kMost, &whole.batch},
                                      {"Hkv", kMost, &whole.Hkv},
                                      {"T", kMost, &whole.context},
                                      {"d", kMost, &whole.d}};
  std::string dtype;
  std::string error = read_model_text(options.model, extents, &dtype);
  for (const ModelExtent& extent : extents)
    if (error.empty() && !extent.given)
      error = fmt::format("{}: {} is missing; allowed: {}", options.model,
                          extent.name, kForm);
  if (error.empty()) error = read_dtype(dtype, &whole.dtype);
  if (!error.empty()) return wrong_use(error);
  const auto bytes = kv_bytes(whole);
  if (!bytes)
    return wrong_use(fmt::format(
        "2 x {} x {} x {} x {} x {} x {} is more than 2^63 - 1 bytes",
        whole.layers, whole.Hkv, whole.d, whole.context, whole.batch,
        dtype_bytes(whole.dtype)));
  print_formula(whole, *bytes);
  return print_caches(whole);
}

void add_flags(CLI::App& command, KvMemoryOptions& options) {
  command
      .add_option("model", options.model,
                  "Layers L, batch B, KV heads, tokens T, head width d, type")
      ->type_name(kForm)
      ->required();
}

}  // namespace

void add_memory(CLI::App& demo, Chosen& chosen) {
  add_command<KvMemoryOptions>(demo, chosen, "memory",
                               "Size of the KV cache of a model", add_flags,
                               run);
}

}  // namespace qkvet::cli

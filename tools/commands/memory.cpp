// SPDX-License-Identifier: Apache-2.0
// qkvet demo memory: what the KV cache of a model takes, by the formula and as
// the built-in caches allocate it.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "tools/commands/groups.h"
#include "tools/demos/kv_memory.h"
#include "tools/report/select.h"

namespace qkvet::tools {
namespace {

struct KvMemoryOptions {
  int64_t layers = 0;
  int64_t kv_heads = 0;
  int64_t d = 0;
  std::string dtype;
  int64_t context = 0;
  int64_t batch = 0;
};

constexpr std::array kDtypes = {Dtype::kF32, Dtype::kF16, Dtype::kBf16,
                                Dtype::kFp8e4m3, Dtype::kInt8};
constexpr char kCaches[] = "kv_cache/*";

// What is tried for real: moments, and no machine is too small for it.
constexpr int64_t kMostTried = int64_t{64} << 20;

// 1,234,567
std::string grouped(int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

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
  return "--dtype " + name + ": allowed are " + names;
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

// What was tried, in words.
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
  const struct {
    const char* name;
    int64_t number;
  } rows[] = {{"--layers", options.layers},
              {"--kv-heads", options.kv_heads},
              {"--d-head", options.d},
              {"--context", options.context},
              {"--batch", options.batch}};
  for (const auto& row : rows)
    if (row.number < 1)
      return wrong_use(
          fmt::format("{} {}: must be 1 or more", row.name, row.number));
  KvGeometry whole{options.layers,  options.kv_heads, options.d,
                   options.context, options.batch,    Dtype::kF32};
  if (std::string error = read_dtype(options.dtype, &whole.dtype);
      !error.empty())
    return wrong_use(error);
  const auto bytes = kv_bytes(whole);
  if (!bytes)
    return wrong_use(fmt::format(
        "2 x {} x {} x {} x {} x {} x {} is more than 2^63 - 1 bytes",
        whole.layers, whole.Hkv, whole.d, whole.context, whole.batch,
        dtype_bytes(whole.dtype)));
  print_formula(whole, *bytes);
  return print_caches(whole);
}

void add_flags(Command& command, KvMemoryOptions& options) {
  const struct {
    const char* name;
    int64_t* number;
    const char* what;
  } rows[] = {{"--layers", &options.layers, "Number of layers"},
              {"--kv-heads", &options.kv_heads, "Key/value heads per layer"},
              {"--d-head", &options.d, "Head width d"},
              {"--context", &options.context, "Tokens per sequence"},
              {"--batch", &options.batch, "Number of sequences"}};
  for (const auto& row : rows)
    command.add_option(row.name, *row.number, row.what).required();
  command
      .add_option("--dtype", options.dtype, "f32, f16, bf16, fp8e4m3 or int8")
      .required();
}

}  // namespace

void add_memory(Command& demo, Chosen& chosen) {
  add_command<KvMemoryOptions>(demo, chosen, "memory",
                               "Size of the KV cache of a model", add_flags,
                               run);
}

}  // namespace qkvet::tools

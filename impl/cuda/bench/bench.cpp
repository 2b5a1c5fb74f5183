// SPDX-License-Identifier: Apache-2.0
// qkvet-cuda-bench: the CUDA kernels beside cuDNN, as shares of this device's
// speed in a product of matrices and in a copy, all measured in one run. Only
// useful work is counted: 4 H T^2 d operations, in causal calls those of
// visible pairs; in decode the bytes of K and V, once.
//
// Exit codes: 0 measured, 2 wrong use, 3 no device, 4 the device failed.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "impl/cuda/bench/device_timing.h"
#include "impl/cuda/bench/module.h"
#include "impl/cuda/bench/peers.h"

namespace qkvet::bench {
namespace {

constexpr int kMatrix = 8192;
constexpr size_t kCopyBytes = size_t{1} << 30;
constexpr int64_t kTokens = 16384;     // of a prefill, over all members
constexpr int64_t kModelWidth = 2048;  // H d

struct Ceilings {
  double flops = 0;  // of a product of matrices, each second
  double bytes = 0;  // read and written by a copy, each second
};

Ceilings measure_ceilings(int rounds) {
  Ceilings ceilings;
  const size_t bytes = size_t{2} * kMatrix * kMatrix;
  const Memory a(bytes), b(bytes), c(bytes);
  fill_bf16(a, 1);
  fill_bf16(b, 2);
  const Timed product = race({matrix_product(a, b, c, kMatrix)}, rounds)[0];
  if (product.why.empty()) {
    ceilings.flops = 2.0 * kMatrix * kMatrix * kMatrix / product.median;
    std::printf(
        "ceiling  product of %d^3 in bf16  %.0f TFLOP/s (%.0f .. %.0f)\n",
        kMatrix, 1e-12 * ceilings.flops,
        1e-12 * ceilings.flops * product.median / product.most,
        1e-12 * ceilings.flops * product.median / product.least);
  } else {
    std::printf("ceiling  product of matrices: %s\n", product.why.c_str());
  }
  const Memory from(kCopyBytes), to(kCopyBytes);
  fill_bf16(from, 3);
  const auto copy = [&]() -> std::string {
    const cudaError_t error = cudaMemcpyAsync(
        to.at(), from.at(), kCopyBytes, cudaMemcpyDeviceToDevice, nullptr);
    return error == cudaSuccess ? "" : cudaGetErrorString(error);
  };
  const Timed copied = race({{"copy", copy}}, rounds)[0];
  if (copied.why.empty()) {
    ceilings.bytes = 2.0 * kCopyBytes / copied.median;
    std::printf("ceiling  copy of 1 GiB, read and written  %.2f TB/s\n",
                1e-12 * ceilings.bytes);
  }
  return ceilings;
}

void print_row(const std::vector<Contender>& contenders,
               const std::vector<Timed>& timed, double work, double ceiling,
               double unit) {
  const double peer = timed.back().why.empty() ? timed.back().median : 0;
  for (size_t n = 0; n < contenders.size(); ++n) {
    if (!timed[n].why.empty()) {
      std::printf("    %-16s %s\n", contenders[n].name.c_str(),
                  timed[n].why.c_str());
      continue;
    }
    const double rate = work / timed[n].median;
    std::printf("    %-16s %8.1f  (%.1f .. %.1f)", contenders[n].name.c_str(),
                rate / unit, work / timed[n].most / unit,
                work / timed[n].least / unit);
    if (ceiling > 0) {
      std::printf("  %3.0f %% of the ceiling", 100 * rate / ceiling);
    }
    if (peer > 0 && n + 1 < contenders.size()) {
      std::printf("  %.2f of cuDNN", peer / timed[n].median);
    }
    std::printf("\n");
  }
}

// Tensors of one call, in memory of their own.
struct Inputs {
  Memory q, k, v, o;
  Attention attention;

  explicit Inputs(const Attention& a)
      : q(bytes_of(a.batch * a.heads * a.queries * a.width)),
        k(bytes_of(a.batch * a.kv_heads * a.keys * a.width)),
        v(k.bytes()),
        o(q.bytes()),
        attention(a) {
    fill_bf16(q, 11);
    fill_bf16(k, 12);
    fill_bf16(v, 13);
    attention.q = &q;
    attention.k = &k;
    attention.v = &v;
    attention.o = &o;
  }
  static size_t bytes_of(int64_t count) {
    return 2 * static_cast<size_t>(count);
  }
};

void prefill(const Ceilings& ceilings, int rounds) {
  constexpr double kTera = 1e12;
  for (const int64_t width : {64, 128}) {
    for (const bool causal : {false, true}) {
      for (int64_t tokens = 1024; tokens <= kTokens; tokens *= 2) {
        Attention a;
        a.batch = kTokens / tokens;
        a.heads = a.kv_heads = kModelWidth / width;
        a.queries = a.keys = tokens;
        a.width = width;
        a.causal = causal;
        const Inputs inputs(a);
        const double t = static_cast<double>(tokens);
        const double pairs = causal ? t * (t + 1) / 2 : t * t;
        const double work = 4.0 * static_cast<double>(a.batch * a.heads) *
                            pairs * static_cast<double>(width);
        std::printf("prefill  bf16,B%lld,H%lld,T%lld,d%lld%s   TFLOP/s\n",
                    static_cast<long long>(a.batch),
                    static_cast<long long>(a.heads),
                    static_cast<long long>(tokens),
                    static_cast<long long>(width), causal ? ",causal" : "");
        const std::vector<Contender> contenders = {
            kernel_call("cuda/flash_mma", inputs.attention),
            cudnn_attention(inputs.attention)};
        print_row(contenders, race(contenders, rounds), work, ceilings.flops,
                  kTera);
        std::fflush(stdout);
      }
    }
  }
}

void decode(const Ceilings& ceilings, int rounds) {
  constexpr double kGiga = 1e9;
  constexpr int64_t kHeads = 32, kKvHeads = 8, kWidth = 128;
  for (const int64_t batch : {1, 32}) {
    for (const int64_t keys : {4096, 32768}) {
      Attention a;
      a.batch = batch;
      a.heads = kHeads;
      a.kv_heads = kKvHeads;
      a.queries = 1;
      a.keys = keys;
      a.width = kWidth;
      const Inputs inputs(a);
      const double work = static_cast<double>(inputs.k.bytes()) +
                          static_cast<double>(inputs.v.bytes());
      std::printf("decode   bf16,B%lld,H%lld,Hkv%lld,Tk%lld,d%lld   GB/s\n",
                  static_cast<long long>(batch), static_cast<long long>(kHeads),
                  static_cast<long long>(kKvHeads),
                  static_cast<long long>(keys), static_cast<long long>(kWidth));
      const std::vector<Contender> contenders = {
          kernel_call("cuda/decode", inputs.attention),
          cudnn_attention(inputs.attention)};
      print_row(contenders, race(contenders, rounds), work, ceilings.bytes,
                kGiga);
      std::fflush(stdout);
    }
  }
}

bool has_device() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices > 0) {
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, 0), "the device");
    std::printf("device   %s, %d processors\n", properties.name,
                properties.multiProcessorCount);
    return true;
  }
  std::fprintf(
      stderr, "qkvet-cuda-bench: no CUDA device: %s\n",
      cudaGetErrorString(error == cudaSuccess ? cudaErrorNoDevice : error));
  return false;
}

int run(const std::string& what, int rounds) {
  if (!has_device()) {
    return 3;
  }
  const Ceilings ceilings = measure_ceilings(rounds);
  if (what != "decode") {
    prefill(ceilings, rounds);
  }
  if (what != "prefill") {
    decode(ceilings, rounds);
  }
  return 0;
}

}  // namespace
}  // namespace qkvet::bench

int main(int argc, char** argv) {
  constexpr int kRounds = 9;
  const std::string what = argc > 1 ? argv[1] : "all";
  if (argc > 2 || (what != "all" && what != "prefill" && what != "decode")) {
    std::fprintf(stderr, "usage: qkvet-cuda-bench [all | prefill | decode]\n");
    return 2;
  }
  return qkvet::bench::run(what, kRounds);
}

// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include "impl/cuda/bench/peers.h"

namespace qkvet::bench {
namespace {

// From cublas_api.h: the few names needed for one product.
using Create = int (*)(void** handle);
using Product = int (*)(void* handle, int op_a, int op_b, int m, int n, int k,
                        const void* alpha, const void* a, int type_a, int lda,
                        const void* b, int type_b, int ldb, const void* beta,
                        void* c, int type_c, int ldc, int compute,
                        int algorithm);
constexpr int kOpN = 0;
constexpr int kBf16 = 14;           // CUDA_R_16BF
constexpr int kComputeF32 = 68;     // CUBLAS_COMPUTE_32F
constexpr int kDefaultChoice = -1;  // CUBLAS_GEMM_DEFAULT

struct Cublas {
  void* handle = nullptr;
  Product product = nullptr;
  std::string why;
};

Cublas open_cublas() {
  Cublas blas;
  void* library = nullptr;
  for (const char* name : {"libcublas.so.13", "libcublas.so.12",
                           "/usr/local/cuda/lib64/libcublas.so"}) {
    library = library != nullptr ? library : dlopen(name, RTLD_NOW);
  }
  if (library == nullptr) {
    blas.why = "no cuBLAS";
    return blas;
  }
  const auto create =
      reinterpret_cast<Create>(dlsym(library, "cublasCreate_v2"));
  blas.product = reinterpret_cast<Product>(dlsym(library, "cublasGemmEx"));
  if (create == nullptr || blas.product == nullptr ||
      create(&blas.handle) != 0) {
    blas.why = "cuBLAS cannot be used";
  }
  return blas;
}

}  // namespace

Contender matrix_product(const Memory& a, const Memory& b, const Memory& c,
                         int n) {
  static const Cublas blas = open_cublas();
  return {
      "cuBLAS", [&a, &b, &c, n]() -> std::string {
        if (!blas.why.empty()) {
          return blas.why;
        }
        const float one = 1, zero = 0;
        const int error = blas.product(
            blas.handle, kOpN, kOpN, n, n, n, &one, a.at(), kBf16, n, b.at(),
            kBf16, n, &zero, c.at(), kBf16, n, kComputeF32, kDefaultChoice);
        return error == 0 ? "" : "cublasGemmEx: error " + std::to_string(error);
      }};
}

}  // namespace qkvet::bench

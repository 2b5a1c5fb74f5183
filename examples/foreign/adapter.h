// SPDX-License-Identifier: Apache-2.0
// What the wrappers of this folder have in common: a library of one kernel that
// takes f32 and is told in a line what it takes beyond q, k, v and o.
#ifndef QKVET_EXAMPLES_FOREIGN_ADAPTER_H_
#define QKVET_EXAMPLES_FOREIGN_ADAPTER_H_

#include "qkvet/backward.h"
#include "qkvet/kernel.h"

namespace foreign {

inline float* data_of(const qkvet_tensor& t) {
  return reinterpret_cast<float*>(static_cast<char*>(t.data) + t.byte_offset);
}

// The call as the functions of this folder ask for it.
struct Call {
  const float *q, *k, *v;
  float* o;
  int B, H, Hkv, Tq, Tk, d;
  bool causal;
};

inline Call call_of(const qkvet_forward_args& a) {
  const auto extent = [](int64_t n) { return static_cast<int>(n); };
  return {data_of(a.q),
          data_of(a.k),
          data_of(a.v),
          data_of(a.o),
          extent(a.q.shape[0]),
          extent(a.q.shape[1]),
          extent(a.k.shape[1]),
          extent(a.q.shape[2]),
          extent(a.k.shape[2]),
          extent(a.q.shape[3]),
          a.causal != QKVET_CAUSAL_NONE};
}

template <void (*kFunction)(const Call&)>
qkvet_status forward(const qkvet_kernel*, qkvet_context*,
                     const qkvet_forward_args* args, const qkvet_exec*,
                     qkvet_text*) {
  kFunction(call_of(*args));
  return QKVET_OK;
}

inline const qkvet_backward_table* table_of() { return nullptr; }
inline const qkvet_backward_table* table_of(const qkvet_backward_table& table) {
  return &table;
}

inline qkvet_capabilities capabilities_of(
    void (*declare)(qkvet_capabilities&)) {
  qkvet_capabilities c{};
  c.struct_size = sizeof c;
  c.options = QKVET_OPTION_DEFAULT_SCALE;
  declare(c);
  return c;
}

inline qkvet_kernel kernel_of(const char* name, const char* file, int line,
                              const qkvet_capabilities& capabilities,
                              decltype(qkvet_kernel::forward) function,
                              const qkvet_dialect* dialect = nullptr) {
  qkvet_kernel kernel{};
  kernel.struct_size = sizeof kernel;
  kernel.name = name;
  kernel.description = "out of a public repository";
  kernel.source_file = file;
  kernel.source_line = line;
  kernel.capabilities = &capabilities;
  kernel.dialect = dialect;
  kernel.forward = function;
  return kernel;
}

}  // namespace foreign

// `declare` fills in a qkvet_capabilities. What is not declared is not asked,
// so that there is nothing to refuse.
#define FOREIGN_KERNEL(family, variant, function, declare) \
  FOREIGN_LIBRARY(family, variant, foreign::forward<function>, declare)

// The same for a qkvet_kernel::forward, and behind it, if there is a gradient,
// a qkvet_backward_table.
#define FOREIGN_LIBRARY(family, variant, function, declare, ...)   \
  static const qkvet_capabilities foreign_capabilities =           \
      foreign::capabilities_of(declare);                           \
  static const qkvet_kernel foreign_kernel = [] {                  \
    qkvet_kernel kernel =                                          \
        foreign::kernel_of(family "/" variant, __FILE__, __LINE__, \
                           foreign_capabilities, function);        \
    kernel.backward = foreign::table_of(__VA_ARGS__);              \
    return kernel;                                                 \
  }();                                                             \
  FOREIGN_ENTRY(family, &foreign_kernel)

// The symbol of a library with these kernels.
#define FOREIGN_ENTRY(family, ...)                                        \
  extern "C" qkvet_status qkvet_open(const qkvet_host* host, const char*, \
                                     qkvet_library* out, qkvet_text*) {   \
    static const qkvet_kernel* const kernels[] = {__VA_ARGS__};           \
    if (host == nullptr || host->abi_major != QKVET_ABI_MAJOR)            \
      return QKVET_INVALID_ARGUMENT;                                      \
    *out = {};                                                            \
    out->struct_size = sizeof *out;                                       \
    out->abi_major = QKVET_ABI_MAJOR;                                     \
    out->abi_minor = QKVET_ABI_MINOR;                                     \
    out->name = family;                                                   \
    out->kernel_count = sizeof kernels / sizeof *kernels;                 \
    out->kernels = kernels;                                               \
    return QKVET_OK;                                                      \
  }                                                                       \
  static_assert(true, "a semicolon follows")

#endif  // QKVET_EXAMPLES_FOREIGN_ADAPTER_H_

// SPDX-License-Identifier: Apache-2.0
#include "impl/cuda/bench/module.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace qkvet::bench {
namespace {

constexpr qkvet_dtype kBf16 = {QKVET_DTYPE_BFLOAT, 16, 1};

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "qkvet-cuda-bench: %s\n", why.c_str());
  std::exit(2);
}

struct Reason {
  char room[256] = "";
  qkvet_text text = {sizeof(qkvet_text), room, sizeof(room)};
};

qkvet_library open_module() {
  namespace fs = std::filesystem;
  const fs::path program = fs::read_symlink("/proc/self/exe");
  const fs::path file =
      program.parent_path() / ".." / "lib" / "qkvet" / "qkvet_cuda.so";
  void* const module = dlopen(file.c_str(), RTLD_NOW);
  if (module == nullptr) {
    give_up(dlerror());
  }
  const auto open =
      reinterpret_cast<qkvet_open_function>(dlsym(module, "qkvet_open"));
  qkvet_host host = {};
  host.struct_size = sizeof(host);
  host.abi_major = QKVET_ABI_MAJOR;
  host.abi_minor = QKVET_ABI_MINOR;
  qkvet_library library = {};
  library.struct_size = sizeof(library);
  Reason why;
  if (open == nullptr || open(&host, "", &library, &why.text) != QKVET_OK) {
    give_up(file.string() + ": " + why.room);
  }
  return library;
}

const qkvet_kernel& kernel_named(const char* name) {
  const qkvet_library& library = cuda_module();
  for (int32_t n = 0; n < library.kernel_count; ++n) {
    if (std::strcmp(library.kernels[n]->name, name) == 0) {
      return *library.kernels[n];
    }
  }
  give_up(std::string("no kernel is named ") + name);
}

// A tensor and its arrays. It must not move.
struct Tensor {
  int64_t shape[4];
  int64_t strides[4];
  qkvet_tensor tensor = {};

  Tensor(const Memory& memory, int64_t a, int64_t b, int64_t c, int64_t d)
      : shape{a, b, c, d}, strides{b * c * d, c * d, d, 1} {
    tensor.data = memory.at();
    tensor.device_type = QKVET_DEVICE_CUDA;
    tensor.ndim = 4;
    tensor.dtype = kBf16;
    tensor.shape = shape;
    tensor.strides = strides;
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
};

// One call with all of its memory.
struct Prepared {
  const qkvet_kernel& kernel;
  Tensor q, k, v, o;
  qkvet_context* context = nullptr;
  qkvet_forward_args args = {};
  qkvet_exec exec = {};
  std::unique_ptr<Memory> workspace;
  std::string why;

  Prepared(const char* name, const Attention& a)
      : kernel(kernel_named(name)),
        q(*a.q, a.batch, a.heads, a.queries, a.width),
        k(*a.k, a.batch, a.kv_heads, a.keys, a.width),
        v(*a.v, a.batch, a.kv_heads, a.keys, a.width),
        o(*a.o, a.batch, a.heads, a.queries, a.width) {
    exec.struct_size = sizeof(exec);
    exec.device_type = QKVET_DEVICE_CUDA;
    args.struct_size = sizeof(args);
    args.q = q.tensor;
    args.k = k.tensor;
    args.v = v.tensor;
    args.o = o.tensor;
    args.causal = a.causal ? QKVET_CAUSAL_BOTTOM_RIGHT : QKVET_CAUSAL_NONE;
    Reason reason;
    if (kernel.open(&kernel, &exec, &context, &reason.text) != QKVET_OK ||
        kernel.supports(&kernel, &args, &reason.text) != QKVET_OK) {
      why = reason.room;
      return;
    }
    size_t bytes = 0;
    if (kernel.workspace != nullptr &&
        kernel.workspace(&kernel, context, &args, &bytes) == QKVET_OK &&
        bytes > 0) {
      workspace = std::make_unique<Memory>(bytes);
      exec.workspace = workspace->at();
      exec.workspace_size = bytes;
    }
  }
};

}  // namespace

const qkvet_library& cuda_module() {
  static const qkvet_library library = open_module();
  return library;
}

Contender kernel_call(const char* name, const Attention& attention) {
  const auto call = std::make_shared<Prepared>(name, attention);
  return {name, [call]() -> std::string {
            if (!call->why.empty()) {
              return call->why;
            }
            Reason why;
            const qkvet_status status =
                call->kernel.forward(&call->kernel, call->context, &call->args,
                                     &call->exec, &why.text);
            return status == QKVET_OK ? "" : why.room;
          }};
}

}  // namespace qkvet::bench

// SPDX-License-Identifier: Apache-2.0
#include "impl/testing/calls.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace qkvet::impl {
namespace {

// Between -1 and 1, exact in half storage.
float number(size_t n) { return static_cast<float>(n * 7 % 17) / 8 - 1; }

constexpr std::byte kGap{0x5a};

int64_t count_of(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) {
    count *= extent;
  }
  return count;
}

// Element n in row-major order.
std::byte* element(const qkvet_tensor& t, int64_t n) {
  int64_t at = 0;
  for (int32_t axis = t.ndim; axis-- > 0; n /= t.shape[axis]) {
    at += n % t.shape[axis] * t.strides[axis];
  }
  return static_cast<std::byte*>(t.data) + at * (t.dtype.bits / 8);
}

qkvet_exec on_cpu() {
  qkvet_exec exec = {};
  exec.struct_size = sizeof(exec);
  exec.device_type = QKVET_DEVICE_CPU;
  exec.deterministic = 1;
  return exec;
}

}  // namespace

Family::Family(const std::string& file) {
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    ADD_FAILURE() << dlerror();
    return;
  }
  entry_ = reinterpret_cast<qkvet_open_function>(dlsym(handle, "qkvet_open"));
  library_.struct_size = sizeof(library_);
  const qkvet_host host = make_host();
  EXPECT_EQ(entry_(&host, "", &library_, nullptr), QKVET_OK) << file;
}

qkvet_host make_host() {
  qkvet_host host = {};
  host.struct_size = sizeof(host);
  host.abi_major = QKVET_ABI_MAJOR;
  host.abi_minor = QKVET_ABI_MINOR;
  return host;
}

const std::vector<Family>& all_families() {
  static const auto* const families = [] {
    auto* list = new std::vector<Family>;
    std::istringstream files(QKVET_TEST_FAMILIES);
    for (std::string file; std::getline(files, file, ':');) {
      list->emplace_back(file);
    }
    return list;
  }();
  return *families;
}

std::vector<const qkvet_kernel*> kernels_that(
    const std::function<bool(const qkvet_kernel&)>& fit) {
  std::vector<const qkvet_kernel*> kernels;
  for (const Family& family : all_families()) {
    const qkvet_library& library = family.library();
    const bool faulty = std::strcmp(library.name, "faulty") == 0;
    for (int32_t i = 0; !faulty && i < library.kernel_count; ++i) {
      const qkvet_kernel* const kernel = library.kernels[i];
      if (fit(*kernel) && OpenKernel(kernel).status() == QKVET_OK) {
        kernels.push_back(kernel);
      }
    }
  }
  return kernels;
}

std::vector<const qkvet_kernel*> attention_kernels() {
  return kernels_that([](const qkvet_kernel& kernel) {
    return kernel.forward != nullptr &&
           (kernel.capabilities->flags & QKVET_FLAG_PAGES_ONLY) == 0 &&
           kernel.capabilities->layouts != QKVET_LAYOUT_PACKED_QKV &&
           is_declared(*kernel.capabilities, kF32);
  });
}

const qkvet_kernel* find_kernel(const std::string& name) {
  for (const Family& family : all_families()) {
    for (int32_t i = 0; i < family.library().kernel_count; ++i) {
      if (name == family.library().kernels[i]->name) {
        return family.library().kernels[i];
      }
    }
  }
  return nullptr;
}

OpenKernel::OpenKernel(const qkvet_kernel* kernel) : kernel_(kernel) {
  const qkvet_exec exec = on_cpu();
  if (kernel->open != nullptr) {
    status_ = kernel->open(kernel, &exec, &context_, &reason_.text);
  }
}

OpenKernel::~OpenKernel() {
  if (kernel_->close != nullptr && status_ == QKVET_OK) {
    kernel_->close(kernel_, context_);
  }
}

qkvet_status OpenKernel::forward(const qkvet_forward_args& args,
                                 qkvet_text* why) {
  qkvet_exec exec = on_cpu();
  size_t bytes = 0;
  if (kernel_->workspace != nullptr &&
      kernel_->workspace(kernel_, context_, &args, &bytes) != QKVET_OK) {
    return kernel_->supports(kernel_, &args, why);
  }
  std::vector<char> workspace(bytes);
  exec.workspace = workspace.data();
  exec.workspace_size = bytes;
  return kernel_->forward(kernel_, context_, &args, &exec, why);
}

Tensors::Block& Tensors::add(std::vector<int64_t> shape, size_t bytes) {
  Block& block = blocks_.emplace_back();
  block.size = bytes;
  block.bytes.reset(new (kLine) std::byte[bytes]{});
  block.strides.resize(shape.size());
  block.shape = std::move(shape);
  return block;
}

qkvet_tensor Tensors::tensor(Block& block, qkvet_dtype type) {
  qkvet_tensor t = {};
  t.data = block.bytes.get();
  t.device_type = QKVET_DEVICE_CPU;
  t.ndim = static_cast<int32_t>(block.shape.size());
  t.dtype = type;
  t.shape = block.shape.data();
  t.strides = block.strides.data();
  return t;
}

qkvet_tensor Tensors::make(std::vector<int64_t> shape, qkvet_dtype type) {
  const auto elements = static_cast<size_t>(count_of(shape));
  Block& block = add(std::move(shape), elements * type.bits / 8);
  int64_t step = 1;
  for (size_t axis = block.shape.size(); axis-- > 0;
       step *= block.shape[axis]) {
    block.strides[axis] = step;
  }
  Storage storage = Storage::kF32;
  for (size_t n = 0; n < elements && storage_of(type, &storage); ++n) {
    store(storage, block.bytes.get(), static_cast<int64_t>(n), number(n));
  }
  if (type.bits == 8) {
    std::fill_n(block.bytes.get(), block.size, std::byte{1});
  }
  return tensor(block, type);
}

qkvet_tensor Tensors::spread(const qkvet_tensor& t) {
  const std::vector<int64_t> shape(t.shape, t.shape + t.ndim);
  const size_t bytes = t.dtype.bits / 8;
  Block& block = add(shape, 2 * bytes * static_cast<size_t>(count_of(shape)));
  block.gap = bytes;
  std::fill_n(block.bytes.get(), block.size, kGap);
  int64_t step = 2;
  for (size_t axis = 0; axis < shape.size(); step *= shape[axis++]) {
    block.strides[axis] = step;
  }
  const qkvet_tensor to = tensor(block, t.dtype);
  for (int64_t n = 0; n < count_of(shape); ++n) {
    std::memcpy(element(to, n), element(t, n), bytes);
  }
  return to;
}

bool Tensors::gaps_are_kept() const {
  return std::all_of(blocks_.begin(), blocks_.end(), [](const Block& block) {
    for (size_t n = 0; n < block.size && block.gap > 0; ++n) {
      if (n / block.gap % 2 == 1 && block.bytes[n] != kGap) {
        return false;
      }
    }
    return true;
  });
}

bool same_elements(const qkvet_tensor& a, const qkvet_tensor& b) {
  const std::vector<int64_t> shape(a.shape, a.shape + a.ndim);
  for (int64_t n = 0; n < count_of(shape); ++n) {
    if (std::memcmp(element(a, n), element(b, n), a.dtype.bits / 8) != 0) {
      return false;
    }
  }
  return true;
}

void Tensors::remember() {
  for (Block& block : blocks_) {
    block.before.assign(block.bytes.get(), block.bytes.get() + block.size);
  }
}

bool Tensors::unchanged() const {
  return std::all_of(blocks_.begin(), blocks_.end(), [](const Block& block) {
    return std::equal(block.before.begin(), block.before.end(),
                      block.bytes.get(), block.bytes.get() + block.size);
  });
}

qkvet_forward_args forward_call(Tensors& t, uint64_t options) {
  const auto has = [options](uint64_t option) {
    return (options & option) != 0;
  };
  const bool packed = has(QKVET_OPTION_PACKED);
  const int64_t batch = packed ? 1 : 2;
  qkvet_forward_args a = {};
  a.struct_size = sizeof(a);
  a.q = t.make({batch, 2, 4, 3});
  a.k = t.make({batch, 1, 5, 3});
  a.v = t.make({batch, 1, 5, 3});
  a.o = t.make({batch, 2, 4, 3});
  a.lse = t.make({batch, 2, 4});
  if (has(QKVET_OPTION_WINDOW)) {
    a.has_window = 1;
    a.window_left = a.window_right = 2;
  }
  if (has(QKVET_OPTION_MASK)) a.mask = t.make({batch, 2, 4, 5}, kBool);
  if (has(QKVET_OPTION_BIAS)) a.bias = t.make({batch, 2, 4, 5});
  if (has(QKVET_OPTION_SOFTCAP)) a.softcap = 3;
  if (has(QKVET_OPTION_SINK)) a.sink = t.make({2});
  if (has(QKVET_OPTION_ALIBI)) a.slopes = t.make({2});
  if (has(QKVET_OPTION_DROPOUT)) a.dropout_p = 0.5f;
  if (has(QKVET_OPTION_WEIGHTS)) a.weights = t.make({batch, 2, 4, 5});
  if (has(QKVET_OPTION_LENGTHS)) {
    a.q_len = t.list<int64_t>({3, 4});
    a.kv_len = t.list<int64_t>({5, 4});
  }
  if (packed) {
    a.cu_seqlens_q = t.list<int64_t>({0, 2, 4});
    a.cu_seqlens_k = t.list<int64_t>({0, 2, 5});
  }
  if (has(QKVET_OPTION_KEY_LISTS)) {
    a.key_indices = t.make({2, 1, 4, 2}, kInt32);
    a.topk_length = t.make({2, 4}, kInt32);
  }
  if (has(QKVET_OPTION_SEGMENTS) && !packed) {
    a.segments_q = t.make({2, 4}, kInt32);
    a.segments_k = t.make({2, 5}, kInt32);
  }
  if (has(QKVET_OPTION_FULL_RANGES)) {
    a.full_ranges = t.make({2, 1, 2}, kInt32);
  }
  if (has(QKVET_OPTION_TREE_MASK)) a.tree_mask = t.make({2, 4, 4}, kBool);
  return a;
}

std::string wrong_refusal(qkvet_status status, const Reason& why,
                          const Tensors& t, qkvet_status wanted,
                          const std::string& part) {
  const std::string reason = why.room;
  if (status != wanted) {
    return "status " + std::to_string(status) + ": " + reason;
  }
  if (reason.find(part) == std::string::npos) {
    return "another reason: " + reason;
  }
  if (reason.empty() || reason.find('\n') != std::string::npos) {
    return "no reason of one line";
  }
  return t.unchanged() ? "" : "something was written";
}

}  // namespace qkvet::impl

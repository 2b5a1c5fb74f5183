// SPDX-License-Identifier: Apache-2.0
#include "impl/testing/family_fixture.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

#include "include/testing/coarse.h"

namespace qkvet::impl {
namespace {

// What an extent of 1 may carry as a stride.
constexpr int64_t kAbsurdStride = std::numeric_limits<int64_t>::max() / 3;
constexpr int64_t kGap = 3;

// Axes from the slowest to the fastest.
std::vector<size_t> axes_of(Layout layout, size_t rank) {
  if (rank == 3) {
    return layout == Layout::kBthd ? std::vector<size_t>{0, 2, 1}
                                   : std::vector<size_t>{0, 1, 2};
  }
  switch (layout) {
    case Layout::kBthd:
      return {0, 2, 1, 3};
    case Layout::kBhdt:
      return {0, 1, 3, 2};
    default:
      return {0, 1, 2, 3};
  }
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

bool takes(const qkvet_kernel* kernel, Storage type) {
  const qkvet_capabilities& c = *kernel->capabilities;
  const qkvet_dtype wanted = dtype_named(type);
  const auto is_wanted = [&wanted](const qkvet_dtype& declared) {
    return std::memcmp(&declared, &wanted, sizeof(wanted)) == 0;
  };
  for (int32_t i = 0; i < c.dtype_count; ++i) {
    const auto& rule = c.dtypes[i];
    if (is_wanted(rule.q) && is_wanted(rule.kv) && is_wanted(rule.o)) {
      return true;
    }
  }
  return c.dtype_count == 0 && type == Storage::kF32;
}

bool rounds_p(const qkvet_kernel& kernel) {
  const qkvet_precision& p = *kernel.precision;
  if ((p.declared & QKVET_KNOB_P_DTYPE) != 0) {
    return p.p_dtype.bits != 0;
  }
  return p.preset == QKVET_PRECISION_FLASH_HALF ||
         p.preset == QKVET_PRECISION_TENSOR_CORE ||
         p.preset == QKVET_PRECISION_CUDA_FAST;
}

std::vector<const qkvet_kernel*> kernels_that(
    bool faulty, const std::function<bool(const qkvet_kernel&)>& fit) {
  std::vector<const qkvet_kernel*> kernels;
  for (const Family& family : all_families()) {
    const qkvet_library& library = family.library();
    const bool is_faulty = std::strcmp(library.name, "faulty") == 0;
    for (int32_t i = 0; is_faulty == faulty && i < library.kernel_count; ++i) {
      if (fit(*library.kernels[i])) {
        kernels.push_back(library.kernels[i]);
      }
    }
  }
  return kernels;
}

// How near to that of doubles a number is expected here.
constexpr double kFine = 1e-6;

std::vector<const qkvet_kernel*> kernels_of_any_dialect(Storage type) {
  return kernels_that(/*faulty=*/false, [type](const qkvet_kernel& kernel) {
    // The bound, which allows for it, judges what is coarse.
    if (kernel.forward != nullptr && kernel.precision != nullptr &&
        is_coarse(*kernel.precision, kFine)) {
      return false;
    }
    const bool rows =
        (kernel.capabilities->flags & QKVET_FLAG_PAGES_ONLY) == 0 &&
        kernel.capabilities->layouts != QKVET_LAYOUT_PACKED_QKV;
    // Where nothing is declared there is nothing to expect: laws judge that.
    const int32_t empty = kernel.forward != nullptr && kernel.dialect != nullptr
                              ? kernel.dialect->empty_row
                              : 0;
    // There is NaN beyond the lengths.
    const bool finite =
        kernel.dialect != nullptr &&
        kernel.dialect->padding_nonfinite == QKVET_PADDING_NOT_IGNORED;
    return empty != 0 && empty != QKVET_EMPTY_ROW_UNSPECIFIED && rows &&
           !finite && takes(&kernel, type) &&
           OpenKernel(&kernel).status() == QKVET_OK;
  });
}

std::vector<const qkvet_kernel*> correct_kernels(Storage type) {
  std::vector<const qkvet_kernel*> kernels = kernels_of_any_dialect(type);
  std::erase_if(kernels, [](const qkvet_kernel* kernel) {
    const qkvet_dialect& d = *kernel->dialect;
    return d.empty_row != QKVET_EMPTY_ROW_ZERO || d.empty_row_by_mask != 0 ||
           d.empty_row_lse != QKVET_EMPTY_LSE_MINUS_INF ||
           d.lse_base != QKVET_LSE_NATURAL ||
           d.masked_nonfinite != QKVET_MASKED_IGNORED ||
           d.visible_nan == QKVET_VISIBLE_NAN_MAY_VANISH;
  });
  return kernels;
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
  qkvet_exec exec = {};
  exec.struct_size = sizeof(exec);
  exec.device_type = QKVET_DEVICE_CPU;
  exec.deterministic = 1;
  if (kernel->open != nullptr) {
    status_ = kernel->open(kernel, &exec, &context_, &reason_.text);
  }
}

OpenKernel::~OpenKernel() {
  if (kernel_->close != nullptr && status_ == QKVET_OK) {
    kernel_->close(kernel_, context_);
  }
}

qkvet_status OpenKernel::forward(const qkvet_forward_args& args) {
  qkvet_exec exec = {};
  exec.struct_size = sizeof(exec);
  exec.device_type = QKVET_DEVICE_CPU;
  exec.deterministic = 1;
  reason_.room[0] = '\0';
  std::vector<char> workspace;
  if (kernel_->workspace != nullptr) {
    size_t bytes = 0;
    const qkvet_status status =
        kernel_->workspace(kernel_, context_, &args, &bytes);
    // Faults write behind it.
    constexpr size_t kRoomForFaults = 1 << 16;
    workspace.resize(bytes + kRoomForFaults);
    exec.workspace = workspace.data();
    exec.workspace_size = bytes;
    if (status != QKVET_OK) {
      return kernel_->supports(kernel_, &args, &reason_.text);
    }
  }
  return kernel_->forward(kernel_, context_, &args, &exec, &reason_.text);
}

template <class T>
Guarded<T>::Guarded(std::vector<int64_t> shape, Layout layout, Placement place,
                    qkvet_dtype dtype)
    : shape_(std::move(shape)), steps_(shape_.size()) {
  const std::vector<size_t> axes = axes_of(layout, shape_.size());
  int64_t step = 1;
  for (size_t n = axes.size(); n-- > 0;) {
    steps_[axes[n]] = step;
    step *= shape_[axes[n]];
    if (layout == Layout::kGaps && n + 1 == axes.size()) {
      step += kGap;
    }
  }
  strides_ = steps_;
  count_ = 1;
  for (size_t axis = 0; axis < shape_.size(); ++axis) {
    count_ += (shape_[axis] - 1) * steps_[axis];
    strides_[axis] = shape_[axis] == 1 ? kAbsurdStride : steps_[axis];
  }
  if (std::find(shape_.begin(), shape_.end(), 0) != shape_.end()) {
    count_ = 0;
  }
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t bytes = static_cast<size_t>(count_) * sizeof(T);
  const size_t inner = (bytes + page - 1) / page * page;
  map_bytes_ = inner + 2 * page;
  map_ =
      mmap(nullptr, map_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char* const usable = static_cast<char*>(map_) + page;
  EXPECT_EQ(mprotect(usable, inner, PROT_READ | PROT_WRITE), 0);
  first_ = reinterpret_cast<T*>(
      usable + (place == Placement::kEndFlush ? inner - bytes : 0));
  tensor_.data = first_;
  tensor_.device_type = QKVET_DEVICE_CPU;
  tensor_.ndim = static_cast<int32_t>(shape_.size());
  tensor_.dtype = dtype;
  tensor_.shape = shape_.data();
  tensor_.strides = strides_.data();
}

template <class T>
Guarded<T>::~Guarded() {
  munmap(map_, map_bytes_);
}

template <class T>
T& Guarded<T>::at(int64_t b, int64_t h, int64_t t, int64_t c) {
  const int64_t last = shape_.size() == 4 ? c * steps_[3] : 0;
  return first_[b * steps_[0] + h * steps_[1] + t * steps_[2] + last];
}

template <class T>
void Guarded<T>::fill(T value) {
  std::fill(first_, first_ + count_, value);
}

template class Guarded<float>;
template class Guarded<uint16_t>;
template class Guarded<uint8_t>;

int64_t Problem::visible(int64_t i) const {
  if (causal == QKVET_CAUSAL_NONE) {
    return keys;
  }
  const int64_t shift = causal == QKVET_CAUSAL_TOP_LEFT ? 0 : keys - queries;
  return std::clamp<int64_t>(i + shift + 1, 0, keys);
}

float Problem::effective_scale() const {
  return scale_given ? scale : static_cast<float>(1 / std::sqrt(double(width)));
}

std::string Problem::text() const {
  std::ostringstream out;
  out << "B" << batch << ",H" << heads << ",Hkv" << kv_heads << ",Tq" << queries
      << ",Tk" << keys << ",d" << width << ",dv" << value_width << ",causal"
      << causal << ",scale" << effective_scale() << ",layout" << int(layout)
      << ",place" << int(place) << ",seed" << seed;
  return out.str();
}

uint64_t hash(uint64_t seed, uint64_t index) {
  uint64_t x = seed * 0x9E3779B97F4A7C15u + index;  // splitmix64
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

namespace {

void fill_random(GuardedTensor* tensor, uint64_t seed) {
  tensor->fill(std::numeric_limits<float>::quiet_NaN());  // gaps
  const std::vector<int64_t>& n = tensor->shape();
  uint64_t index = 0;
  for (int64_t b = 0; b < n[0]; ++b) {
    for (int64_t h = 0; h < n[1]; ++h) {
      for (int64_t t = 0; t < n[2]; ++t) {
        for (int64_t c = 0; c < n[3]; ++c) {
          const auto bits = static_cast<double>(hash(seed, ++index) >> 40);
          tensor->at(b, h, t, c) = static_cast<float>(bits * 0x1p-22 - 2);
        }
      }
    }
  }
}

}  // namespace

Call::Call(const Problem& p)
    : problem(p),
      q({p.batch, p.heads, p.queries, p.width}, p.layout, p.place),
      k({p.batch, p.kv_heads, p.keys, p.width}, p.layout, p.place),
      v({p.batch, p.kv_heads, p.keys, p.value_width}, p.layout, p.place),
      o({p.batch, p.heads, p.queries, p.value_width}, p.layout, p.place),
      lse({p.batch, p.heads, p.queries}, p.layout, p.place) {
  fill_random(&q, 3 * p.seed);
  fill_random(&k, 3 * p.seed + 1);
  fill_random(&v, 3 * p.seed + 2);
}

qkvet_forward_args Call::args() {
  o.fill(std::numeric_limits<float>::quiet_NaN());
  lse.fill(std::numeric_limits<float>::quiet_NaN());
  qkvet_forward_args args = {};
  args.struct_size = sizeof(args);
  args.q = q.tensor();
  args.k = k.tensor();
  args.v = v.tensor();
  args.o = o.tensor();
  args.lse = lse.tensor();
  args.scale = problem.scale;
  args.scale_given = problem.scale_given;
  args.causal = problem.causal;
  return args;
}

namespace {

// Rounds the elements of `wide` in place, gaps and all, and copies their bits:
// both tensors have the same layout.
void store_half(Storage type, GuardedTensor* wide, GuardedHalf* half) {
  for (int64_t n = 0; n < wide->count(); ++n) {
    half->begin()[n] = to_half(type, wide->begin()[n]);
    wide->begin()[n] = from_half(type, half->begin()[n]);
  }
}

}  // namespace

HalfCall::HalfCall(const Problem& p, Storage storage)
    : type(storage),
      wide(p),
      q(wide.q.shape(), p.layout, p.place, dtype_named(storage)),
      k(wide.k.shape(), p.layout, p.place, dtype_named(storage)),
      v(wide.v.shape(), p.layout, p.place, dtype_named(storage)),
      o(wide.o.shape(), p.layout, p.place, dtype_named(storage)),
      lse(wide.lse.shape(), p.layout, p.place) {
  store();
}

void HalfCall::store() {
  store_half(type, &wide.q, &q);
  store_half(type, &wide.k, &k);
  store_half(type, &wide.v, &v);
}

qkvet_forward_args HalfCall::args() {
  qkvet_forward_args args = wide.args();
  o.fill(to_half(type, std::numeric_limits<float>::quiet_NaN()));
  lse.fill(std::numeric_limits<float>::quiet_NaN());
  args.q = q.tensor();
  args.k = k.tensor();
  args.v = v.tensor();
  args.o = o.tensor();
  args.lse = lse.tensor();
  return args;
}

namespace {

// Rows of o, each followed by its lse.
template <class Element>
std::vector<float> rows_of(const Problem& p, const GuardedTensor& lse,
                           const Element& element) {
  std::vector<float> all;
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t h = 0; h < p.heads; ++h) {
      for (int64_t i = 0; i < p.queries; ++i) {
        for (int64_t c = 0; c < p.value_width; ++c) {
          all.push_back(element(b, h, i, c));
        }
        all.push_back(lse.at(b, h, i));
      }
    }
  }
  return all;
}

}  // namespace

std::vector<float> HalfCall::outputs() const {
  return rows_of(wide.problem, lse,
                 [this](int64_t b, int64_t h, int64_t i, int64_t c) {
                   return from_half(type, o.at(b, h, i, c));
                 });
}

std::vector<float> Call::outputs() const {
  return rows_of(problem, lse,
                 [this](int64_t b, int64_t h, int64_t i, int64_t c) {
                   return o.at(b, h, i, c);
                 });
}

}  // namespace qkvet::impl

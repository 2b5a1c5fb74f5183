// SPDX-License-Identifier: Apache-2.0
// For the tests of impl/: opens the modules as a host does, and makes small
// legal calls, which a test corrupts. Results are judged elsewhere (`qkvet
// check`), by a bound derived for each output.
#ifndef QKVET_IMPL_TESTING_CALLS_H_
#define QKVET_IMPL_TESTING_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include "impl/call/tensor_view.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

inline constexpr qkvet_dtype kBool = {QKVET_DTYPE_BOOL, 8, 1};
inline constexpr qkvet_dtype kInt32 = {QKVET_DTYPE_INT, 32, 1};
inline constexpr qkvet_dtype kInt64 = {QKVET_DTYPE_INT, 64, 1};
inline constexpr qkvet_dtype kF64 = {QKVET_DTYPE_FLOAT, 64, 1};

// A buffer for the reason of a refusal.
struct Reason {
  char room[256] = {};
  qkvet_text text = {sizeof(qkvet_text), room, sizeof(room)};
};

// One dlopened module, for the life of the process.
class Family {
 public:
  explicit Family(const std::string& file);
  const qkvet_library& library() const { return library_; }
  qkvet_open_function entry() const { return entry_; }

 private:
  qkvet_open_function entry_ = nullptr;
  qkvet_library library_ = {};
};

qkvet_host make_host();
// The modules of this build: QKVET_TEST_FAMILIES, separated by ':'.
const std::vector<Family>& all_families();
// Kernels that are not faulty, run on this CPU and fit.
std::vector<const qkvet_kernel*> kernels_that(
    const std::function<bool(const qkvet_kernel&)>& fit);
// Kernels with a forward() on rows of f32.
std::vector<const qkvet_kernel*> attention_kernels();
// NULL: no module has it.
const qkvet_kernel* find_kernel(const std::string& name);

// A kernel together with its open context.
class OpenKernel {
 public:
  explicit OpenKernel(const qkvet_kernel* kernel);
  ~OpenKernel();
  OpenKernel(const OpenKernel&) = delete;
  OpenKernel& operator=(const OpenKernel&) = delete;

  qkvet_status status() const { return status_; }
  const Reason& reason() const { return reason_; }
  qkvet_context* context() const { return context_; }
  qkvet_status forward(const qkvet_forward_args& args, qkvet_text* why);

 private:
  const qkvet_kernel* kernel_;
  qkvet_context* context_ = nullptr;
  qkvet_status status_ = QKVET_OK;
  Reason reason_;
};

// Row-major tensors, each in memory of its own.
class Tensors {
 public:
  // f32 and half elements are small numbers that differ from their neighbours;
  // bytes are 1, all other elements 0.
  qkvet_tensor make(std::vector<int64_t> shape, qkvet_dtype type = kF32);
  // Integers; one dimension by default.
  template <class T>
  qkvet_tensor list(const std::vector<T>& numbers,
                    std::vector<int64_t> shape = {}) {
    if (shape.empty()) {
      shape.push_back(static_cast<int64_t>(numbers.size()));
    }
    const qkvet_tensor t =
        make(std::move(shape), {QKVET_DTYPE_INT, 8 * sizeof(T), 1});
    std::memcpy(t.data, numbers.data(), numbers.size() * sizeof(T));
    return t;
  }
  // The same elements in the opposite order of axes, with gaps after them.
  qkvet_tensor spread(const qkvet_tensor& t);
  // Whether spread()'s gaps are unwritten.
  bool gaps_are_kept() const;
  void remember();
  // Whether all tensors hold the bytes that remember() found.
  bool unchanged() const;

 private:
  // Some kernels need outputs aligned to a cache line.
  static constexpr std::align_val_t kLine{64};
  struct Free {
    void operator()(std::byte* bytes) const {
      ::operator delete[](bytes, kLine);
    }
  };
  struct Block {
    std::unique_ptr<std::byte[], Free> bytes;
    size_t size;
    std::vector<std::byte> before;
    std::vector<int64_t> shape, strides;
    size_t gap = 0;  // bytes of an element and the gap after it
  };
  Block& add(std::vector<int64_t> shape, size_t bytes);
  static qkvet_tensor tensor(Block& block, qkvet_dtype type);
  std::deque<Block> blocks_;
};

// Whether two tensors of one shape hold the same bits.
bool same_elements(const qkvet_tensor& a, const qkvet_tensor& b);

// B = 2 (packed: 1), H = 2, Hkv = 1, Tq = 4, Tk = 5, d = dv = 3, with these
// QKVET_OPTION_*. A packed batch has no segments.
qkvet_forward_args forward_call(Tensors& t, uint64_t options = 0);

// A change that makes a call of these options illegal, and a part of the
// expected reason.
template <class Args, class Options = uint64_t>
struct Refusal {
  Options options;
  const char* reason;
  std::function<void(Args&, Tensors&)> spoil;
  qkvet_status status = QKVET_INVALID_ARGUMENT;
  bool in_numbers = false;  // supports() reads no numbers in tensors
};

// Edits of a call: a field becomes this value; a tensor has this type, rank or
// number.
template <class Args, class T>
auto set(T Args::*field, std::type_identity_t<T> value) {
  return [=](Args& args, Tensors&) { args.*field = value; };
}
template <class Args, class Part, class T>
auto set(Part Args::*part, T Part::*field, std::type_identity_t<T> value) {
  return [=](Args& args, Tensors&) { (args.*part).*field = value; };
}
template <class Args>
auto typed(qkvet_tensor Args::*tensor, qkvet_dtype type) {
  return [=](Args& args, Tensors&) { (args.*tensor).dtype = type; };
}
template <class Args>
auto ranked(qkvet_tensor Args::*tensor, int32_t rank) {
  return [=](Args& args, Tensors&) { (args.*tensor).ndim = rank; };
}
template <class T, class Args>
auto number(qkvet_tensor Args::*tensor, size_t n, T value) {
  return [=](Args& args, Tensors&) {
    static_cast<T*>((args.*tensor).data)[n] = value;
  };
}
// It becomes a list of these numbers.
template <class T, class Args>
auto listed(qkvet_tensor Args::*tensor, std::vector<T> numbers) {
  return [=](Args& args, Tensors& t) { args.*tensor = t.list(numbers); };
}
// An edit that sets a tensor of a call to this shape.
template <class Args>
auto shaped(qkvet_tensor Args::*tensor, std::vector<int64_t> shape,
            qkvet_dtype type = kF32) {
  return [=](Args& args, Tensors& t) { args.*tensor = t.make(shape, type); };
}
// The same for a part of it.
template <class Args, class Part>
auto shaped(Part Args::*part, qkvet_tensor Part::*tensor,
            std::vector<int64_t> shape, qkvet_dtype type = kF32) {
  return [=](Args& args, Tensors& t) {
    (args.*part).*tensor = t.make(shape, type);
  };
}

// The struct of a newer host, with a field that this library lacks.
template <class Args>
struct Newer {
  Args args;
  uint64_t field;
};
inline constexpr const char* kTooOld =
    "an argument is set that this library is too old for";

// The error in a refusal, or "" if it is correct: the status, a reason of one
// line that contains `part`, and no byte of a tensor written.
std::string wrong_refusal(qkvet_status status, const Reason& why,
                          const Tensors& t, qkvet_status wanted,
                          const std::string& part);

// Corrupts the call that `make` returns, passes it to `run` and checks the
// refusal.
template <class Args, class Options, class Make, class Run>
std::string wrong_refusal(const Refusal<Args, Options>& row, Make make,
                          Run run) {
  Tensors t;
  Args args = make(t);
  row.spoil(args, t);
  t.remember();
  Reason why;
  const qkvet_status status = run(args, &why.text);
  return wrong_refusal(status, why, t, row.status, row.reason);
}

// The same for a field after the known ones; there 0 is legal.
template <class Args, class Make, class Run>
std::string wrong_with_newer(Make make, Run run) {
  Tensors t;
  Newer<Args> newer = {make(t), 1};
  newer.args.struct_size = sizeof(newer);
  t.remember();
  Reason why;
  qkvet_status status = run(newer.args, &why.text);
  const std::string wrong =
      wrong_refusal(status, why, t, QKVET_UNSUPPORTED, kTooOld);
  if (!wrong.empty()) {
    return wrong;
  }
  newer.field = 0;
  status = run(newer.args, &why.text);
  return status == QKVET_OK ? "" : "a field of 0 is refused";
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_TESTING_CALLS_H_

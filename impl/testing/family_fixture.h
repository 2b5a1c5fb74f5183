// SPDX-License-Identifier: Apache-2.0
// For the tests of impl/: opens modules as a host does, lays tensors out behind
// guard pages, and computes attention in double. A smoke test only: kernels are
// judged elsewhere, by a bound derived for each output.
#ifndef QKVET_IMPL_TESTING_FAMILY_FIXTURE_H_
#define QKVET_IMPL_TESTING_FAMILY_FIXTURE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "impl/abi/half.h"
#include "impl/abi/tensor_view.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

// A reason that a kernel may write.
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
// The modules that this build has: QKVET_TEST_FAMILIES, separated by ':'.
const std::vector<Family>& all_families();
// Whether q, k, v and o may be stored as `type`, by what the kernel declares.
bool takes(const qkvet_kernel* kernel, Storage type);
// Whether P is rounded to half storage.
bool rounds_p(const qkvet_kernel& kernel);
// The kernels of the faulty family, or of all others, for which `fit` says yes.
std::vector<const qkvet_kernel*> kernels_that(
    bool faulty, const std::function<bool(const qkvet_kernel&)>& fit);
// Every kernel with a forward() that is not faulty, opens on this CPU and takes
// `type` in rows, whatever its dialect.
std::vector<const qkvet_kernel*> kernels_of_any_dialect(
    Storage type = Storage::kF32);
// Those of them that say o = 0 and a natural lse = -infinity of a row without
// keys, and ignore what masked keys hold.
std::vector<const qkvet_kernel*> correct_kernels(Storage type = Storage::kF32);
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
  qkvet_status forward(const qkvet_forward_args& args);

 private:
  const qkvet_kernel* kernel_;
  qkvet_context* context_ = nullptr;
  qkvet_status status_ = QKVET_OK;
  Reason reason_;
};

enum class Layout {
  kBhtd,  // contiguous [B,H,T,c]
  kBthd,  // contiguous [B,T,H,c]
  kBhdt,  // contiguous [B,H,c,T]: no unit stride inside a row
  kGaps,  // BHTD with three unused elements behind each row
};
enum class Placement { kEndFlush, kStartFlush };

// f32 (T is float), the bits of f16 or bf16 (T is uint16_t) or bytes between
// two guard pages, end-flush or start-flush to the element. The strides of
// extents of 1 are absurd.
template <class T>
class Guarded {
 public:
  Guarded(std::vector<int64_t> shape, Layout layout, Placement place,
          qkvet_dtype dtype = {QKVET_DTYPE_FLOAT, 32, 1});
  ~Guarded();
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  T& at(int64_t b, int64_t h, int64_t t, int64_t c = 0);
  T at(int64_t b, int64_t h, int64_t t, int64_t c = 0) const {
    return const_cast<Guarded*>(this)->at(b, h, t, c);
  }
  // The raw memory, gaps included.
  T* begin() { return first_; }
  int64_t count() const { return count_; }
  void fill(T value);
  const qkvet_tensor& tensor() const { return tensor_; }
  const std::vector<int64_t>& shape() const { return shape_; }

 private:
  std::vector<int64_t> shape_, steps_, strides_;
  void* map_ = nullptr;
  size_t map_bytes_ = 0;
  T* first_ = nullptr;
  int64_t count_ = 0;
  qkvet_tensor tensor_ = {};
};
using GuardedTensor = Guarded<float>;
using GuardedHalf = Guarded<uint16_t>;

struct Problem {
  int64_t batch = 1, heads = 1, kv_heads = 1;
  int64_t queries = 1, keys = 1, width = 1, value_width = 1;
  int32_t causal = QKVET_CAUSAL_NONE;
  bool scale_given = false;
  float scale = 0;
  Layout layout = Layout::kBhtd;
  Placement place = Placement::kEndFlush;
  uint64_t seed = 1;

  int64_t visible(int64_t i) const;
  float effective_scale() const;
  std::string text() const;
};

// A call on a problem; q, k, v filled with values in [-2, 2) that depend on the
// seed and the logical index only.
struct Call {
  explicit Call(const Problem& problem);
  // Args with lse, outputs prefilled with NaN.
  qkvet_forward_args args();
  // All of o, then all of lse, in logical order.
  std::vector<float> outputs() const;

  Problem problem;
  GuardedTensor q, k, v, o, lse;
};

// The same call in half storage. The values of `wide` are rounded to it, and
// its q, k and v are what wide.q, wide.k and wide.v hold then.
struct HalfCall {
  HalfCall(const Problem& problem, Storage type);
  // After a change of wide.q, wide.k or wide.v: rounds and copies them.
  void store();
  qkvet_forward_args args();
  // As Call::outputs(); o as f32.
  std::vector<float> outputs() const;

  Storage type;
  Call wide;
  GuardedHalf q, k, v, o;
  GuardedTensor lse;
};

// What Call::outputs() should be, in double.
// How far numbers of f32 of up to 1 may be apart in these tests, which do not
// see the bounds of reference/: 160 roundings. The largest problems have 70
// keys of 13 channels: 13 + 2 roundings of a score, 3 of an exponential, 70 in
// each of the two sums, and one of the quotient.
inline constexpr double kRoom = 160 * 0x1p-24;

struct Expected {
  std::vector<double> outputs;
  double largest_score = 0;
  double largest_value = 0;
};
Expected expected_of(const Call& call);

// A number that depends on its arguments only.
uint64_t hash(uint64_t seed, uint64_t index);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_TESTING_FAMILY_FIXTURE_H_

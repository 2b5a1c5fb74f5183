// SPDX-License-Identifier: Apache-2.0
#include "reference/testing/test_controls.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include "core/base/half.h"

extern "C" qkvet_status qkvet_open_controls(const qkvet_host* host,
                                            const char* config,
                                            qkvet_library* out,
                                            qkvet_text* why);

namespace qkvet::reference {
namespace {

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "controls: %s\n", what.c_str());
  std::abort();
}

qkvet_library open_controls(const std::string& config) {
  qkvet_host host{};
  host.struct_size = sizeof host;
  host.abi_major = QKVET_ABI_MAJOR;
  host.abi_minor = QKVET_ABI_MINOR;
  qkvet_library library{};
  library.struct_size = sizeof library;
  if (qkvet_open_controls(&host, config.c_str(), &library, nullptr) !=
      QKVET_OK) {
    give_up("the configuration " + config + " was refused");
  }
  return library;
}

bool takes(const qkvet_kernel& kernel, Dtype storage) {
  const qkvet_capabilities& can = *kernel.capabilities;
  return std::any_of(
      can.dtypes, can.dtypes + can.dtype_count, [&](const auto& rule) {
        return same_dtype(rule.q, dtype_to_abi(storage)) &&
               same_dtype(rule.kv, rule.q) && same_dtype(rule.o, rule.q);
      });
}

// A kernel of attention that returns all outputs in TestOutput. Kernels with
// gradients are skipped: their forward passes are also kernels without
// gradients.
bool is_arithmetic(const qkvet_kernel& kernel) {
  constexpr uint64_t kNeeded =
      QKVET_OPTION_WEIGHTS | QKVET_OPTION_LSE | QKVET_OPTION_WINDOW;
  return kernel.forward != nullptr && kernel.backward == nullptr &&
         (kernel.capabilities->options & kNeeded) == kNeeded &&
         !takes(kernel, Dtype::kF64) &&
         kernel.dialect->empty_row == QKVET_EMPTY_ROW_ZERO &&
         kernel.dialect->empty_row_lse == QKVET_EMPTY_LSE_MINUS_INF &&
         kernel.dialect->empty_row_by_mask == 0 &&
         kernel.dialect->lse_base == QKVET_LSE_NATURAL &&
         kernel.dialect->mask_and_causal == QKVET_MASK_AND_CAUSAL_BOTH;
}

std::vector<const qkvet_kernel*> arithmetics() {
  const qkvet_library library = open_controls("seeded=none");
  std::vector<const qkvet_kernel*> all;
  for (int32_t n = 0; n < library.kernel_count; ++n) {
    if (is_arithmetic(*library.kernels[n])) all.push_back(library.kernels[n]);
  }
  return all;
}

// A contiguous tensor of the ABI and its memory.
template <class T>
class AbiTensor {
 public:
  AbiTensor(qkvet_dtype dtype, const std::vector<int64_t>& shape)
      : dtype_(dtype), shape_(shape), strides_(shape_.size()) {
    int64_t count = 1;
    for (size_t n = shape_.size(); n-- > 0; count *= shape_[n]) {
      strides_[n] = count;
    }
    values_.resize(static_cast<size_t>(count));
  }
  template <class From>
  AbiTensor(qkvet_dtype dtype, const std::vector<int64_t>& shape,
            const From* from)
      : AbiTensor(dtype, shape) {
    for (size_t i = 0; from != nullptr && i < values_.size(); ++i) {
      values_[i] = static_cast<T>(from[i]);
    }
    absent_ = from == nullptr;
  }
  qkvet_tensor view() {
    qkvet_tensor tensor{};
    if (absent_) return tensor;
    tensor.data = values_.data();
    tensor.device_type = QKVET_DEVICE_CPU;
    tensor.ndim = static_cast<int32_t>(shape_.size());
    tensor.dtype = dtype_;
    tensor.shape = shape_.data();
    tensor.strides = strides_.data();
    return tensor;
  }
  std::vector<T>& values() { return values_; }
  std::vector<double> as_double() const {
    return {values_.begin(), values_.end()};
  }

 private:
  qkvet_dtype dtype_;
  std::vector<int64_t> shape_, strides_;
  std::vector<T> values_;
  bool absent_ = false;
};

// The call of a problem; tensors of f32.
class ProblemCall {
 public:
  explicit ProblemCall(const Problem& p)
      : p_(p),
        s_(p.shape),
        q_(f32(), {s_.B, s_.H, s_.Tq, s_.d}, p.q),
        k_(f32(), {s_.B, s_.Hkv, s_.Tk, s_.d}, p.k),
        v_(f32(), {s_.B, s_.Hkv, s_.Tk, s_.dv}, p.v),
        o_(f32(), {s_.B, s_.H, s_.Tq, s_.dv}),
        lse_(f32(), {s_.B, s_.H, s_.Tq}),
        weights_(f32(), {s_.B, s_.H, s_.Tq, s_.Tk}),
        bias_(f32(), {s_.B, s_.H, s_.Tq, s_.Tk}, p.bias),
        sink_(f32(), {s_.H}, p.sink),
        slopes_(f32(), slope_extents(p), p.slopes),
        mask_(integer(QKVET_DTYPE_UINT, 8), {s_.B, s_.H, s_.Tq, s_.Tk}, p.mask),
        q_len_(int64(), {s_.B}, p.q_len),
        kv_len_(int64(), {s_.B}, p.kv_len),
        cu_q_(int64(), {p.members + 1}, p.members > 0 ? p.cu_q : nullptr),
        cu_k_(int64(), {p.members + 1}, p.members > 0 ? p.cu_k : nullptr) {
    std::fill(o_.values().begin(), o_.values().end(), std::nanf(""));
    std::fill(lse_.values().begin(), lse_.values().end(), std::nanf(""));
  }

  qkvet_forward_args args() {
    qkvet_forward_args a{};
    a.struct_size = sizeof a;
    a.q = q_.view();
    a.k = k_.view();
    a.v = v_.view();
    a.o = o_.view();
    a.lse = lse_.view();
    a.weights = weights_.view();
    a.scale = static_cast<float>(p_.scale);
    a.scale_given = p_.scale_given ? 1 : 0;
    a.causal = static_cast<int32_t>(p_.causal);
    if (p_.window) {
      a.has_window = 1;
      a.window_left = p_.window->left;
      a.window_right = p_.window->right;
    }
    a.mask = mask_.view();
    a.bias = bias_.view();
    a.softcap = static_cast<float>(p_.softcap);
    a.sink = sink_.view();
    a.slopes = slopes_.view();
    a.q_len = q_len_.view();
    a.kv_len = kv_len_.view();
    a.cu_seqlens_q = cu_q_.view();
    a.cu_seqlens_k = cu_k_.view();
    return a;
  }

  TestOutput output(Dtype storage) const {
    TestOutput out = {o_.as_double(), lse_.as_double(), weights_.as_double()};
    for (double& w : out.weights) w = round_to(storage, w);
    if (std::all_of(out.lse.begin(), out.lse.end(),
                    [](double lse) { return std::isfinite(lse); }))
      return out;
    const OracleOutput truth = plain_forward(p_);
    for (int64_t row = 0; row < s_.lse_elements(); ++row) {
      if (truth.visible[row] > 0) continue;
      std::copy_n(truth.o.begin() + row * s_.dv, s_.dv,
                  out.o.begin() + row * s_.dv);
      out.lse[row] = truth.lse[row];
    }
    return out;
  }

 private:
  static std::vector<int64_t> slope_extents(const Problem& p) {
    if (!p.member_slopes) return {p.shape.H};
    return {p.members > 0 ? p.members : p.shape.B, p.shape.H};
  }
  static qkvet_dtype f32() { return dtype_to_abi(Dtype::kF32); }
  static qkvet_dtype integer(uint8_t code, uint8_t bits) {
    return {code, bits, 1};
  }
  static qkvet_dtype int64() { return integer(QKVET_DTYPE_INT, 64); }

  const Problem& p_;
  const Shape& s_;
  AbiTensor<float> q_, k_, v_, o_, lse_, weights_, bias_, sink_, slopes_;
  AbiTensor<uint8_t> mask_;
  AbiTensor<int64_t> q_len_, kv_len_, cu_q_, cu_k_;
};

// Configures the kernel to read a problem in the problem's dialect.
std::string configuration(const TestControl& control, const Problem& problem,
                          std::string_view seeded) {
  const qkvet_dialect& dialect = *control.kernel->dialect;
  std::string config = "seeded=" + std::string(seeded);
  if ((dialect.softcap_order == QKVET_SOFTCAP_AFTER_MASK) !=
      problem.softcap_after_bias) {
    config += ",seeded=softcap_order";
  }
  if ((dialect.sink_in_lse == QKVET_SINK_IN_LSE) != problem.sink_in_lse) {
    config += ",seeded=sink_in_lse";
  }
  return config + ",storage=" + std::string(dtype_name(control.storage));
}

}  // namespace

std::string TestControl::name() const {
  const std::string whole = kernel->name;
  const std::string own = whole.substr(whole.find('/') + 1);
  return storage == Dtype::kF32
             ? own
             : std::string(dtype_name(storage)) + "_of_" + own;
}

TestControl control_named(std::string_view name, Dtype storage) {
  for (const qkvet_kernel* kernel : arithmetics()) {
    if (kernel->name == "controls/" + std::string(name)) {
      return {kernel, storage};
    }
  }
  give_up("there is no " + std::string(name));
}

std::vector<TestControl> f32_controls() {
  std::vector<TestControl> all;
  for (const qkvet_kernel* kernel : arithmetics()) {
    if (takes(*kernel, Dtype::kF32)) all.push_back({kernel, Dtype::kF32});
  }
  return all;
}

std::vector<TestControl> half_controls() {
  std::vector<TestControl> all;
  for (const Dtype half : {Dtype::kBf16, Dtype::kF16}) {
    // P in f32, in tiles that short rows have several of.
    all.push_back(control_named("online4", half));
    for (const qkvet_kernel* kernel : arithmetics()) {
      if (takes(*kernel, half) && !takes(*kernel, Dtype::kF32)) {
        all.push_back({kernel, half});
      }
    }
  }
  return all;
}

std::vector<TestControl> option_controls() {
  constexpr uint64_t kScores = QKVET_OPTION_BIAS | QKVET_OPTION_SOFTCAP |
                               QKVET_OPTION_SINK | QKVET_OPTION_ALIBI;
  std::vector<TestControl> all;
  for (const auto& list : {f32_controls(), half_controls()}) {
    for (const TestControl& one : list) {
      const uint64_t options = one.kernel->capabilities->options;
      if ((options & kScores) == kScores) all.push_back(one);
    }
  }
  return all;
}

TestOutput run_control(const TestControl& control, const Problem& problem,
                       std::string_view seeded) {
  open_controls(configuration(control, problem, seeded));
  ProblemCall call(problem);
  const qkvet_forward_args args = call.args();
  qkvet_exec exec{};
  exec.struct_size = sizeof exec;
  exec.device_type = QKVET_DEVICE_CPU;
  exec.threads = 1;
  char room[256] = "";
  qkvet_text why{sizeof why, room, sizeof room};
  if (control.kernel->forward(control.kernel, nullptr, &args, &exec, &why) !=
      QKVET_OK) {
    give_up(control.name() + " refused a call: " + room);
  }
  return call.output(control.storage);
}

bool within_generic(const TestControl& control) {
  const ResolvedPrecision all = resolve_precision(*control.kernel->precision);
  return !all.looser_than_generic && !all.model.unmeasured &&
         !looser_for_storage(all.model, control.storage);
}

PrecisionModel declared_precision(const TestControl& control) {
  return for_storage(resolve_precision(*control.kernel->precision).model,
                     control.storage, control.storage);
}

}  // namespace qkvet::reference

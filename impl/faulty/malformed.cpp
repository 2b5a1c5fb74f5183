// SPDX-License-Identifier: Apache-2.0
// Faults of what is not looked at before the work begins: calls whose tensors
// contradict each other, and fields that a newer caller sets. The call is made
// to fit in front of a right kernel, so that the fault stays inside its
// tensors. And faults in what is refused although it contradicts nothing.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "impl/call/tensor_view.h"
#include "impl/faulty/kernels.h"
#include "impl/skeletons/layer_skeleton.h"

namespace qkvet::impl {
namespace {

// The arguments with one contradiction taken out of them.
template <class Fault>
class Forgiven {
 public:
  explicit Forgiven(const qkvet_forward_args& given) : given_(&given) {
    // A field behind the known ones is for the right kernel to refuse.
    if (given.struct_size != sizeof(args_)) return;
    std::memcpy(&args_, &given, sizeof(args_));
    if (is_whole(args_.q) && is_whole(args_.k) && is_whole(args_.v)) {
      Fault::forgive(args_, shape_);
      given_ = &args_;
    }
  }

  const qkvet_forward_args* args() const { return given_; }

 private:
  static bool is_whole(const qkvet_tensor& t) {
    return t.ndim == 4 && t.shape != nullptr;
  }

  qkvet_forward_args args_ = {};
  std::array<int64_t, 4> shape_ = {};
  const qkvet_forward_args* given_;
};

// The shape of `t`, with another extent.
void reshape(qkvet_tensor& t, std::array<int64_t, 4>& shape, size_t axis,
             int64_t extent) {
  std::memcpy(shape.data(), t.shape, sizeof(shape));
  shape[axis] = extent;
  t.shape = shape.data();
}

template <class Fault>
qkvet_status supports_forgiven(const qkvet_kernel* self,
                               const qkvet_forward_args* args,
                               qkvet_text* why) {
  return supports_forward(self, typename Fault::Args(*args).args(), why);
}

template <class Fault>
qkvet_status forward_forgiven(const qkvet_kernel* self, qkvet_context* context,
                              const qkvet_forward_args* args,
                              const qkvet_exec* exec, qkvet_text* why) {
  return OptionsKernel<OptionHooks>::forward(
      self, context, typename Fault::Args(*args).args(), exec, why);
}

template <class Fault, uint64_t kOptions = 0>
constexpr qkvet_kernel kForgivingFault =
    with(with(kOptionFault<OptionHooks, kOptions>, &qkvet_kernel::supports,
              supports_forgiven<Fault>),
         &qkvet_kernel::forward, forward_forgiven<Fault>);

}  // namespace

// kTensor counts as no longer along kAxis than kRead is along kAs.
template <qkvet_tensor qkvet_forward_args::*kTensor, int kAxis,
          qkvet_tensor qkvet_forward_args::*kRead, int kAs>
struct ExtentUnchecked {
  using Args = Forgiven<ExtentUnchecked>;
  static void forgive(qkvet_forward_args& args, std::array<int64_t, 4>& shape) {
    qkvet_tensor& tensor = args.*kTensor;
    const int64_t extent = (args.*kRead).shape[kAs];
    if (tensor.ndim == 4 && tensor.shape[kAxis] > extent)
      reshape(tensor, shape, kAxis, extent);
  }
};
using MaskExtentUnchecked =
    ExtentUnchecked<&qkvet_forward_args::mask, 3, &qkvet_forward_args::k, 2>;
using ValueTokensUnchecked =
    ExtentUnchecked<&qkvet_forward_args::v, 2, &qkvet_forward_args::k, 2>;
using KeyWidthUnchecked =
    ExtentUnchecked<&qkvet_forward_args::k, 3, &qkvet_forward_args::q, 3>;
QKVET_FAULT(mask_extent_unchecked,
            kForgivingFault<MaskExtentUnchecked, QKVET_OPTION_MASK>) = {
    .when = "mistake == mask_extent",
    .cause = "a mask of more keys than there are is accepted: only the extents "
             "of k are read",
    .fix = "refuse a mask that is not [B, H, Tq, Tk], and name both shapes",
    .source = "facebookresearch/xformers#1122, flashinfer-ai/flashinfer#5271",
    .killed_by = {"malformed_calls_are_refused"},
};

QKVET_FAULT(value_tokens_unchecked, kForgivingFault<ValueTokensUnchecked>) = {
    .when = "mistake == input_rows",
    .cause = "v with more tokens than k is accepted: one count of tokens "
             "serves both",
    .fix = "refuse k and v of different lengths, and name both",
    .source = "pytorch/pytorch#193728",
    .killed_by = {"malformed_calls_are_refused"},
};

QKVET_FAULT(key_width_unchecked, kForgivingFault<KeyWidthUnchecked>) = {
    .when = "mistake == key_width",
    .cause =
        "channels of k beyond those of q are left out: d is read from q alone",
    .fix = "refuse q and k of different widths, and name both",
    .killed_by = {"malformed_calls_are_refused"},
};

struct UnknownFieldIgnored {
  class Args {
   public:
    explicit Args(const qkvet_forward_args& given) {
      const size_t known = std::min(given.struct_size, sizeof(args_));
      std::memcpy(&args_, &given, known);
      args_.struct_size = known;
    }
    const qkvet_forward_args* args() const { return &args_; }

   private:
    qkvet_forward_args args_ = {};
  };
};
QKVET_FAULT(unknown_field_ignored, kForgivingFault<UnknownFieldIgnored>) = {
    .when = "mistake == unknown_field",
    .cause = "a field that the kernel does not know is ignored: the struct is "
             "read up to its known end",
    .fix = "refuse a struct with anything but zero after its known end",
    .source = "vllm-project/vllm#46754 (a feature that is taken and ignored)",
    .killed_by = {"malformed_calls_are_refused"},
};

// ---- Numbers of lengths and of starts of members ----------------------------

namespace {

// The numbers of a list, made to fit.
template <class Fault>
class Mended {
 public:
  explicit Mended(const qkvet_forward_args& given) : given_(&given) {
    if (given.struct_size != sizeof(args_) || given.q.ndim != 4 ||
        given.k.ndim != 4) {
      return;
    }
    std::memcpy(&args_, &given, sizeof(args_));
    given_ = &args_;
    mend(Fault::kStarts ? &args_.cu_seqlens_q : &args_.q_len, given.q.shape[2],
         &queries_);
    mend(Fault::kStarts ? &args_.cu_seqlens_k : &args_.kv_len, given.k.shape[2],
         &keys_);
  }

  const qkvet_forward_args* args() const { return given_; }

 private:
  struct List {
    std::vector<int64_t> numbers;
    int64_t shape, stride = 1;
  };

  static void mend(qkvet_tensor* t, int64_t extent, List* list) {
    if (t->ndim != 1 || t->shape == nullptr || t->strides == nullptr ||
        t->shape[0] < 1 || t->dtype.code != QKVET_DTYPE_INT ||
        t->dtype.bits != 64) {
      return;
    }
    const View<const int64_t> given = view_of<const int64_t>(*t);
    for (int64_t n = 0; n < t->shape[0]; ++n)
      list->numbers.push_back(*given.at(n, 0, 0));
    Fault::mend(&list->numbers, extent);
    list->shape = t->shape[0];
    t->data = list->numbers.data();
    t->byte_offset = 0;
    t->shape = &list->shape;
    t->strides = &list->stride;
  }

  qkvet_forward_args args_ = {};
  List queries_, keys_;
  const qkvet_forward_args* given_;
};

// supports() sees extents alone: the numbers are mended in the call.
template <class Fault, uint64_t kOptions>
constexpr qkvet_kernel kMendingFault = with(kOptionFault<OptionHooks, kOptions>,
                                            &qkvet_kernel::forward,
                                            forward_forgiven<Fault>);

}  // namespace

struct FallingStartsRaised {
  using Args = Mended<FallingStartsRaised>;
  static constexpr bool kStarts = true;
  static void mend(std::vector<int64_t>* starts, int64_t) {
    for (size_t n = 1; n < starts->size(); ++n)
      (*starts)[n] = std::max((*starts)[n], (*starts)[n - 1]);
  }
};
QKVET_FAULT(falling_starts_taken,
            kMendingFault<FallingStartsRaised, QKVET_OPTION_PACKED>) = {
    .when = "mistake == offsets_fall",
    .cause = "sequences that end before they begin are taken as empty: a loop "
             "of fewer than 1 rows just ends",
    .fix = "refuse starts that fall, and name the sequence",
    .source = "sgl-project/sgl-flash-attn#47, local-inference-lab/b12x#155, "
              "cf. flashinfer-ai/flashinfer#4015",
    .killed_by = {"malformed_calls_are_refused"},
};

struct FirstStartUnread {
  using Args = Mended<FirstStartUnread>;
  static constexpr bool kStarts = true;
  static void mend(std::vector<int64_t>* starts, int64_t) {
    starts->front() = 0;
  }
};
QKVET_FAULT(first_start_unread,
            kMendingFault<FirstStartUnread, QKVET_OPTION_PACKED>) = {
    .when = "mistake == offsets_start",
    .cause = "the first sequence begins at row 0, whatever its start is",
    .fix = "refuse a first start that is not 0",
    .source =
        "sgl-project/sgl-flash-attn#47, cf. flashinfer-ai/flashinfer#4015",
    .killed_by = {"malformed_calls_are_refused"},
};

// Starts, or lengths, end with the rows.
template <bool kAreStarts>
struct CutOff {
  using Args = Mended<CutOff>;
  static constexpr bool kStarts = kAreStarts;
  static void mend(std::vector<int64_t>* numbers, int64_t rows) {
    for (int64_t& number : *numbers) number = std::min(number, rows);
  }
};
QKVET_FAULT(starts_beyond_rows_cut,
            kMendingFault<CutOff<true>, QKVET_OPTION_PACKED>) = {
    .when = "mistake == offsets_end",
    .cause = "a sequence that ends past the last row ends with it: the loop "
             "over rows ends with the tensor",
    .fix = "refuse starts beyond the rows, and name both numbers",
    .source = "sgl-project/sgl-flash-attn#47, NVIDIA/TensorRT-LLM#13919, cf. "
              "flashinfer-ai/flashinfer#4015",
    .killed_by = {"malformed_calls_are_refused"},
};

QKVET_FAULT(length_beyond_clamped,
            kMendingFault<CutOff<false>, QKVET_OPTION_LENGTHS>) = {
    .when = "mistake == length_beyond",
    .cause = "a length beyond the rows that there are counts as all rows: "
             "lengths are clamped instead of checked",
    .fix = "refuse a length that does not fit, and name both numbers",
    .source = "vllm-project/vllm-ascend#9139, Dao-AILab/flash-attention#2711, "
              "cf. flashinfer-ai/flashinfer#4015",
    .killed_by = {"malformed_calls_are_refused"},
};

struct NegativeLengthIsZero {
  using Args = Mended<NegativeLengthIsZero>;
  static constexpr bool kStarts = false;
  static void mend(std::vector<int64_t>* lengths, int64_t) {
    for (int64_t& length : *lengths) length = std::max<int64_t>(length, 0);
  }
};
QKVET_FAULT(negative_length_is_zero,
            kMendingFault<NegativeLengthIsZero, QKVET_OPTION_LENGTHS>) = {
    .when = "mistake == length_negative",
    .cause =
        "a negative length counts as 0: lengths are clamped instead of checked",
    .fix = "refuse a negative length",
    .source = "microsoft/onnxruntime#28031, microsoft/onnxruntime#29240",
    .killed_by = {"malformed_calls_are_refused"},
};

struct LengthsRankUnchecked {
  using Args = Forgiven<LengthsRankUnchecked>;
  static void forgive(qkvet_forward_args& args, std::array<int64_t, 4>&) {
    for (qkvet_tensor* t : {&args.q_len, &args.kv_len})
      if (t->ndim == 2 && t->shape != nullptr && t->shape[1] == 1) t->ndim = 1;
  }
};
QKVET_FAULT(lengths_rank_unchecked,
            kForgivingFault<LengthsRankUnchecked, QKVET_OPTION_LENGTHS>) = {
    .when = "mistake == lengths_rank",
    .cause = "lengths of two dimensions are taken for a list: only their "
             "elements are counted",
    .fix = "refuse lengths that are not [B]",
    .source = "NVIDIA/TransformerEngine#3351 (what a check was added for)",
    .killed_by = {"malformed_calls_are_refused"},
};

struct LengthsBesideStartsIgnored {
  using Args = Forgiven<LengthsBesideStartsIgnored>;
  static void forgive(qkvet_forward_args& args, std::array<int64_t, 4>&) {
    if (args.cu_seqlens_q.ndim == 1) args.q_len = {};
  }
};
QKVET_FAULT(lengths_beside_starts_ignored,
            kForgivingFault<LengthsBesideStartsIgnored,
                            QKVET_OPTION_PACKED | QKVET_OPTION_LENGTHS>) = {
    .when = "mistake == both_forms",
    .cause = "lengths next to the starts of sequences are ignored: the branch "
             "for packed batches comes first",
    .fix = "refuse a call that has both",
    .source = "vllm-project/vllm#46754 (a field that is taken and ignored)",
    .killed_by = {"malformed_calls_are_refused"},
};

namespace {

// Whether some number of a tensor [a, b, c, d] or [b, c, d] is beyond what the
// kernel was tried with, in f32.
bool has_large_number(const qkvet_tensor& tensor) {
  constexpr float kTried = 4;
  constexpr uint8_t kFloatBits = 32;
  if (tensor.ndim < 3 || tensor.ndim > 4 || tensor.dtype.bits != kFloatBits)
    return false;
  const auto extent = [&tensor](int32_t axis) {
    const int32_t at = axis - (4 - tensor.ndim);
    return at < 0 ? int64_t{1} : tensor.shape[at];
  };
  const auto step = [&tensor](int32_t axis) {
    const int32_t at = axis - (4 - tensor.ndim);
    return at < 0 ? int64_t{0} : step_of(tensor, at);
  };
  const auto* const first = static_cast<const float*>(first_element(tensor));
  for (int64_t a = 0; a < extent(0); ++a) {
    for (int64_t b = 0; b < extent(1); ++b) {
      for (int64_t c = 0; c < extent(2); ++c) {
        for (int64_t d = 0; d < extent(3); ++d) {
          const int64_t at =
              a * step(0) + b * step(1) + c * step(2) + d * step(3);
          if (std::fabs(first[at]) > kTried) return true;
        }
      }
    }
  }
  return false;
}

qkvet_status refuse_large(const qkvet_tensor& tensor, qkvet_status status,
                          qkvet_text* why) {
  return status == QKVET_OK && has_large_number(tensor)
             ? refuse(why, QKVET_UNSUPPORTED,
                      "a number is out of the range that was tried")
             : status;
}

qkvet_status supports_small_queries(const qkvet_kernel* self,
                                    const qkvet_forward_args* args,
                                    qkvet_text* why) {
  return refuse_large(args->q, supports_forward(self, args, why), why);
}

constexpr qkvet_kernel kRefusingFault = with(
    kOptionFault<OptionHooks>, &qkvet_kernel::supports, supports_small_queries);

using RightBackward =
    BackwardKernel<PlainBackward, BackwardRows<PlainBackward>::piece>;

qkvet_status backward_of_small_gradients(const qkvet_kernel* self,
                                         qkvet_context* context,
                                         const qkvet_backward_args* args,
                                         const qkvet_exec* exec,
                                         qkvet_text* why) {
  QKVET_TRY(refuse_large(args->d_o, QKVET_OK, why));
  return RightBackward::backward(self, context, args, exec, why);
}

constexpr qkvet_backward_table kRefusingBackward =
    backward_table(backward_of_small_gradients);

constexpr qkvet_kernel kRefusesGradients =
    with_backward(kOptionFault<OptionHooks>, &kRefusingBackward);

qkvet_status layer_of_small_tokens(const qkvet_kernel* self,
                                   qkvet_context* context,
                                   const qkvet_layer_args* args,
                                   const qkvet_exec* exec, qkvet_text* why) {
  QKVET_TRY(refuse_large(args->x, QKVET_OK, why));
  return LayerSkeleton<PlainLayer>::forward(self, context, args, exec, why);
}

constexpr qkvet_layer_table kRefusingLayer =
    layer_table(layer_of_small_tokens, kF32);

constexpr qkvet_kernel kRefusesTokens =
    layer_kernel("", "", {}, &kLayerPrecision, &kRefusingLayer);

}  // namespace

QKVET_FAULT(large_queries_refused, kRefusingFault) = {
    .cause = "a call is refused where an element of q is larger than 4: the "
             "kernel is wrong there",
    .fix = "subtract the maximum of a row, and take every value",
    .killed_by = {"refusals_depend_on_form"},
};

QKVET_FAULT(backward_refuses_large_gradients, kRefusesGradients) = {
    .cause = "backward() refuses a call in which dO has a number above 4: the "
             "kernel is wrong there",
    .fix = "take every value",
    .killed_by = {"backward_refusals_depend_on_form"},
};

QKVET_FAULT(layer_refuses_large_tokens, kRefusesTokens) = {
    .cause = "a layer refuses a call in which x has a number above 4: the "
             "kernel is wrong there",
    .fix = "take every value",
    .killed_by = {"layer_refusals_depend_on_form"},
};

}  // namespace qkvet::impl

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

#include "impl/abi/tensor_view.h"
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
    if (given.struct_size != sizeof(args_)) {
      return;
    }
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
constexpr qkvet_kernel forgiving_fault(const char* name,
                                       const char* description, Place place) {
  qkvet_kernel kernel =
      option_fault<OptionHooks, kOptions>(name, description, place);
  kernel.supports = supports_forgiven<Fault>;
  kernel.forward = forward_forgiven<Fault>;
  return kernel;
}

}  // namespace

// What a mask has beyond Tk keys is left out.
struct MaskExtentUnchecked {
  using Args = Forgiven<MaskExtentUnchecked>;
  static void forgive(qkvet_forward_args& args, std::array<int64_t, 4>& shape) {
    const int64_t keys = args.k.shape[2];
    if (args.mask.ndim == 4 && args.mask.shape[3] > keys) {
      reshape(args.mask, shape, 3, keys);
    }
  }
};
QKVET_FAULT(mask_extent_unchecked) = {
    .kernel = forgiving_fault<MaskExtentUnchecked, QKVET_OPTION_MASK>,
    .mechanism = "a mask of more keys than there are is taken as it is",
    .symptom =
        "a mask that was made for another length hides other keys, and nobody "
        "is told",
    .cause =
        "the loops take their extents from k, and nothing compares the "
        "mask with them",
    .fix = "refuse a mask that is not [B, H, Tq, Tk], and name both shapes",
    .source = "facebookresearch/xformers#1122, flashinfer-ai/flashinfer#5271",
    .trigger = "a mask whose last extent is not Tk",
    .killed_by = {"malformed_calls_are_refused"},
    .when = "mistake == mask_extent",
};

// The number of keys is that of v, as far as k has them.
struct ValueTokensUnchecked {
  using Args = Forgiven<ValueTokensUnchecked>;
  static void forgive(qkvet_forward_args& args, std::array<int64_t, 4>& shape) {
    const int64_t keys = args.k.shape[2];
    if (args.v.shape[2] > keys) {
      reshape(args.v, shape, 2, keys);
    }
  }
};
QKVET_FAULT(value_tokens_unchecked) = {
    .kernel = forgiving_fault<ValueTokensUnchecked>,
    .mechanism = "v with more tokens than k is taken",
    .symptom =
        "keys and values of two lengths pass, and tokens are lost or memory "
        "behind k is read",
    .cause = "one count of tokens is read, of k or of v, and serves both",
    .fix = "refuse k and v of different lengths, and name both",
    .source = "pytorch/pytorch#193728",
    .trigger = "v with one token more than k",
    .killed_by = {"malformed_calls_are_refused"},
    .when = "mistake == input_rows",
};

// Where keys are wider than queries, their first d channels count.
struct KeyWidthUnchecked {
  using Args = Forgiven<KeyWidthUnchecked>;
  static void forgive(qkvet_forward_args& args, std::array<int64_t, 4>& shape) {
    const int64_t width = args.q.shape[3];
    if (args.k.shape[3] > width) {
      reshape(args.k, shape, 3, width);
    }
  }
};
QKVET_FAULT(key_width_unchecked) = {
    .kernel = forgiving_fault<KeyWidthUnchecked>,
    .mechanism = "channels of k beyond those of q are left out",
    .symptom = "keys of another model pass, and their scores mean nothing",
    .cause = "d is read off q, and k is not compared with it",
    .fix = "refuse q and k of different widths, and name both",
    .source = "textbook",
    .trigger = "k with more channels than q",
    .killed_by = {"malformed_calls_are_refused"},
    .when = "mistake == key_width",
};

// A field behind the struct as the kernel knows it is not looked at.
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
QKVET_FAULT(unknown_field_ignored) = {
    .kernel = forgiving_fault<UnknownFieldIgnored>,
    .mechanism = "a field that the kernel does not know is ignored",
    .symptom =
        "a newer caller asks for something, and is answered as if it had not",
    .cause = "the struct is read up to its known end, and no further",
    .fix = "refuse a struct that holds anything but zero behind its known end",
    .source = "vllm-project/vllm#46754 (a feature that is taken and ignored)",
    .trigger = "a field of a later version that is set",
    .killed_by = {"malformed_calls_are_refused"},
    .when = "mistake == unknown_field",
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
    for (int64_t n = 0; n < t->shape[0]; ++n) {
      list->numbers.push_back(*given.at(n, 0, 0));
    }
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
constexpr qkvet_kernel mending_fault(const char* name, const char* description,
                                     Place place) {
  qkvet_kernel kernel =
      option_fault<OptionHooks, kOptions>(name, description, place);
  kernel.forward = forward_forgiven<Fault>;
  return kernel;
}

}  // namespace

// Starts that fall are raised to the one before: those members are empty.
struct FallingStartsRaised {
  using Args = Mended<FallingStartsRaised>;
  static constexpr bool kStarts = true;
  static void mend(std::vector<int64_t>* starts, int64_t) {
    for (size_t n = 1; n < starts->size(); ++n) {
      (*starts)[n] = std::max((*starts)[n], (*starts)[n - 1]);
    }
  }
};
QKVET_FAULT(falling_starts_taken) = {
    .kernel = mending_fault<FallingStartsRaised, QKVET_OPTION_PACKED>,
    .mechanism = "members that end before they begin are taken as empty",
    .symptom =
        "starts of members in the wrong order lose tokens, and nobody is told",
    .cause = "a count of rows below 1 ends a loop, and nobody asks why",
    .fix = "refuse starts that fall, and name the member",
    .source =
        "sgl-project/sgl-flash-attn#47, local-inference-lab/b12x#155, "
        "cf. flashinfer-ai/flashinfer#4015",
    .trigger = "starts of members that fall",
    .killed_by = {"malformed_calls_are_refused"},
    .when = "mistake == offsets_fall",
};

// Where the first member begins is not read.
struct FirstStartUnread {
  using Args = Mended<FirstStartUnread>;
  static constexpr bool kStarts = true;
  static void mend(std::vector<int64_t>* starts, int64_t) {
    starts->front() = 0;
  }
};
QKVET_FAULT(first_start_unread) = {
    .kernel = mending_fault<FirstStartUnread, QKVET_OPTION_PACKED>,
    .mechanism = "the first member begins at row 0, whatever its start says",
    .symptom = "a slice of the starts of a larger batch gives its first rows",
    .cause = "the first number of a list of starts is known to be 0",
    .fix = "refuse a first start that is not 0",
    .source =
        "sgl-project/sgl-flash-attn#47, "
        "cf. flashinfer-ai/flashinfer#4015",
    .trigger = "a first start that is not 0",
    .killed_by = {"malformed_calls_are_refused"},
    .when = "mistake == offsets_start",
};

// Starts end with the rows.
struct StartsCutOff {
  using Args = Mended<StartsCutOff>;
  static constexpr bool kStarts = true;
  static void mend(std::vector<int64_t>* starts, int64_t rows) {
    for (int64_t& start : *starts) {
      start = std::min(start, rows);
    }
  }
};
QKVET_FAULT(starts_beyond_rows_cut) = {
    .kernel = mending_fault<StartsCutOff, QKVET_OPTION_PACKED>,
    .mechanism = "a member that ends behind the last row ends with it",
    .symptom = "starts of another batch pass, and its last tokens are lost",
    .cause = "the loop over rows ends with the tensor, which hides the mistake",
    .fix = "refuse starts beyond the rows, and name both numbers",
    .source =
        "sgl-project/sgl-flash-attn#47, NVIDIA/TensorRT-LLM#13919, "
        "cf. flashinfer-ai/flashinfer#4015",
    .trigger = "a last start beyond the rows",
    .killed_by = {"malformed_calls_are_refused"},
    .when = "mistake == offsets_end",
};

// A length beyond the rows counts as all of them.
struct LengthClamped {
  using Args = Mended<LengthClamped>;
  static constexpr bool kStarts = false;
  static void mend(std::vector<int64_t>* lengths, int64_t rows) {
    for (int64_t& length : *lengths) {
      length = std::min(length, rows);
    }
  }
};
QKVET_FAULT(length_beyond_clamped) = {
    .kernel = mending_fault<LengthClamped, QKVET_OPTION_LENGTHS>,
    .mechanism = "a length beyond the rows that there are counts as all rows",
    .symptom =
        "a sequence that has outgrown its cache goes on without its newest "
        "tokens, and nobody is told",
    .cause = "lengths are clamped so that nothing is read out of bounds",
    .fix = "refuse a length that does not fit, and name both numbers",
    .source =
        "vllm-project/vllm-ascend#9139, Dao-AILab/flash-attention#2711, "
        "cf. flashinfer-ai/flashinfer#4015",
    .trigger = "a length beyond the rows",
    .killed_by = {"malformed_calls_are_refused"},
    .when = "mistake == length_beyond",
};

// A negative length is 0.
struct NegativeLengthIsZero {
  using Args = Mended<NegativeLengthIsZero>;
  static constexpr bool kStarts = false;
  static void mend(std::vector<int64_t>* lengths, int64_t) {
    for (int64_t& length : *lengths) {
      length = std::max<int64_t>(length, 0);
    }
  }
};
QKVET_FAULT(negative_length_is_zero) = {
    .kernel = mending_fault<NegativeLengthIsZero, QKVET_OPTION_LENGTHS>,
    .mechanism = "a negative length counts as 0",
    .symptom =
        "a member whose length was computed wrongly is answered as one "
        "without tokens",
    .cause = "lengths are clamped so that nothing is read out of bounds",
    .fix = "refuse a negative length",
    .source = "microsoft/onnxruntime#28031, microsoft/onnxruntime#29240",
    .trigger = "a length below 0",
    .killed_by = {"malformed_calls_are_refused"},
    .when = "mistake == length_negative",
};

// Lengths of any rank are read as a list.
struct LengthsRankUnchecked {
  using Args = Forgiven<LengthsRankUnchecked>;
  static void forgive(qkvet_forward_args& args, std::array<int64_t, 4>&) {
    for (qkvet_tensor* t : {&args.q_len, &args.kv_len}) {
      if (t->ndim == 2 && t->shape != nullptr && t->shape[1] == 1) {
        t->ndim = 1;
      }
    }
  }
};
QKVET_FAULT(lengths_rank_unchecked) = {
    .kernel = forgiving_fault<LengthsRankUnchecked, QKVET_OPTION_LENGTHS>,
    .mechanism = "lengths of two dimensions are taken for a list",
    .symptom =
        "a matrix of lengths passes as long as its second extent is 1, and is "
        "read wrongly when it is not",
    .cause = "the elements of a tensor are counted, and its dimensions are not",
    .fix = "refuse lengths that are not [B]",
    .source = "NVIDIA/TransformerEngine#3351 (what a check was added for)",
    .trigger = "lengths as [B, 1]",
    .killed_by = {"malformed_calls_are_refused"},
    .when = "mistake == lengths_rank",
};

// Of lengths beside a packed batch nothing is read.
struct LengthsBesideStartsIgnored {
  using Args = Forgiven<LengthsBesideStartsIgnored>;
  static void forgive(qkvet_forward_args& args, std::array<int64_t, 4>&) {
    if (args.cu_seqlens_q.ndim == 1) {
      args.q_len = {};
    }
  }
};
QKVET_FAULT(lengths_beside_starts_ignored) = {
    .kernel = forgiving_fault<LengthsBesideStartsIgnored,
                              QKVET_OPTION_PACKED | QKVET_OPTION_LENGTHS>,
    .mechanism = "lengths that come beside the starts of members are ignored",
    .symptom =
        "of two descriptions of one batch the kernel takes one, and the caller "
        "may have meant the other",
    .cause = "the branch for packed batches is asked first",
    .fix = "refuse a call that has both",
    .source = "vllm-project/vllm#46754 (a field that is taken and ignored)",
    .trigger = "starts of members, and lengths beside them",
    .killed_by = {"malformed_calls_are_refused"},
    .when = "mistake == both_forms",
};

namespace {

// Whether some number of a tensor [a, b, c, d] or [b, c, d] is beyond what the
// kernel was tried with, in f32.
bool has_large_number(const qkvet_tensor& tensor) {
  constexpr float kTried = 4;
  constexpr uint8_t kFloatBits = 32;
  if (tensor.ndim < 3 || tensor.ndim > 4 || tensor.dtype.bits != kFloatBits) {
    return false;
  }
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
          if (std::fabs(first[at]) > kTried) {
            return true;
          }
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

constexpr qkvet_kernel refusing_fault(const char* name, const char* description,
                                      Place place) {
  qkvet_kernel kernel = option_fault<OptionHooks>(name, description, place);
  kernel.supports = supports_small_queries;
  return kernel;
}

using RightBackward =
    BackwardKernel<PlainBackward, BackwardRows<PlainBackward>::piece>;

qkvet_status backward_of_small_gradients(const qkvet_kernel* self,
                                         qkvet_context* context,
                                         const qkvet_backward_args* args,
                                         const qkvet_exec* exec,
                                         qkvet_text* why) {
  const qkvet_status status = refuse_large(args->d_o, QKVET_OK, why);
  return status == QKVET_OK
             ? RightBackward::backward(self, context, args, exec, why)
             : status;
}

constexpr qkvet_backward_table kRefusingBackward =
    backward_table(backward_of_small_gradients);

constexpr qkvet_kernel refusing_backward(const char* name,
                                         const char* description, Place place) {
  return with_backward(option_fault<OptionHooks>(name, description, place),
                       &kRefusingBackward);
}

qkvet_status layer_of_small_tokens(const qkvet_kernel* self,
                                   qkvet_context* context,
                                   const qkvet_layer_args* args,
                                   const qkvet_exec* exec, qkvet_text* why) {
  const qkvet_status status = refuse_large(args->x, QKVET_OK, why);
  return status == QKVET_OK ? LayerSkeleton<PlainLayer>::forward(
                                  self, context, args, exec, why)
                            : status;
}

constexpr qkvet_layer_table kRefusingLayer =
    layer_table(layer_of_small_tokens, kF32);

constexpr qkvet_kernel refusing_layer(const char* name, const char* description,
                                      Place place) {
  return layer_kernel(name, description, place, &kLayerPrecision,
                      &kRefusingLayer);
}

}  // namespace

QKVET_FAULT(large_queries_refused) = {
    .kernel = refusing_fault,
    .mechanism = "a call is refused where an element of q is larger than 4",
    .symptom =
        "right wherever it answers; a server that has checked the form of its "
        "calls meets one that is refused",
    .cause = "values for which the kernel is wrong are refused, and not mended",
    .fix = "subtract the maximum of a row, and take every value",
    .source = "textbook",
    .trigger = "an element of q that is larger than 4",
    .killed_by = {"refusals_depend_on_form"},
    .when = "",
};

QKVET_FAULT(backward_refuses_large_gradients) = {
    .kernel = refusing_backward,
    .mechanism = "backward() refuses a call in which dO has a number above 4",
    .symptom =
        "gradients are right wherever they are answered; a step of training "
        "with a large loss has none",
    .cause = "values for which the kernel is wrong are refused, and not mended",
    .fix = "take every value",
    .source = "textbook",
    .trigger = "an element of dO that is larger than 4",
    .killed_by = {"backward_refusals_depend_on_form"},
    .when = "",
};

QKVET_FAULT(layer_refuses_large_tokens) = {
    .kernel = refusing_layer,
    .mechanism = "a layer refuses a call in which x has a number above 4",
    .symptom =
        "layers are right wherever they answer; tokens with a massive "
        "activation have no answer",
    .cause = "values for which the kernel is wrong are refused, and not mended",
    .fix = "take every value",
    .source = "textbook",
    .trigger = "an element of x that is larger than 4",
    .killed_by = {"layer_refusals_depend_on_form"},
    .when = "",
};

}  // namespace qkvet::impl

// SPDX-License-Identifier: Apache-2.0
// Faults of what is not looked at before the work begins: calls whose tensors
// contradict each other, and fields that a newer caller sets. The call is made
// to fit in front of a right kernel, so that the fault stays inside its
// tensors.
#include <algorithm>
#include <array>
#include <cstring>

#include "impl/faulty/kernels.h"

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

}  // namespace qkvet::impl

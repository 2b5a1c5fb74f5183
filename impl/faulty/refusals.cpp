// SPDX-License-Identifier: Apache-2.0
// Faults in what a kernel refuses.
#include <cmath>

#include "impl/abi/tensor_view.h"
#include "impl/faulty/kernels.h"
#include "impl/skeletons/layer_skeleton.h"

namespace qkvet::impl {
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

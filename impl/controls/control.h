// SPDX-License-Identifier: Apache-2.0
// The definition of controls: rows of the table, and controls in code.
#ifndef QKVET_IMPL_CONTROLS_CONTROL_H_
#define QKVET_IMPL_CONTROLS_CONTROL_H_

#include "impl/call/collected.h"
#include "impl/call/declare.h"
#include "impl/controls/arithmetic.h"
#include "impl/controls/declared.h"
#include "impl/controls/engine.h"
#include "impl/skeletons/option_hooks.h"
#include "impl/skeletons/row_skeleton.h"

namespace qkvet::impl {

template <const Arithmetic& kArithmetic>
inline constexpr qkvet_precision kDeclaredPrecision =
    declared_precision(kArithmetic);
template <const Arithmetic& kArithmetic>
inline constexpr qkvet_dialect kDeclaredDialect = declared_dialect(kArithmetic);
// The declaration of an author who has not read about dialects.
inline constexpr qkvet_dialect kNothingSaid = [] {
  qkvet_dialect d = {};
  d.struct_size = sizeof(d);
  return d;
}();
template <const Arithmetic& kArithmetic>
inline constexpr qkvet_capabilities kDeclaredCapabilities =
    declared_capabilities(kArithmetic);

// A kernel before it has a name (QKVET_CONTROL).
constexpr qkvet_kernel kernel_of(ForwardFunction forward,
                                 const qkvet_precision* precision,
                                 const qkvet_capabilities* capabilities) {
  return plain_kernel("", "", {}, precision, forward, capabilities);
}

using SupportsFunction = decltype(qkvet_kernel::supports);

// Capabilities with more flags.
constexpr qkvet_capabilities flagged(qkvet_capabilities c, uint64_t flags) {
  c.flags |= flags;
  return c;
}

// If the family is configured for a storage type, tensors are f32 even if the
// kernel declares others.
template <ForwardFunction kForward>
qkvet_status forward_configured(const qkvet_kernel* self,
                                qkvet_context* context,
                                const qkvet_forward_args* args,
                                const qkvet_exec* exec, qkvet_text* why) {
  if (!deviation().storage.has_value()) {
    return kForward(self, context, args, exec, why);
  }
  const qkvet_capabilities can =
      capabilities_with(self->capabilities->options, {kF32});
  qkvet_kernel widened = *self;
  widened.capabilities = &can;
  return kForward(&widened, context, args, exec, why);
}

// A kernel that consists of its arithmetic only.
template <const Arithmetic& kArithmetic>
constexpr qkvet_kernel kArithmeticKernel = [] {
  static_assert(is_computable(kArithmetic));
  return with(
      kernel_of(walks_hidden_keys(kArithmetic)
                    ? kRowForward<ControlledOverAll>
                    : forward_configured<kRowForward<Controlled>>,
                &kDeclaredPrecision<kArithmetic>,
                &kDeclaredCapabilities<kArithmetic>),
      &qkvet_kernel::dialect,
      kArithmetic.says_nothing ? &kNothingSaid : &kDeclaredDialect<kArithmetic>,
      &qkvet_kernel::user, const_cast<Arithmetic*>(&kArithmetic));
}();

// A call with the arithmetic of another row than that of the kernel.
inline qkvet_status forward_as(const Arithmetic& arithmetic,
                               const qkvet_kernel* self, qkvet_context* context,
                               const qkvet_forward_args* args,
                               const qkvet_exec* exec, qkvet_text* why) {
  const qkvet_kernel chosen =
      with(*self, &qkvet_kernel::user, const_cast<Arithmetic*>(&arithmetic));
  return kRowForward<Controlled>(&chosen, context, args, exec, why);
}

// A forward() that begins with the checks of supports().
template <ForwardFunction kForward, SupportsFunction kSupports>
qkvet_status forward_if(const qkvet_kernel* self, qkvet_context* context,
                        const qkvet_forward_args* args, const qkvet_exec* exec,
                        qkvet_text* why) {
  QKVET_TRY(kSupports(self, args, why));
  return kForward(self, context, args, exec, why);
}

// acc += weight times the value of key j.
inline void add_value(const ForwardCall& call, RowAt at, int64_t j,
                      float weight, float* acc) {
  const float* const v = call.v.at(at.b, at.h / call.group(), j);
  for (int64_t c = 0; c < call.value_width; ++c) {
    acc[c] += weight * v[c * call.v.step[3]];
  }
}

// Writes a row; `any`: it sees a key.
inline void write_sums(const ForwardCall& call, RowAt at, bool any,
                       const float* acc, float sum, float lse) {
  float* const o = call.o.at(at.b, at.h, at.i);
  for (int64_t c = 0; c < call.value_width; ++c) {
    o[c * call.o.step[3]] = any ? acc[c] / sum : 0;
  }
  if (call.lse.data != nullptr) {
    *call.lse.at(at.b, at.h, at.i) = any ? lse : -kInfinity;
  }
}

// For kernels that compute rows inside of caches and pages.
template <const Arithmetic& kArithmetic>
qkvet_status compute_arithmetic(const ForwardCall& call, qkvet_text* why) {
  ForwardCall own = call;
  own.user = &kArithmetic;
  return compute_rows<Controlled>(own, why);
}

}  // namespace qkvet::impl

// A control: its name, what it is, its kernel, and other values of fields of
// that kernel (with()).
#define QKVET_CONTROL(control, what, ...)                                \
  extern const qkvet_kernel controls_##control;                          \
  QKVET_COLLECT(controls_##control);                                     \
  extern constinit const qkvet_kernel controls_##control =               \
      with(with(__VA_ARGS__), &qkvet_kernel::name, "controls/" #control, \
           &qkvet_kernel::description, what, &qkvet_kernel::source_file, \
           __FILE__, &qkvet_kernel::source_line, __LINE__)

// A row of the table: name, description, and the differences from the plainest
// arithmetic (arithmetic.h).
#define QKVET_ARITHMETIC(name, description, ...)   \
  namespace {                                      \
  constexpr Arithmetic name##_row = {__VA_ARGS__}; \
  }                                                \
  QKVET_CONTROL(name, description, kArithmeticKernel<name##_row>);

#endif  // QKVET_IMPL_CONTROLS_CONTROL_H_

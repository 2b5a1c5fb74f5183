// SPDX-License-Identifier: Apache-2.0
// The definition of controls: rows of the table, and controls in code.
#ifndef QKVET_IMPL_CONTROLS_CONTROL_H_
#define QKVET_IMPL_CONTROLS_CONTROL_H_

#include "impl/abi/collected.h"
#include "impl/abi/declare.h"
#include "impl/controls/arithmetic.h"
#include "impl/controls/declared.h"
#include "impl/controls/engine.h"
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
constexpr qkvet_kernel arithmetic_kernel(const char* name,
                                         const char* description, Place place) {
  static_assert(is_computable(kArithmetic));
  qkvet_kernel kernel =
      plain_kernel(name, description, place, &kDeclaredPrecision<kArithmetic>,
                   walks_hidden_keys(kArithmetic)
                       ? kRowForward<ControlledOverAll>
                       : forward_configured<kRowForward<Controlled>>,
                   &kDeclaredCapabilities<kArithmetic>);
  kernel.dialect =
      kArithmetic.says_nothing ? &kNothingSaid : &kDeclaredDialect<kArithmetic>;
  kernel.user = const_cast<Arithmetic*>(&kArithmetic);  // never written
  return kernel;
}

// For kernels that compute rows inside of caches and pages.
template <const Arithmetic& kArithmetic>
qkvet_status compute_arithmetic(const ForwardCall& call, qkvet_text* why) {
  ForwardCall own = call;
  own.user = &kArithmetic;
  return compute_rows<Controlled>(own, why);
}

}  // namespace qkvet::impl

// A control in code: QKVET_CONTROL(name) = ...;
#define QKVET_CONTROL(name)                  \
  extern const qkvet_kernel controls_##name; \
  QKVET_COLLECT(controls_##name);            \
  extern constinit const qkvet_kernel controls_##name

// The source position of a control.
#define QKVET_PLACE \
  { __FILE__, __LINE__ }

// A row of the table: name, description, and the differences from the plainest
// arithmetic (arithmetic.h).
#define QKVET_ARITHMETIC(name, description, ...)       \
  namespace {                                          \
  constexpr Arithmetic name##_row = {__VA_ARGS__};     \
  }                                                    \
  QKVET_CONTROL(name) = arithmetic_kernel<name##_row>( \
      "controls/" #name, description, QKVET_PLACE);

#endif  // QKVET_IMPL_CONTROLS_CONTROL_H_

// SPDX-License-Identifier: Apache-2.0
// Declarations shared by the kernels of this tree: the options that all of them
// have, and the arithmetic of the plainest one, from which the others differ by
// single knobs.
#ifndef QKVET_IMPL_CALL_DECLARE_H_
#define QKVET_IMPL_CALL_DECLARE_H_

#include <cstdint>
#include <initializer_list>

#include "impl/call/forward_view.h"
#include "impl/call/tensor_view.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

// The unit roundoff of f32.
inline constexpr double kUnit = 0x1p-24;

// expf, exp2f: glibc states 0.502 ulp, at most 1.004 units; 1.01 covers it.
inline constexpr double kLibmExpError = 1.01 * kUnit;
// They underflow gradually: off by at most one subnormal step.
inline constexpr double kLibmExpFloor = 0x1p-149;
// A vector exp that ends at about 2^-125.5 instead of going subnormal.
inline constexpr double kClampedExpFloor = 0x1p-125;
// s - m rounds once.
inline constexpr double kArgSubtraction = 1;
// acc / l rounds once; acc * (1 / l) twice.
inline constexpr double kNormDivision = 1;
inline constexpr double kNormReciprocal = 2;
// default_scale() rounds once.
inline constexpr double kDefaultScaleError = 1;

// One lane, ascending: q.k adds k = 0, 1, ...; P v and the denominator add
// keys 0, 1, ... Products are rounded before they are added. The score is
// multiplied by the scale once. All keys in one part, their maximum known
// before the first exponential. Weights are divided by their sum at the end.
constexpr qkvet_precision sequential_f32() {
  qkvet_precision p = {};
  p.struct_size = sizeof(p);
  p.preset = QKVET_PRECISION_CPU_F32;
  p.declared = QKVET_KNOB_ACCUMULATOR_U | QKVET_KNOB_DOT_SUM |
               QKVET_KNOB_VALUE_SUM | QKVET_KNOB_FMA | QKVET_KNOB_SCALE_STAGE |
               QKVET_KNOB_EXP_ERROR | QKVET_KNOB_ARG_ROUNDINGS |
               QKVET_KNOB_REF_ROUNDINGS | QKVET_KNOB_TILE | QKVET_KNOB_LAZY |
               QKVET_KNOB_SPLITS | QKVET_KNOB_NORM | QKVET_KNOB_FTZ |
               QKVET_KNOB_DEFAULT_SCALE_ERROR;
  p.accumulator_u = kUnit;
  p.dot_sum = QKVET_SUM_LANES;
  p.dot_lanes = 1;
  p.value_sum = QKVET_SUM_LANES;
  p.fma = 0;
  p.scale_stage = QKVET_SCALE_AFTER_DOT;
  p.tile = 0;
  p.exp_error = kLibmExpError;
  p.exp_floor = kLibmExpFloor;
  p.arg_roundings = kArgSubtraction;
  p.ref_roundings = 0;
  p.lazy = 0;
  p.splits = 1;
  p.merge = QKVET_MERGE_NONE;
  p.norm_roundings = kNormDivision;
  p.norm_first = 0;
  p.ftz = 0;
  p.default_scale_error = kDefaultScaleError;
  return p;
}

inline constexpr uint64_t kCommonOptions =
    QKVET_OPTION_CAUSAL_TOP_LEFT | QKVET_OPTION_CAUSAL_BOTTOM_RIGHT |
    QKVET_OPTION_SCALE | QKVET_OPTION_DEFAULT_SCALE | QKVET_OPTION_LSE |
    QKVET_OPTION_GROUPED_HEADS | QKVET_OPTION_VALUE_WIDTH |
    QKVET_OPTION_CROSS_LENGTHS;

inline constexpr uint64_t kRotations =
    QKVET_OPTION_ROPE | QKVET_OPTION_ROPE_PART;
// Options that need no code in a kernel, thanks to members.h, list_keys(),
// in_f32.h and row_skeleton.h: the visible pairs, and rotated q and k.
inline constexpr uint64_t kPairOptions =
    QKVET_OPTION_WINDOW | QKVET_OPTION_MASK | QKVET_OPTION_LENGTHS |
    QKVET_OPTION_PACKED | QKVET_OPTION_EMPTY_EXTENTS | kRotations;
// The same for arithmetic that calls list_keys() or allows() for each pair.
inline constexpr uint64_t kListOptions = QKVET_OPTION_KEY_LISTS |
                                         QKVET_OPTION_KEY_LIST_LENGTHS |
                                         QKVET_OPTION_KEY_LIST_BLOCKS;
// The same for segments, ranges, chunks and trees.
inline constexpr uint64_t kFieldOptions =
    QKVET_OPTION_SEGMENTS | QKVET_OPTION_FULL_RANGES | QKVET_OPTION_CHUNK |
    QKVET_OPTION_TREE_MASK;
// Options that the arithmetic itself must implement.
inline constexpr uint64_t kScoreOptions =
    QKVET_OPTION_BIAS | QKVET_OPTION_SOFTCAP | QKVET_OPTION_ALIBI |
    QKVET_OPTION_ALIBI_PER_MEMBER;
inline constexpr uint64_t kAllOptions =
    kCommonOptions | kPairOptions | kScoreOptions | QKVET_OPTION_SINK;

inline constexpr uint64_t kDropoutOptions =
    QKVET_OPTION_DROPOUT | QKVET_OPTION_DROPOUT_MASK;

// Claims of every kernel here: the bits of a row depend only on what it sees, a
// power of two changes exponents only, and malformed calls are refused
// (forward_view.h).
inline constexpr uint64_t kOwnClaims = QKVET_FLAG_OTHER_DATA_INVARIANT |
                                       QKVET_FLAG_POWER_OF_TWO_INVARIANT |
                                       QKVET_FLAG_REFUSES_MALFORMED;

// Any strides, positive extents (or none of B, Tq, Tk, where declared), CPU,
// addresses aligned to elements; q, k, v and o all of one of `types`.
constexpr qkvet_capabilities capabilities_with(
    uint64_t options, std::initializer_list<qkvet_dtype> types) {
  qkvet_capabilities c = {};
  c.struct_size = sizeof(c);
  c.options = options;
  c.flags = QKVET_FLAG_REENTRANT | QKVET_FLAG_ALLOCATES | kOwnClaims;
  c.layouts = QKVET_LAYOUT_BHTD | QKVET_LAYOUT_BTHD | QKVET_LAYOUT_ANY_STRIDES;
  c.devices = uint64_t{1} << QKVET_DEVICE_CPU;
  for (const qkvet_dtype& type : types) {
    c.dtypes[c.dtype_count++] = {type, type, type};
  }
  return c;
}

// The same with the extents at which a kernel changes its path.
constexpr qkvet_capabilities with_paths(
    qkvet_capabilities c, std::initializer_list<qkvet_path> paths) {
  for (const qkvet_path& path : paths) {
    c.paths[c.path_count++] = path;
  }
  return c;
}

// Without options: the skeletons of the faults, of caches and of layers.
inline constexpr qkvet_capabilities kCommonCapabilities =
    capabilities_with(kCommonOptions, {kF32, kF16, kBf16});
inline constexpr qkvet_capabilities kF32Capabilities =
    capabilities_with(kCommonOptions, {kF32});
inline constexpr qkvet_capabilities kHalfCapabilities =
    capabilities_with(kCommonOptions, {kF16, kBf16});
inline constexpr qkvet_capabilities kBf16Capabilities =
    capabilities_with(kCommonOptions, {kBf16});

// All options.
inline constexpr qkvet_capabilities kAllListsCapabilities = capabilities_with(
    kAllOptions | kListOptions | kFieldOptions | QKVET_OPTION_VALUES_IN_KEYS,
    {kF32, kF16, kBf16});
inline constexpr qkvet_capabilities kAllF32Capabilities =
    capabilities_with(kAllOptions, {kF32});

// Rows without a visible key give o = 0 and lse = -inf; masked keys never reach
// a sum, so their values do not matter.
constexpr qkvet_dialect common_dialect() {
  qkvet_dialect d = {};
  d.struct_size = sizeof(d);
  d.empty_row = QKVET_EMPTY_ROW_ZERO;
  d.lse_base = QKVET_LSE_NATURAL;
  d.empty_row_lse = QKVET_EMPTY_LSE_MINUS_INF;
  d.masked_nonfinite = QKVET_MASKED_IGNORED;
  return d;
}

inline constexpr qkvet_dialect kCommonDialect = common_dialect();

// The same for a sink without keys; softcap before bias and ALiBi, the sink
// counts in lse, a mask and the causal rule both hold, and a range overrides a
// window.
constexpr qkvet_dialect options_dialect() {
  qkvet_dialect d = common_dialect();
  d.softcap_order = QKVET_SOFTCAP_BEFORE_MASK;
  d.sink_in_lse = QKVET_SINK_IN_LSE;
  d.mask_and_causal = QKVET_MASK_AND_CAUSAL_BOTH;
  d.ranges_and_window = QKVET_RANGES_OVER_WINDOW;
  return d;
}

inline constexpr qkvet_dialect kOptionsDialect = options_dialect();

// The source position of a kernel's definition.
struct Place {
  const char* file;
  int line;
};

using ForwardFunction = qkvet_status (*)(const qkvet_kernel*, qkvet_context*,
                                         const qkvet_forward_args*,
                                         const qkvet_exec*, qkvet_text*);

// A kernel that needs no context, with the dialect of its options.
constexpr qkvet_kernel plain_kernel(
    const char* name, const char* description, Place place,
    const qkvet_precision* precision, ForwardFunction forward,
    const qkvet_capabilities* capabilities = &kCommonCapabilities) {
  qkvet_kernel kernel = {};
  kernel.struct_size = sizeof(kernel);
  kernel.name = name;
  kernel.description = description;
  kernel.source_file = place.file;
  kernel.source_line = place.line;
  kernel.capabilities = capabilities;
  kernel.dialect = (capabilities->options & kPairOptions) != 0
                       ? &kOptionsDialect
                       : &kCommonDialect;
  kernel.precision = precision;
  kernel.supports = supports_forward;
  kernel.forward = forward;
  return kernel;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CALL_DECLARE_H_

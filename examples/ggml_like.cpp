// SPDX-License-Identifier: Apache-2.0
// A wrapper around a function with other conventions than ours, as ggml's
// flash attention has them: extents listed from the innermost on, strides in
// bytes, one mask tensor instead of a causal flag, its rows padded, and a
// result with heads and rows exchanged. The wrapper is what is judged with it,
// so f16 in, f32 out of the function, and f16 again for us.
//
// With -DBROKEN the wrapper is wrong about the mask: its rows are written one
// behind the other, but the function skips to multiples of 32. Whoever tests
// with Tk = 32, 64, ... sees nothing.
#include <cmath>
#include <cstring>
#include <vector>

#include "qkvet/adapter.h"

namespace {

// ---- The function as its library has it ------------------------------------

// f16 without compiler support: exact both ways, to nearest even.
float from_half(uint16_t h) {
  const int exponent = h >> 10 & 31, fraction = h & 1023;
  const float size = exponent == 31 ? (fraction != 0 ? NAN : INFINITY)
                     : exponent > 0
                         ? std::ldexp(float(1024 + fraction), exponent - 25)
                         : std::ldexp(float(fraction), -24);
  return (h & 0x8000) != 0 ? -size : size;
}
uint16_t to_half(float x) {
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const float size = std::fabs(x);
  if (std::isnan(x)) return sign | 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  int exponent = 0;
  std::frexp(size, &exponent);
  // The step between neighbours of this size; no smaller than 2^-24.
  if (size == 0 || exponent < -13) exponent = -13;
  const auto steps =
      static_cast<int>(std::nearbyint(std::ldexp(size, 11 - exponent)));
  return static_cast<uint16_t>(sign + ((exponent + 13) << 10) + steps);
}

struct GgmlLikeTensor {
  int64_t ne[4];  // extents, innermost first
  size_t nb[4];   // strides in bytes
  void* data;

  char* at(int64_t i1, int64_t i2, int64_t i3) const {
    return static_cast<char*>(data) + i1 * nb[1] + i2 * nb[2] + i3 * nb[3];
  }
};
constexpr int64_t kMaskPad = 32;  // rows of the mask end on a multiple of it

// q [d, Tq, H, B] f32; k, v [d, Tk, Hkv, B] f16; mask [Tk, Tq] f16, added to
// the scores; o [dv, H, Tq, B] f32, heads inside of rows.
void ggml_like_attention(const GgmlLikeTensor& q, const GgmlLikeTensor& k,
                         const GgmlLikeTensor& v, const GgmlLikeTensor* mask,
                         const GgmlLikeTensor& o, float scale) {
  const int64_t d = q.ne[0], Tk = k.ne[1], dv = v.ne[0];
  std::vector<float> s(Tk);
  for (int64_t b = 0; b < q.ne[3]; ++b)
    for (int64_t h = 0; h < q.ne[2]; ++h)
      for (int64_t i = 0; i < q.ne[1]; ++i) {
        const int64_t g = h / (q.ne[2] / k.ne[2]);
        const auto* query = reinterpret_cast<const float*>(q.at(i, h, b));
        float max = -INFINITY, sum = 0;
        for (int64_t j = 0; j < Tk; ++j) {
          const auto* key = reinterpret_cast<const uint16_t*>(k.at(j, g, b));
          s[j] = 0;
          for (int64_t c = 0; c < d; ++c) s[j] += query[c] * from_half(key[c]);
          s[j] *= scale;
          if (mask != nullptr)
            s[j] += from_half(
                reinterpret_cast<const uint16_t*>(mask->at(i, 0, 0))[j]);
          max = std::fmax(max, s[j]);
        }
        auto* out = reinterpret_cast<float*>(o.at(h, i, b));
        std::fill(out, out + dv, 0.0f);
        if (max == -INFINITY) continue;  // sees no key
        for (int64_t j = 0; j < Tk; ++j) {
          if (s[j] == -INFINITY) continue;
          const auto* value = reinterpret_cast<const uint16_t*>(v.at(j, g, b));
          const float p = std::exp(s[j] - max);
          sum += p;
          for (int64_t c = 0; c < dv; ++c) out[c] += p * from_half(value[c]);
        }
        for (int64_t c = 0; c < dv; ++c) out[c] /= sum;
      }
}

// ---- The wrapper -----------------------------------------------------------

// Our [B, H, T, d] in f16 as their tensor; nothing is copied.
GgmlLikeTensor lend(const qkvet_tensor& t) {
  GgmlLikeTensor lent = {};
  for (int axis = 0; axis < 4; ++axis) {
    lent.ne[axis] = t.shape[3 - axis];
    // The stride of an extent of 1 may be any number.
    if (lent.ne[axis] > 1) lent.nb[axis] = 2 * t.strides[3 - axis];
  }
  lent.data = static_cast<char*>(t.data) + t.byte_offset;
  return lent;
}

// A contiguous tensor of theirs in memory of ours.
template <class Element>
GgmlLikeTensor make(std::vector<Element>& memory, int64_t n0, int64_t n1,
                    int64_t n2, int64_t n3) {
  memory.resize(n0 * n1 * n2 * n3);
  const size_t size = sizeof(Element);
  return {{n0, n1, n2, n3},
          {size, size * n0, size * n0 * n1, size * n0 * n1 * n2},
          memory.data()};
}

qkvet_status forward(const qkvet_kernel* self, qkvet_context*,
                     const qkvet_forward_args* args, const qkvet_exec*,
                     qkvet_text* why) {
  const qkvet_status status = qkvet_supports_declared(self, args, why);
  if (status != QKVET_OK) return status;
  const qkvet_forward_args& a = *args;
  const int64_t B = a.q.shape[0], H = a.q.shape[1], Tq = a.q.shape[2];
  const int64_t d = a.q.shape[3], Tk = a.k.shape[2], dv = a.v.shape[3];

  // q in f32.
  std::vector<float> q_memory, o_memory;
  const GgmlLikeTensor half_q = lend(a.q);
  const GgmlLikeTensor q = make(q_memory, d, Tq, H, B);
  for (int64_t row = 0; row < B * H * Tq; ++row) {
    const auto* from = reinterpret_cast<const uint16_t*>(
        half_q.at(row % Tq, row / Tq % H, row / Tq / H));
    for (int64_t c = 0; c < d; ++c) q_memory[row * d + c] = from_half(from[c]);
  }

  // The mask: 0 where a row sees a key, -inf where it does not.
  std::vector<uint16_t> mask_memory;
  const int64_t padded = (Tk + kMaskPad - 1) / kMaskPad * kMaskPad;
  const GgmlLikeTensor mask = make(mask_memory, padded, Tq, 1, 1);
  const int64_t shift = a.causal == QKVET_CAUSAL_BOTTOM_RIGHT ? Tk - Tq : 0;
#ifndef BROKEN
  const int64_t row = padded;
#else
  const int64_t row = Tk;
#endif
  for (int64_t i = 0; i < Tq; ++i)
    for (int64_t j = 0; j < row; ++j)
      mask_memory[i * row + j] = j > i + shift ? to_half(-INFINITY) : 0;

  const GgmlLikeTensor o = make(o_memory, dv, H, Tq, B);
  const float scale = a.scale_given ? a.scale : 1 / std::sqrt(float(d));
  ggml_like_attention(q, lend(a.k), lend(a.v),
                      a.causal == QKVET_CAUSAL_NONE ? nullptr : &mask, o,
                      scale);

  // Heads and rows back in our order, in f16.
  const GgmlLikeTensor half_o = lend(a.o);
  for (int64_t row = 0; row < B * H * Tq; ++row) {
    const int64_t i = row % Tq, h = row / Tq % H, b = row / Tq / H;
    const auto* from = reinterpret_cast<const float*>(o.at(h, i, b));
    auto* to = reinterpret_cast<uint16_t*>(half_o.at(i, h, b));
    for (int64_t c = 0; c < dv; ++c) to[c] = to_half(from[c]);
  }
  return QKVET_OK;
}

// ---- What the library says of itself ---------------------------------------

const qkvet_capabilities kCapabilities = [] {
  const qkvet_dtype f16 = {QKVET_DTYPE_FLOAT, 16, 1};
  qkvet_capabilities c{};
  c.struct_size = sizeof c;
  c.options = QKVET_OPTION_CAUSAL_TOP_LEFT | QKVET_OPTION_CAUSAL_BOTTOM_RIGHT |
              QKVET_OPTION_SCALE | QKVET_OPTION_DEFAULT_SCALE |
              QKVET_OPTION_GROUPED_HEADS | QKVET_OPTION_VALUE_WIDTH |
              QKVET_OPTION_CROSS_LENGTHS;
  c.dtype_count = 1;
  c.dtypes[0] = {f16, f16, f16};
  return c;
}();

// The maximum is taken by comparisons, which a NaN loses: a row whose scores
// are all NaN has seen no key, and is 0.
const qkvet_dialect kDialect = [] {
  qkvet_dialect d{};
  d.struct_size = sizeof d;
  d.visible_nan = QKVET_VISIBLE_NAN_MAY_VANISH;
  return d;
}();

const qkvet_kernel kKernel = [] {
  qkvet_kernel kernel{};
  kernel.struct_size = sizeof kernel;
  kernel.name = "ggml_like/attention";
  kernel.description = "a wrapper around ggml's conventions";
  kernel.source_file = __FILE__;
  kernel.source_line = __LINE__;
  kernel.capabilities = &kCapabilities;
  kernel.dialect = &kDialect;
  kernel.supports = qkvet_supports_declared;
  kernel.forward = forward;
  return kernel;
}();

const qkvet_kernel* const kKernels[] = {&kKernel};

}  // namespace

extern "C" qkvet_status qkvet_open(const qkvet_host* host, const char* config,
                                   qkvet_library* out, qkvet_text* why) {
  return qkvet_open_kernels(host, config, out, why, "ggml_like", kKernels, 1);
}

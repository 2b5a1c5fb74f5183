// SPDX-License-Identifier: Apache-2.0
// The plumbing of every gradient here: checks the call, walks over members,
// heads and pieces of rows, converts them to f32 (exactly), rotates q and k if
// requested, passes each piece to an arithmetic
//
//   qkvet_status arithmetic(const BackwardPiece&, qkvet_context*, qkvet_text*)
//
// and writes the sums: dk and dv are summed in f32 over the heads of a group,
// and every gradient is rounded once. Hooks: backward_skeleton.h.
//
// Contract: any strides, addresses aligned to elements; outputs apart from
// inputs; reads and writes elements of the tensors only, and no rows or keys
// past the lengths. Unseen keys and rows without keys get 0; an arithmetic must
// not add the contents of hidden keys. Memory: (Hkv + 1) Tk (d + dv) + 128 (d +
// dv) floats, nothing in proportion to Tq Tk.
#ifndef QKVET_IMPL_SKELETONS_BACKWARD_KERNEL_H_
#define QKVET_IMPL_SKELETONS_BACKWARD_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>

#include "impl/call/backward_call.h"
#include "impl/skeletons/backward_piece.h"
#include "impl/skeletons/backward_skeleton.h"

namespace qkvet::impl {

// The tensors of a call, in f32 and contiguous.
struct BackwardMemory {
  std::unique_ptr<float[]> floats;
  std::unique_ptr<int64_t[]> keys;  // [Tk]
  float *k, *v;                     // [Tk, d], [Tk, dv] of a head
  float *d_k, *d_v;                 // [Hkv, Tk, d], [Hkv, Tk, dv] of a member
  float *q, *d_q;                   // [kBackwardRows, d]
  float *o, *d_o;                   // [kBackwardRows, dv]
  float *lse, *delta;               // [kBackwardRows]
  float* sink;                      // [H]
  float* scratch;                   // [kBackwardScratch, Tk]
};

inline bool make_memory(const ForwardCall& call, BackwardMemory* m) {
  const int64_t d = call.width, dv = call.value_width;
  const int64_t sizes[] = {call.keys * d,
                           call.keys * dv,
                           call.kv_heads * call.keys * d,
                           call.kv_heads * call.keys * dv,
                           kBackwardRows * d,
                           kBackwardRows * d,
                           kBackwardRows * dv,
                           kBackwardRows * dv,
                           kBackwardRows,
                           kBackwardRows,
                           call.heads,
                           kBackwardScratch * call.keys};
  float** const parts[] = {&m->k,   &m->v,     &m->d_k,  &m->d_v,
                           &m->q,   &m->d_q,   &m->o,    &m->d_o,
                           &m->lse, &m->delta, &m->sink, &m->scratch};
  int64_t all = 0;
  for (const int64_t size : sizes) {
    all += size;
  }
  m->floats.reset(new (std::nothrow) float[static_cast<size_t>(all)]);
  m->keys.reset(new (std::nothrow) int64_t[static_cast<size_t>(call.keys)]);
  float* next = m->floats.get();
  for (size_t n = 0; n < sizeof(sizes) / sizeof(sizes[0]); ++n) {
    *parts[n] = next;
    next += next == nullptr ? 0 : sizes[n];
  }
  return m->floats != nullptr && m->keys != nullptr;
}

// Rows [first, first + rows) of head h of member b.
inline void widen_rows(const Stored& from, int64_t b, int64_t h, int64_t first,
                       int64_t rows, int64_t width, float* to) {
  for (int64_t t = first; t < first + rows; ++t) {
    for (int64_t c = 0; c < width; ++c) {
      *to++ = from.get(b, h, t, c);
    }
  }
}

inline void set_all(float* to, int64_t n, float value) {
  for (int64_t c = 0; c < n; ++c) {
    to[c] = value;
  }
}

template <class Hooks, BackwardArithmetic kArithmetic>
struct BackwardKernel {
  // One call of the kernel.
  struct Work {
    BackwardMemory memory;
    int32_t threads;
    qkvet_context* context;
    qkvet_text* why;
  };

  static void write_row(const Stored& to, int64_t b, int64_t h, int64_t t,
                        const float* row, int64_t width) {
    const int64_t columns = Hooks::columns(width);
    for (int64_t c = 0; c < columns; ++c) {
      to.set(b, h, t, c, c < width ? row[c] : 0);
    }
  }

  static bool is_empty(const BackwardCall& call, int64_t b, int64_t h,
                       int64_t i, int64_t* keys) {
    const ForwardCall& f = call.forward;
    if (f.options.hides_pairs()) {
      return f.list_keys(b, h, i, keys) == 0;
    }
    const Run run = f.in_reach(i);
    return run.begin >= run.end;
  }

  // Clears gradients of hidden pairs, or of keys of other members.
  static void clear_bias(const BackwardCall& call, int64_t b, int64_t h,
                         int64_t first, int64_t rows) {
    if (!call.d_bias.present()) {
      return;
    }
    for (int64_t i = first; i < first + rows; ++i) {
      for (int64_t j = 0; j < call.all_keys; ++j) {
        call.d_bias.set(b, h, i, j, 0);
      }
    }
  }

  static BackwardPiece load_piece(const BackwardCall& call, const Work& work,
                                  int64_t b, int64_t h, int64_t first,
                                  int64_t rows) {
    const BackwardMemory& m = work.memory;
    const ForwardCall& f = call.forward;
    const int64_t d = f.width, dv = f.value_width;
    widen_rows(call.q, b, h, first, rows, d, m.q);
    widen_rows(call.o, b, h, first, rows, dv, m.o);
    widen_rows(call.d_o, b, h, first, rows, dv, m.d_o);
    if (f.options.rope.present()) {
      turn_rows(f.options.rope, f.options.rope.q, b, first, rows, d, m.q);
    }
    set_all(m.d_q, rows * d, 0);
    for (int64_t r = 0; r < rows; ++r) {
      m.lse[r] = *f.lse.at(b, h, first + r);
      m.delta[r] = Hooks::delta(f, m.d_o + r * dv, m.o + r * dv);
    }
    const int64_t key_head = Hooks::key_head(f, h);
    const int64_t value_head = Hooks::value_head(f, h);
    return {&f,
            b,
            h,
            first,
            rows,
            work.threads,
            false,
            m.q,
            m.k,
            m.v,
            m.d_o,
            m.lse,
            m.delta,
            m.d_q,
            m.d_k + key_head * f.keys * d,
            m.d_v + value_head * f.keys * dv,
            call.d_bias.from(b, h, first, call.first_key),
            m.scratch,
            m.keys.get()};
  }

  // Writes dq of the rows that count, and adds their part of d_sink.
  static void finish_piece(const BackwardCall& call, const Work& work,
                           const BackwardPiece& piece) {
    const ForwardCall& f = call.forward;
    const int64_t b = piece.b, h = piece.h, d = f.width;
    for (int64_t r = 0; r < piece.rows; ++r) {
      const int64_t i = piece.first + r;
      float* const row = piece.d_q + r * d;
      if (i >= f.queries) {
        break;
      }
      if (is_empty(call, b, h, i, piece.keys)) {
        set_all(row, d, Hooks::empty_row());
      } else if (f.options.sink.present()) {
        work.memory.sink[h] +=
            Hooks::sink(f.options.sink_of(h), piece.lse[r], piece.delta[r]);
      }
      for (int64_t c = 0; c < d; ++c) {
        row[c] *= Hooks::query_scale(f);
      }
      if (f.options.rope.present()) {
        Hooks::turn_query_back(f.options.rope, *f.options.rope.q.at(b, i, 0), d,
                               row);
      }
      write_row(call.d_q, b, h, i, row, d);
    }
  }

  static qkvet_status head(const BackwardCall& call, const Work& work,
                           int64_t b, int64_t h) {
    const ForwardCall& f = call.forward;
    const int64_t kv = h / f.group();
    const bool new_keys = h % f.group() == 0;
    if (new_keys) {
      widen_rows(call.k, b, kv, 0, f.keys, f.width, work.memory.k);
      widen_rows(call.v, b, kv, 0, f.keys, f.value_width, work.memory.v);
      if (f.options.rope.present()) {
        turn_rows(f.options.rope, f.options.rope.k, b, 0, f.keys, f.width,
                  work.memory.k);
      }
    }
    clear_bias(call, b, h, 0, f.queries);
    const int64_t all = Hooks::rows(f, call.row_room);
    for (int64_t first = 0; first < all; first += kBackwardRows) {
      const int64_t left = all - first;
      BackwardPiece piece = load_piece(
          call, work, b, h, first, left < kBackwardRows ? left : kBackwardRows);
      piece.new_keys = new_keys && first == 0;
      QKVET_TRY(kArithmetic(piece, work.context, work.why));
      finish_piece(call, work, piece);
    }
    return QKVET_OK;
  }

  static void write_keys(const BackwardCall& call, const Work& work,
                         int64_t b) {
    const ForwardCall& f = call.forward;
    const int64_t d = f.width, dv = f.value_width;
    float *d_k = work.memory.d_k, *d_v = work.memory.d_v;
    for (int64_t kv = 0; kv < f.kv_heads; ++kv) {
      for (int64_t j = 0; j < f.keys; ++j, d_k += d, d_v += dv) {
        for (int64_t c = 0; c < d; ++c) {
          d_k[c] *= Hooks::key_scale(f);
        }
        if (f.options.rope.present()) {
          Hooks::turn_key_back(f.options.rope, *f.options.rope.k.at(b, j, 0), d,
                               d_k);
        }
        write_row(call.d_k, b, kv, j, d_k, d);
        for (int64_t c = 0; c < Hooks::columns(dv); ++c) {
          const float value = c < dv ? d_v[Hooks::value_source(f, c)] : 0;
          call.d_v.set(b, kv, j, c, value);
        }
      }
    }
  }

  static qkvet_status member(const BackwardCall& call, const Work& work) {
    const ForwardCall& f = call.forward;
    const int64_t sums = f.kv_heads * f.keys;
    for (int64_t b = 0; b < f.batch; ++b) {
      const float none = f.queries == 0 ? Hooks::no_queries() : 0;
      set_all(work.memory.d_k, sums * f.width, none);
      set_all(work.memory.d_v, sums * f.value_width, none);
      for (int64_t h = 0; f.queries > 0 && h < f.heads; ++h) {
        QKVET_TRY(head(call, work, b, h));
      }
      write_keys(call, work, b);
    }
    return QKVET_OK;
  }

  static qkvet_status compute(const BackwardCall& call, int32_t threads,
                              qkvet_context* context, qkvet_text* why) {
    Work work = {{}, threads, context, why};
    if (!make_memory(call.forward, &work.memory)) {
      return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the gradients");
    }
    set_all(work.memory.sink, call.forward.heads, 0);
    write_dropout_mask(call.forward,
                       [&](int64_t b, int64_t h, int64_t i, int64_t j) {
                         return Hooks::keeps(call.forward, b, h, i, j);
                       });
    for (int64_t n = 0; n < member_count(call); ++n) {
      QKVET_TRY(member(member_of(call, n), work));
    }
    for (int64_t h = 0; call.d_sink.present() && h < call.forward.heads; ++h) {
      call.d_sink.set(h, 0, 0, 0, work.memory.sink[h]);
    }
    return QKVET_OK;
  }

  static qkvet_status backward(const qkvet_kernel* self, qkvet_context* context,
                               const qkvet_backward_args* args,
                               const qkvet_exec* exec, qkvet_text* why) {
    BackwardCall call;
    qkvet_exec known = {};
    QKVET_TRY(check_exec(exec, why));
    QKVET_TRY(read_backward(self, args, &call, why));
    if (exec != nullptr) {
      QKVET_TRY(read_struct(exec, &known, why));
    }
    return compute(call, known.threads, context, why);
  }
};

constexpr qkvet_backward_table backward_table(
    decltype(qkvet_backward_table::backward) backward) {
  qkvet_backward_table table = {};
  table.struct_size = sizeof(table);
  table.options = QKVET_BACKWARD_BIAS | QKVET_BACKWARD_SINK;
  table.backward = backward;
  return table;
}

template <class Hooks,
          BackwardArithmetic kArithmetic = BackwardRows<Hooks>::piece>
inline constexpr qkvet_backward_table kBackwardTable =
    backward_table(BackwardKernel<Hooks, kArithmetic>::backward);

// The same kernel with a gradient.
constexpr qkvet_kernel with_backward(qkvet_kernel kernel,
                                     const qkvet_backward_table* table) {
  kernel.backward = table;
  return kernel;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_BACKWARD_KERNEL_H_

// SPDX-License-Identifier: Apache-2.0
// The skeleton of kernels that serve by gathering: appends the new tokens,
// copies keys and values of a member out of its pages, and passes that member
// to an arithmetic that supports only rows (in_f32.h). Each decision is a hook,
// and a fault is a class that derives from ServingHooks and replaces one:
//
//   append    where new tokens are written          -> k, v, and their readers
//   attended  how many tokens a member has          -> which keys are seen
//   source    the slot that a token is read from    -> keys and values
//   channel   the place of a key's channel in it    -> keys
//   member    the computation for a member          -> anything
//
// Contract: that of serving_call.h; new tokens are stored as given, before any
// rotation; a refused call writes nothing. Cost: a copy of k and v; memory L (d
// + dv) Hkv elements of the longest member, and the memory that the arithmetic
// needs.
#ifndef QKVET_IMPL_SKELETONS_SERVING_SKELETON_H_
#define QKVET_IMPL_SKELETONS_SERVING_SKELETON_H_

#include <cstdint>
#include <memory>

#include "impl/call/declare.h"
#include "impl/call/in_f32.h"
#include "impl/call/members.h"
#include "impl/call/scratch.h"
#include "impl/call/serving_call.h"

namespace qkvet::impl {

struct ServingHooks {
  static void append(const ServingCall& s, int64_t b) {
    for (int64_t n = 0; n < s.new_tokens; ++n) {
      const Slot slot = s.slot(b, s.held(b) + n);
      store_new_key(s, b, n, slot);
      store_new_value(s, b, n, slot);
    }
  }
  static int64_t attended(const ServingCall& s, int64_t b) {
    return s.held(b) + s.new_tokens;
  }
  static Slot source(const ServingCall& s, int64_t b, int64_t token) {
    return s.slot(b, token);
  }
  static int64_t channel(const ServingCall& s, int64_t h, Slot slot,
                         int64_t c) {
    return s.key_at(h, slot, c);
  }
  static void member(const ServingCall&, int64_t /*b*/, ForwardCall*) {}
};

// The forward() of a kernel that serves: checks the call, appends the new
// tokens of all members, and computes one member after the other.
template <void (*kAppend)(const ServingCall&, int64_t b),
          qkvet_status (*kMember)(const ServingCall&, int64_t b, qkvet_text*)>
qkvet_status serve_members(const qkvet_kernel* self, qkvet_context*,
                           const qkvet_forward_args* args,
                           const qkvet_exec* exec, qkvet_text* why) {
  ServingCall s;
  QKVET_TRY(check_exec(exec, why));
  QKVET_TRY(read_serving(self, args, &s, why));
  QKVET_TRY(check_serving(&s, why));
  QKVET_TRY(check_positions(s.call, why));
  for (int64_t b = 0; b < s.members() && s.new_tokens > 0; ++b) {
    kAppend(s, b);
  }
  for (int64_t b = 0; b < s.members(); ++b) {
    QKVET_TRY(kMember(s, b, why));
  }
  return QKVET_OK;
}

template <class Hooks, ComputeF32 kCompute>
struct ServingKernel {
  // [Hkv, keys, d] in the storage type.
  template <class T>
  static void gather_keys(const ServingCall& s, int64_t b, int64_t keys,
                          T* to) {
    const T* const data = static_cast<const T*>(s.k.data);
    for (int64_t h = 0; h < s.call.kv_heads; ++h) {
      for (int64_t j = 0; j < keys; ++j) {
        const Slot slot = Hooks::source(s, b, j);
        for (int64_t c = 0; c < s.call.width; ++c) {
          *to++ = data[Hooks::channel(s, h, slot, c)];
        }
      }
    }
  }
  // [Hkv, keys, dv]
  template <class T>
  static void gather_values(const ServingCall& s, int64_t b, int64_t keys,
                            T* to) {
    const T* const data = static_cast<const T*>(s.v.data);
    for (int64_t h = 0; h < s.call.kv_heads; ++h) {
      for (int64_t j = 0; j < keys; ++j) {
        const Slot slot = Hooks::source(s, b, j);
        const T* const row = data + s.v.index(slot.block, h, slot.row, 0);
        for (int64_t c = 0; c < s.call.value_width; ++c) {
          *to++ = row[c * s.v.step[3]];
        }
      }
    }
  }

  template <class T>
  static void take(const ServingCall& s, int64_t b, char* memory,
                   ForwardCall* member, View<const T>* k, View<const T>* v) {
    const int64_t keys = member->keys, heads = s.call.kv_heads;
    const int64_t width = s.call.width, value_width = s.call.value_width;
    T* const k_rows = reinterpret_cast<T*>(memory);
    T* const v_rows = k_rows + heads * keys * width;
    gather_keys(s, b, keys, k_rows);
    gather_values(s, b, keys, v_rows);
    *k = {k_rows, {0, keys * width, width, 1}};
    *v = {v_rows, {0, keys * value_width, value_width, 1}};
  }

  // Queries of member b, with its keys copied out of their pages.
  static qkvet_status compute_gathered(const ServingCall& s, int64_t b,
                                       ForwardCall* queries, qkvet_text* why) {
    const int64_t bytes = queries->keys * s.call.kv_heads *
                          (s.call.width + s.call.value_width) *
                          bytes_of(s.call.storage);
    std::unique_ptr<char[]> memory;
    QKVET_TRY(allocate(bytes, &memory, why, "no memory to gather the pages"));
    if (s.call.storage == Storage::kF32) {
      take(s, b, memory.get(), queries, &queries->k, &queries->v);
    } else {
      take(s, b, memory.get(), queries, &queries->half.k, &queries->half.v);
    }
    return compute_in_f32(*queries, kCompute, why);
  }

  static qkvet_status compute_member(const ServingCall& s, int64_t b,
                                     qkvet_text* why) {
    ForwardCall member = served_member(s, b);
    const int64_t keys = Hooks::attended(s, b);
    member.diagonal += member.top_left ? 0 : keys - member.keys;
    member.keys = keys;
    Hooks::member(s, b, &member);
    return member.queries == 0 ? QKVET_OK
                               : compute_gathered(s, b, &member, why);
  }

  static constexpr ForwardFunction forward =
      serve_members<Hooks::append, compute_member>;
};

inline constexpr uint64_t kServingOptions =
    QKVET_OPTION_LENGTHS | QKVET_OPTION_PAGED | QKVET_OPTION_APPEND;

constexpr qkvet_kernel serving_kernel(const char* name, const char* description,
                                      Place place,
                                      const qkvet_precision* precision,
                                      ForwardFunction forward,
                                      const qkvet_capabilities* capabilities) {
  qkvet_kernel kernel =
      plain_kernel(name, description, place, precision, forward, capabilities);
  kernel.supports = supports_serving;
  return kernel;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_SERVING_SKELETON_H_

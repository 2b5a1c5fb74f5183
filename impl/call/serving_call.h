// SPDX-License-Identifier: Apache-2.0
// The serving form of a forward call, checked and typed: k and v as pages of a
// pool with a block table or lists of pages, and tokens that the kernel
// appends. A call without either is a serving call too: its tokens are rows of
// [B, Hkv, Tk, d]. In a packed batch over pages the members are those of
// cu_seqlens_q.
//
// Contract: that of forward_view.h. check_serving() checks the data (lengths,
// block tables) before anything is written; entries of a table after the pages
// of a member are ignored.
#ifndef QKVET_IMPL_CALL_SERVING_CALL_H_
#define QKVET_IMPL_CALL_SERVING_CALL_H_

#include <cstdint>
#include <memory>

#include "impl/call/forward_view.h"
#include "impl/call/tensor_view.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

// The place of a token: element [block, head, row, c] of k and v.
struct Slot {
  int64_t block = 0;
  int64_t row = 0;
};

struct ServingCall {
  // The call as for k and v [B, Hkv, Tk, d], without k and v. Lengths, after
  // check_serving(): all tokens of a member, including new ones.
  ForwardCall call;
  Stored k, v;  // [pages, Hkv, page_size, d], or [B, Hkv, Tk, d]; k.step[3] is
                // the step within a group of channels, if any
  Stored k_new, v_new;  // [members, Hkv, Tnew, d]
  int64_t new_tokens = 0;
  int64_t page_size = 0;   // 0: no pages
  int64_t group = 0;       // adjacent channels of k; 0: all
  int64_t group_step = 0;  // from one group to the next
  int64_t pages = 0;
  int64_t columns = 0;        // of the table
  View<const int32_t> table;  // [members, columns]
  // In the place of these and of `before`: the pages of member b are numbers
  // starts[b] .. starts[b + 1] - 1 of the list, and last[b] is how many tokens
  // the last of them has.
  View<const int32_t> starts, list, last;
  int64_t entries = 0;         // of the list
  View<const int64_t> before;  // kv_len [members], no data: Tk each
  // For call.options: kv_len [B], or cu_k [members + 1].
  std::unique_ptr<int64_t[]> all;
  // Lists of the call that are int32; check_serving() widens them: before that,
  // their views have the wrong width.
  struct NarrowList {
    View<const int32_t> given;
    int64_t count = 0;
    std::unique_ptr<int64_t[]> wide;
  };
  NarrowList narrow_q_len, narrow_kv_len, narrow_cu_q;

  bool packed() const { return call.options.cu_q.data != nullptr; }
  // Members of a packed batch, or B. b below counts them.
  int64_t members() const {
    return packed() ? call.options.members : call.batch;
  }
  bool csr() const { return starts.data != nullptr; }
  int64_t first_page(int64_t b) const { return *starts.at(b, 0, 0); }
  int64_t page_count(int64_t b) const {  // of csr()
    return first_page(b + 1) - first_page(b);
  }
  int64_t held(int64_t b) const {  // before the new ones
    if (csr()) {
      const int64_t count = page_count(b);
      return count == 0
                 ? -new_tokens
                 : (count - 1) * page_size + *last.at(b, 0, 0) - new_tokens;
    }
    return before.data != nullptr ? *before.at(b, 0, 0) : call.keys;
  }
  int64_t entry(int64_t b, int64_t column) const {
    return csr() ? *list.at(first_page(b) + column, 0, 0)
                 : table.data[b * table.step[0] + column * table.step[1]];
  }
  // The index in k of a channel of a key.
  int64_t key_at(int64_t h, Slot at, int64_t c) const {
    return group == 0 ? k.index(at.block, h, at.row, c)
                      : k.index(at.block, h, at.row, c % group) +
                            c / group * group_step;
  }
  Slot slot(int64_t b, int64_t token) const {
    return page_size == 0
               ? Slot{b, token}
               : Slot{entry(b, token / page_size), token % page_size};
  }
};

// Fills *serving or refuses: *why is then the reason.
qkvet_status read_serving(const qkvet_kernel* self,
                          const qkvet_forward_args* args, ServingCall* serving,
                          qkvet_text* why);

// Checks that lengths and tables are within the call; sets its lengths.
qkvet_status check_serving(ServingCall* serving, qkvet_text* why);

// The supports() of the kernels that serve.
qkvet_status supports_serving(const qkvet_kernel* self,
                              const qkvet_forward_args* args, qkvet_text* why);

// Member b of a call that check_serving() has passed, without k and v. In a
// packed batch its rows are those of cu_seqlens_q.
ForwardCall served_member(const ServingCall& serving, int64_t b);

// Copies token n of the new ones of member b to a slot, all heads.
void store_new_key(const ServingCall& serving, int64_t b, int64_t n, Slot to);
void store_new_value(const ServingCall& serving, int64_t b, int64_t n, Slot to);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CALL_SERVING_CALL_H_

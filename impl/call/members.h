// SPDX-License-Identifier: Apache-2.0
// Splits a call with lengths, or a packed batch, into one call for each member:
// only the rows and keys of that member, its own diagonal, no lengths left.
// Elements past the lengths are neither read nor written, except that the
// weights of a member's rows are 0 there.
#ifndef QKVET_IMPL_CALL_MEMBERS_H_
#define QKVET_IMPL_CALL_MEMBERS_H_

#include <cstdint>

#include "impl/call/forward_view.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

// Why the lengths of a call, which are data, are invalid: beyond the extents,
// or descending.
qkvet_status check_lengths(const ForwardCall& call, qkvet_text* why);

int64_t member_count(const ForwardCall& call);

// The position of a member in its call.
struct MemberExtent {
  int64_t b = 0;
  int64_t first_row = 0, rows = 0;
  int64_t first_key = 0, keys = 0;
};

// The extent of member n of a call that check_lengths() has passed.
MemberExtent extent_of(const ForwardCall& call, int64_t n);

// Member n of a call that check_lengths() has passed.
ForwardCall member_of(const ForwardCall& call, int64_t n);

// compute(call) for every member; a call without lengths is unchanged. Nothing
// is computed for a refused call.
template <class Compute>
qkvet_status compute_members(const ForwardCall& call, qkvet_text* why,
                             const Compute& compute) {
  if (!call.options.has_lengths()) {
    return compute(call);
  }
  QKVET_TRY(check_lengths(call, why));
  for (int64_t n = 0; n < member_count(call); ++n) {
    const ForwardCall member = member_of(call, n);
    if (member.queries > 0) {
      QKVET_TRY(compute(member));
    }
  }
  return QKVET_OK;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CALL_MEMBERS_H_

// SPDX-License-Identifier: Apache-2.0
// Cases of merges (merge.h of the ABI). A merge is attention with given scores:
// every row is a member with one query, its states are the keys, their o the
// values and their lse the bias on scores that are 0. So the oracle, its twin
// and the bound of attention are those of merges. B counts rows, Tk states, and
// kv_len the states of each row where they differ.
#ifndef QKVET_CORE_CASE_MERGE_H_
#define QKVET_CORE_CASE_MERGE_H_

#include <string>

#include "core/case/case.h"

namespace qkvet {

// Sets the extents, types and options that a merge requires: one query a row,
// no shared heads, one channel of zeros in q and k, and lse in f32, or in f64
// if the states are f64, with extents of its own.
void constrain_to_merge(Case& value);

// "" or what is wrong with a merge.
std::string merge_reason(const Case& value);

// States, lse, indptr and rows as a kernel gets them, of v and the bias as they
// are stored.
void fill_merge(const Case& value, Inputs& inputs);

// The same for a kernel with lse in base 2: its input is rounded in that base,
// and the bias becomes the value of the rounded input.
void fill_merge_in_base2(const Case& value, Inputs& inputs);

// The tensors of the call. In place, o and lse contain the first state.
void fill_merge_call(const Case& value, const Inputs& inputs, bool in_place,
                     KernelCall& call);

}  // namespace qkvet

#endif  // QKVET_CORE_CASE_MERGE_H_

// SPDX-License-Identifier: Apache-2.0
// Lists of the keys that queries see: their spelling in a case, and their
// content. The spelling is a part of a Case's: keys=4, keys=4.h (lists of each
// key/value head), keys=4.n (with topk_length), keys=3x16 (of blocks of 16
// keys), keys=file4.hn.
//
// A row's list is a shuffled part of all keys, and one entry of eight is -1,
// even if there are keys left. Keys keep their order where an extent shrinks.
// After topk_length the list continues with other keys: a kernel that reads
// them sees more than it should. Keys are counted from the first of the row's
// member, and some listed keys do not exist in the member: in a packed batch,
// the two after its last.
#ifndef QKVET_CORE_CASE_KEY_LISTS_H_
#define QKVET_CORE_CASE_KEY_LISTS_H_

#include <string>
#include <string_view>

#include "core/case/case.h"

namespace qkvet {

inline constexpr int64_t kMostListed = 65536;    // entries of a list
inline constexpr int64_t kMostBlockKeys = 4096;  // of a block

std::string read_key_lists(std::string_view text, std::string_view token,
                           Case& value);
std::string key_lists_text(const Case& value);
// "" or what is wrong with them.
std::string key_lists_reason(const Case& value);

// How many lists a member has: Hkv, or 1 for all heads.
int64_t list_heads(const Case& value);
// The start of a row's list in Inputs::key_indices; `kv` is a head of keys and
// values.
int64_t list_begin(const Case& value, int64_t b, int64_t kv, int64_t i);
// How many of its entries count.
int64_t list_length(const Case& value, const Inputs& inputs, int64_t b,
                    int64_t i);
// Lists of blocks as lists of keys: each entry that counts becomes those of its
// keys that are below Tk, and -1 for the others. Lists of keys stay.
void expand_key_blocks(Case& value, Inputs& inputs);

void fill_key_lists(const Case& value, Inputs& inputs);

}  // namespace qkvet

#endif  // QKVET_CORE_CASE_KEY_LISTS_H_

// SPDX-License-Identifier: Apache-2.0
// The serving form of a case: keys and values in pages of a pool, block tables,
// and tokens that the kernel itself appends. A case determines k and v token by
// token; this file puts them where the call has them. The spelling is a part of
// a Case's: page=, pages=, unowned=, table=, pool=, append=.
//
// In a packed batch over pages (cuq=, cuk= and page=) every member has its own
// row of the block table and of kv_len. Its keys are those between two numbers
// of cuk=, which the call itself does not get.
//
// With table=csr the pages of all members are one list (page_indptr,
// page_indices), and last_page_len replaces kv_len. The list ends with the same
// extra entries as the rows of a block table.
//
// With pool=x keys and values have the layout of vLLM's paged_attention_v1,
// which Layout provides; their values stay the same.
//
// The pool has two pages more than the members need. Entries of a block table
// after the pages of a member are -1, one past the pool, or a page of another
// member, and every table has at least two of them: a kernel must not read
// through them, however far a tile reaches. Slots that no member owns contain
// NaN, tokens of other sequences or zeros, and so do the slots of future
// tokens.
#ifndef QKVET_CORE_CASE_PAGING_H_
#define QKVET_CORE_CASE_PAGING_H_

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "core/case/case.h"

namespace qkvet {

inline constexpr int64_t kMostPageTokens = 4096;

// Whether k and v of the case's call are other than the case's own.
inline bool is_served(const Case& value) {
  return value.paging.size > 0 || value.append > 0;
}

// Members of a case: packed ones, or those of the batch.
int64_t members_of(const Case& value);
// The keys of a member: rows [first, first + count) of k[b] and v[b].
struct MemberKeys {
  int64_t b = 0, first = 0, count = 0;
};
MemberKeys keys_of(const Case& value, int64_t member);

// The number of adjacent channels of k in a page; 0: all of a row.
int64_t channel_group_of(const Case& value);

// Tokens that every member gets from the call: `append`, or as many as the
// shortest has.
int64_t new_tokens(const Case& value);

// The places of the tokens of a paged case.
class PageMap {
 public:
  explicit PageMap(const Case& value);

  int64_t pages() const { return pages_; }      // of the pool
  int64_t columns() const { return columns_; }  // of the block table
  // [members, columns], including the entries after the members' pages.
  const std::vector<int32_t>& table() const { return table_; }
  // Pages that a member owns.
  int64_t owned(int64_t member) const {
    return owned_[static_cast<size_t>(member)];
  }
  int64_t page_of(int64_t member, int64_t token) const {
    return table_[static_cast<size_t>(member * columns_ + token / size_)];
  }
  // The same as lists: the start of each member's pages, and the end; all
  // pages, and the extra entries after them.
  std::vector<int32_t> starts() const;
  std::vector<int32_t> list() const;

 private:
  void place(const Case& value);
  void fill_tails(const Case& value);

  int64_t size_, pages_ = 0, columns_ = 0;
  std::vector<int64_t> owned_;
  std::vector<int32_t> table_;
};

// Fills what Inputs holds of pages and new tokens, out of its k_bytes and
// v_bytes; kv_len_bytes follow. Nothing if the case is not served.
void fill_served(const Case& value, Inputs& inputs);

// ---- Inside of the spelling -------------------------------------------------

// "" or what is wrong with the token.
std::string read_page(std::string_view text, std::string_view token,
                      Case& value);
std::string read_page_order(std::string_view text, std::string_view token,
                            Case& value);
std::string read_unowned(std::string_view text, std::string_view token,
                         Case& value);
std::string read_page_table(std::string_view text, std::string_view token,
                            Case& value);
std::string read_page_pool(std::string_view text, std::string_view token,
                           Case& value);
std::string read_append(std::string_view text, std::string_view token,
                        Case& value);
// "page=4"; "" where the case has none.
std::string page_text(const Case& value);
std::string page_order_text(const Case& value);
std::string unowned_text(const Case& value);
std::string page_table_text(const Case& value);
std::string page_pool_text(const Case& value);
std::string append_text(const Case& value);
// "" or the mistake in pages and new tokens of an attention case that is
// otherwise valid.
std::string paging_reason(const Case& value);

// "" or why the pages and new tokens of a call do not belong together.
std::string paging_contradiction(const KernelCall& call);
// Whether the call has pages or new tokens. Both come with the lengths of
// members.
inline bool is_served(const KernelCall& call) {
  return call.page_size > 0 || call.new_tokens > 0;
}
// Number n of one of the lists of lengths or starts of members.
inline int64_t length_at(const KernelCall& call, const std::byte* list,
                         int64_t n) {
  if (call.int32_lengths) {
    int32_t number = 0;
    std::memcpy(&number, list + n * int64_t{sizeof number}, sizeof number);
    return number;
  }
  int64_t number = 0;
  std::memcpy(&number, list + n * int64_t{sizeof number}, sizeof number);
  return number;
}
// The number of tokens of a member of such a call before its new ones.
int64_t held_tokens(const KernelCall& call, int64_t member);
// "" or that the kernel does not declare the call's page size, or rows, or
// pages of rows.
std::string undeclared_page_size(const qkvet_capabilities& capabilities,
                                 const KernelCall& call);

}  // namespace qkvet

#endif  // QKVET_CORE_CASE_PAGING_H_

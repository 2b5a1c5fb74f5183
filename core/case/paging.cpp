// SPDX-License-Identifier: Apache-2.0
#include "core/case/paging.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/case/case_text.h"

namespace qkvet {
namespace {

constexpr int64_t kSparePages = 2;
constexpr int64_t kSpareColumns = 2;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// NaN as one element of a type that can be stored.
std::vector<std::byte> nan_of(Dtype dtype) {
  const auto bytes_of = [](auto bits) {
    std::vector<std::byte> bytes(sizeof bits);
    std::memcpy(bytes.data(), &bits, sizeof bits);
    return bytes;
  };
  switch (dtype) {
    case Dtype::kF64:
      return bytes_of(uint64_t{0x7ff8000000000000});
    case Dtype::kF16:
      return bytes_of(uint16_t{0x7e00});
    case Dtype::kBf16:
      return bytes_of(uint16_t{0x7fc0});
    default:
      return bytes_of(uint32_t{0x7fc00000});
  }
}

// Whether all members have the same pages. In a packed batch each has its own.
bool shares_pages(const Case& c) {
  return (c.share & kShareB) != 0 && c.cu_k.empty();
}

// A token of the case: that of a member.
struct PagedToken {
  int64_t member = 0;
  int64_t token = 0;
  bool negated = false;
};

// A token of another member that slot `slot` of a page may hold although it
// does not belong to this member. A single member gets the negatives of its own
// tokens, as from a previous tenant.
std::optional<PagedToken> other_token(const Case& c, int64_t member,
                                      int64_t slot) {
  const int64_t members = members_of(c);
  for (int64_t n = 1; n <= members; ++n) {
    const int64_t m = (member + n) % members;
    const int64_t count = keys_of(c, m).count;
    if (count > 0) return PagedToken{m, slot % count, n == members};
  }
  return std::nullopt;
}

// One of k and v on its way from [B,Hkv,Tk,width] to where a call finds it.
class Mover {
 public:
  Mover(const Case& c, int64_t width, const std::vector<std::byte>& from)
      : c_(c),
        element_(dtype_bytes(c.kv_dtype)),
        row_bytes_(static_cast<size_t>(width * element_)),
        from_(from),
        nan_(nan_of(c.kv_dtype)) {}

  // Room for `rows` rows of NaN.
  void resize(int64_t rows, std::vector<std::byte>& to) const {
    to.resize(static_cast<size_t>(rows) * row_bytes_);
    for (size_t at = 0; at < to.size(); at += nan_.size())
      std::copy(nan_.begin(), nan_.end(),
                to.begin() + static_cast<ptrdiff_t>(at));
  }

  void copy(const PagedToken& token, int64_t h, int64_t row,
            std::vector<std::byte>& to) const {
    const Shape& s = c_.shape;
    const MemberKeys keys = keys_of(c_, token.member);
    const auto at = static_cast<size_t>((keys.b * s.Hkv + h) * s.Tk +
                                        keys.first + token.token);
    std::byte* const out = to.data() + static_cast<size_t>(row) * row_bytes_;
    std::memcpy(out, from_.data() + at * row_bytes_, row_bytes_);
    if (!token.negated) return;
    // The sign is the highest bit of an element, which comes last in memory.
    const auto step = static_cast<size_t>(element_);
    for (size_t n = step - 1; n < row_bytes_; n += step)
      out[n] ^= std::byte{0x80};
  }

 private:
  const Case& c_;
  int64_t element_;
  size_t row_bytes_;
  const std::vector<std::byte>& from_;
  std::vector<std::byte> nan_;
};

// Pages of other tokens take them this far apart, so that two pages are rarely
// equal.
constexpr int64_t kTokensApart = 7;

// Slot `slot` of page `page` of a member; -1: of an unowned page.
void fill_slot(const Case& c, int64_t member, int64_t page, int64_t slot,
               int64_t token, const Mover& mover, std::vector<std::byte>& to) {
  const int64_t count = member < 0 ? 0 : keys_of(c, member).count;
  const bool mine = member >= 0 && token < count - new_tokens(c);
  // Rows beyond the lengths that the case describes are stored where there is a
  // slot for them. In a packed batch the rows after a member's keys are those
  // of the next member.
  const bool beyond = member >= 0 && c.cu_k.empty() && token >= count &&
                      token < c.shape.Tk && c.paging.unowned == Unowned::kNan;
  std::optional<PagedToken> from;
  if (mine || beyond)
    from = PagedToken{member, token, false};
  else if (c.paging.unowned == Unowned::kOthers)
    from = other_token(c, std::max<int64_t>(member, 0),
                       page * kTokensApart + slot);
  if (!from) return;
  for (int64_t h = 0; h < c.shape.Hkv; ++h)
    mover.copy(*from, h, (page * c.shape.Hkv + h) * c.paging.size + slot, to);
}

int64_t longest_member(const Case& c) {
  int64_t longest = 0;
  for (int64_t m = 1; m < members_of(c); ++m)
    if (keys_of(c, m).count > keys_of(c, longest).count) longest = m;
  return longest;
}

void fill_pool(const Case& c, const PageMap& map, int64_t width,
               const std::vector<std::byte>& from, std::vector<std::byte>& to) {
  const Mover mover(c, width, from);
  const int64_t size = c.paging.size;
  mover.resize(map.pages() * c.shape.Hkv * size, to);
  if (c.paging.unowned != Unowned::kNan)
    std::fill(to.begin(), to.end(), std::byte{});
  std::vector<char> is_owned(static_cast<size_t>(map.pages()), 0);
  for (int64_t m = 0; m < members_of(c); ++m) {
    // Shared pages belong to the member that has the most of them.
    if (shares_pages(c) && m != longest_member(c)) continue;
    for (int64_t p = 0; p < map.owned(m); ++p) {
      const int64_t page = map.page_of(m, p * size);
      is_owned[static_cast<size_t>(page)] = 1;
      for (int64_t slot = 0; slot < size; ++slot)
        fill_slot(c, m, page, slot, p * size + slot, mover, to);
    }
  }
  for (int64_t page = 0; page < map.pages(); ++page)
    for (int64_t slot = 0;
         slot < size && is_owned[static_cast<size_t>(page)] == 0; ++slot)
      fill_slot(c, -1, page, slot, 0, mover, to);
}

// [B,Hkv,Tk,width] with NaN in the places of the tokens to come.
void fill_whole(const Case& c, int64_t width,
                const std::vector<std::byte>& from,
                std::vector<std::byte>& to) {
  const Shape& s = c.shape;
  const Mover mover(c, width, from);
  mover.resize(s.B * s.Hkv * s.Tk, to);
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t j = 0; j < s.Tk; ++j) {
      const int64_t end = counted_keys(c, b);
      if (j >= end - new_tokens(c) && j < end) continue;
      for (int64_t h = 0; h < s.Hkv; ++h)
        mover.copy({b, j}, h, (b * s.Hkv + h) * s.Tk + j, to);
    }
}

void fill_new(const Case& c, int64_t width, const std::vector<std::byte>& from,
              std::vector<std::byte>& to) {
  const Shape& s = c.shape;
  const Mover mover(c, width, from);
  const int64_t count = new_tokens(c), members = members_of(c);
  mover.resize(members * s.Hkv * count, to);
  for (int64_t m = 0; m < members; ++m)
    for (int64_t h = 0; h < s.Hkv; ++h)
      for (int64_t n = 0; n < count; ++n)
        mover.copy({m, keys_of(c, m).count - count + n}, h,
                   (m * s.Hkv + h) * count + n, to);
}

template <class Number>
void store(const std::vector<Number>& numbers, std::vector<std::byte>& bytes) {
  bytes.resize(numbers.size() * sizeof(Number));
  if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
}

// The number of tokens in the last page; all other pages are full.
int64_t in_last_page(int64_t count, int64_t size) {
  return count > 0 ? (count - 1) % size + 1 : 0;
}

int32_t int32_at(const std::byte* numbers, int64_t n) {
  int32_t number = 0;
  std::memcpy(&number, numbers + n * int64_t{sizeof number}, sizeof number);
  return number;
}

std::string group_contradiction(const KernelCall& call) {
  const int64_t group = call.channel_group;
  if (group == 0) return "";
  return call.page_size > 0 &&
                 group == kChannelGroupBytes / dtype_bytes(call.kv_dtype) &&
                 call.shape.d % group == 0
             ? ""
             : "groups of channels are 16 bytes of keys in pages, and d is a "
               "multiple of them";
}

std::string new_tokens_contradiction(const KernelCall& call) {
  const bool appends = call.new_tokens != 0;
  return appends != (call.k_new != nullptr) ||
                 appends != (call.v_new != nullptr)
             ? "new tokens come with k and v"
             : "";
}

// The table in the form that the case asks for, with the lengths of members
// that belong to that form.
void store_table(const Case& c, const PageMap& map, Inputs& inputs) {
  if (c.paging.table == PageTable::kBlocks) {
    inputs.table_columns = map.columns();
    return store(map.table(), inputs.block_table_bytes);
  }
  const std::vector<int32_t> list = map.list();
  inputs.page_entries = static_cast<int64_t>(list.size());
  store(map.starts(), inputs.page_indptr_bytes);
  store(list, inputs.page_indices_bytes);
  std::vector<int32_t> last;
  for (int64_t m = 0; m < members_of(c); ++m)
    last.push_back(
        static_cast<int32_t>(in_last_page(keys_of(c, m).count, c.paging.size)));
  store(last, inputs.last_page_len_bytes);
}

}  // namespace

int64_t members_of(const Case& c) {
  return c.cu_k.empty() ? c.shape.B : static_cast<int64_t>(c.cu_k.size()) - 1;
}

MemberKeys keys_of(const Case& c, int64_t member) {
  if (c.cu_k.empty()) return {member, 0, counted_keys(c, member)};
  const auto m = static_cast<size_t>(member);
  return {0, c.cu_k[m], c.cu_k[m + 1] - c.cu_k[m]};
}

int64_t channel_group_of(const Case& c) {
  return c.paging.size > 0 && c.paging.pool == PageForm::kGroups
             ? kChannelGroupBytes / dtype_bytes(c.kv_dtype)
             : 0;
}

int64_t new_tokens(const Case& c) {
  if (c.append == 0) return 0;
  int64_t count = c.append;
  for (int64_t m = 0; m < members_of(c); ++m)
    count = std::min(count, keys_of(c, m).count);
  return members_of(c) > 0 ? count : 0;
}

PageMap::PageMap(const Case& c) : size_(c.paging.size) {
  int64_t all = 0, longest = 0;
  for (int64_t m = 0; m < members_of(c); ++m) {
    owned_.push_back(ceil_div(keys_of(c, m).count, size_));
    all += owned_.back();
    longest = std::max(longest, owned_.back());
  }
  // A packed batch has room for its longest member, and others for Tk.
  columns_ =
      kSpareColumns + (c.cu_k.empty() ? ceil_div(c.shape.Tk, size_) : longest);
  pages_ = (shares_pages(c) ? longest : all) + kSparePages;
  table_.resize(owned_.size() * static_cast<size_t>(columns_));
  place(c);
  fill_tails(c);
}

void PageMap::place(const Case& c) {
  std::vector<int32_t> order(static_cast<size_t>(pages_));
  std::iota(order.begin(), order.end(), 0);
  if (c.paging.order == PageOrder::kReverse)
    std::reverse(order.begin(), order.end());
  if (c.paging.order == PageOrder::kPermuted)
    for (size_t n = order.size() - 1; n > 0; --n) {
      const auto at = static_cast<int64_t>(n);
      const uint64_t bits =
          random_bits(c.seed, TensorName::kBlockTable, 0, 0, 0, at);
      std::swap(order[n], order[static_cast<size_t>(bits % (n + 1))]);
    }
  size_t next = 0;
  for (int64_t m = 0; m < members_of(c); ++m) {
    if (shares_pages(c)) next = 0;
    for (int64_t p = 0; p < owned(m); ++p)
      table_[static_cast<size_t>(m * columns_ + p)] = order[next++];
  }
}

// Which of the three an entry is goes by its place, so that every table of two
// members or more has all of them.
void PageMap::fill_tails(const Case& c) {
  const int64_t members = members_of(c);
  for (int64_t m = 0; m < members; ++m)
    for (int64_t p = owned(m); p < columns_; ++p) {
      const int64_t other = (m + 1) % members;
      const int32_t stale =
          owned(other) > 0 ? table_[static_cast<size_t>(other * columns_)] : 0;
      const int32_t kinds[] = {-1, stale, static_cast<int32_t>(pages_)};
      table_[static_cast<size_t>(m * columns_ + p)] = kinds[(m + p) % 3];
    }
}

std::vector<int32_t> PageMap::starts() const {
  std::vector<int32_t> starts = {0};
  for (const int64_t pages : owned_)
    starts.push_back(starts.back() + static_cast<int32_t>(pages));
  return starts;
}

std::vector<int32_t> PageMap::list() const {
  std::vector<int32_t> list;
  for (size_t m = 0; m < owned_.size(); ++m)
    for (int64_t p = 0; p < owned_[m]; ++p)
      list.push_back(
          table_[m * static_cast<size_t>(columns_) + static_cast<size_t>(p)]);
  const int32_t stale = list.empty() ? 0 : list.front();
  for (const int32_t spare : {-1, stale, static_cast<int32_t>(pages_)})
    list.push_back(spare);
  return list;
}

void fill_served(const Case& c, Inputs& inputs) {
  inputs.pages = inputs.table_columns = inputs.new_tokens = 0;
  inputs.page_entries = 0;
  for (auto* bytes :
       {&inputs.k_cache_bytes, &inputs.v_cache_bytes, &inputs.block_table_bytes,
        &inputs.page_indptr_bytes, &inputs.page_indices_bytes,
        &inputs.last_page_len_bytes, &inputs.k_new_bytes, &inputs.v_new_bytes})
    bytes->clear();
  if (!is_served(c)) return;
  const Shape& s = c.shape;
  inputs.new_tokens = new_tokens(c);
  if (c.paging.size > 0) {
    const PageMap map(c);
    inputs.pages = map.pages();
    store_table(c, map, inputs);
    fill_pool(c, map, s.d, inputs.k_bytes, inputs.k_cache_bytes);
    fill_pool(c, map, s.dv, inputs.v_bytes, inputs.v_cache_bytes);
  } else {
    fill_whole(c, s.d, inputs.k_bytes, inputs.k_cache_bytes);
    fill_whole(c, s.dv, inputs.v_bytes, inputs.v_cache_bytes);
  }
  if (inputs.new_tokens > 0) {
    fill_new(c, s.d, inputs.k_bytes, inputs.k_new_bytes);
    fill_new(c, s.dv, inputs.v_bytes, inputs.v_new_bytes);
  }
  std::vector<int64_t> before;
  for (int64_t m = 0; m < members_of(c); ++m)
    before.push_back(keys_of(c, m).count - inputs.new_tokens);
  if (c.paging.table == PageTable::kCsr) before.clear();
  store_lengths(c, before, inputs.kv_len_bytes);
}

int64_t held_tokens(const KernelCall& call, int64_t member) {
  if (call.page_indptr == nullptr) return length_at(call, call.kv_len, member);
  const int64_t pages = int32_at(call.page_indptr, member + 1) -
                        int32_at(call.page_indptr, member);
  return std::max<int64_t>(pages - 1, 0) * call.page_size +
         int32_at(call.last_page_len, member) - call.new_tokens;
}

std::string undeclared_page_size(const qkvet_capabilities& capabilities,
                                 const KernelCall& call) {
  if (call.page_size == 0)
    return (capabilities.flags & QKVET_FLAG_PAGES_ONLY) != 0 &&
                   call.operation == Operation::kForward
               ? "k and v in rows are not declared"
               : "";
  if (call.channel_group == 0 &&
      (capabilities.flags & QKVET_FLAG_CHANNEL_GROUPS_ONLY) != 0)
    return "pages of rows are not declared";
  const auto* sizes = capabilities.page_sizes;
  const auto* const end =
      sizes + std::clamp<int32_t>(capabilities.page_size_count, 0, 16);
  return sizes == end || std::find(sizes, end, call.page_size) != end
             ? ""
             : "pages of " + std::to_string(call.page_size) +
                   " tokens are not declared";
}

std::string paging_contradiction(const KernelCall& call) {
  const bool paged = call.page_size != 0, appends = call.new_tokens != 0;
  const bool csr = call.page_indptr != nullptr;
  const bool twice = call.mistake == Mistake::kBothTables;
  if (std::min({call.page_size, call.pages, call.table_columns,
                call.page_entries, call.new_tokens}) < 0)
    return "a count of pages or new tokens is negative";
  if (paged != (call.pages > 0) || paged != (call.table_columns > 0 || csr))
    return "pages come with a size, a pool and a block table";
  if (std::string why = group_contradiction(call); !why.empty()) return why;
  if (csr != (call.page_indices != nullptr) ||
      csr != (call.last_page_len != nullptr) || (csr && call.page_entries < 1))
    return "lists of pages come with page_indptr, page_indices and "
           "last_page_len";
  const int64_t members = call.members > 0 ? call.members : call.shape.B;
  if (csr && !twice)
    return call.block_table != nullptr || call.kv_len != nullptr
               ? "lists of pages have no block table and no kv_len beside them"
               : new_tokens_contradiction(call);
  if (paged && members > 0 && call.block_table == nullptr)
    return "the block table is missing";
  if (std::string why = new_tokens_contradiction(call); !why.empty())
    return why;
  if (appends && !paged && call.members > 0)
    return "a packed batch has no new tokens without pages";
  if ((paged || appends) && members > 0 && call.kv_len == nullptr)
    return "pages and new tokens come with kv_len";
  return "";
}

}  // namespace qkvet

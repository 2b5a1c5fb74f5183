// SPDX-License-Identifier: Apache-2.0
// How pages and new tokens of a case are spelled, and what is allowed.
#include <algorithm>
#include <array>

#include "core/case/case_text.h"
#include "core/case/paging.h"

namespace qkvet {
namespace {

// In the order of PageOrder; the first is left out.
constexpr std::array<std::string_view, kPageOrderCount> kOrders = {
    "perm", "order", "reverse"};
// The same of Unowned.
constexpr std::array<std::string_view, kUnownedCount> kUnowned = {
    "nan", "others", "zero"};
// The same of PageTable.
constexpr std::array<std::string_view, kPageTableCount> kTables = {"blocks",
                                                                   "csr"};
// The same of PageForm.
constexpr std::array<std::string_view, kPageFormCount> kPools = {"rows", "x"};

std::string page_token(const Case& c) {
  return "page=" + std::to_string(c.paging.size);
}

std::string append_token(const Case& c) {
  return "append=" + std::to_string(c.append);
}

std::string page_reason(const Case& c) {
  const Paging& paging = c.paging;
  if (paging.size == 0)
    return paging == Paging{} ? ""
                              : "pages=, unowned=, table= and pool= need page=";
  if (paging.size < 0 || paging.size > kMostPageTokens)
    return page_token(c) + ": allowed 1 .. " + std::to_string(kMostPageTokens);
  if (const int64_t group = channel_group_of(c);
      group > 0 && c.shape.d % group != 0)
    return "pool=x: keys lie in groups of x = " + std::to_string(group) +
           " channels, 16 bytes of " + std::string(dtype_name(c.kv_dtype)) +
           ", so d must be a multiple of x, and it is " +
           std::to_string(c.shape.d);
  const int64_t longest = (c.shape.Tk + paging.size - 1) / paging.size;
  const int64_t widest = std::max(c.shape.d, c.shape.dv);
  int64_t elements = widest;
  // A packed member has a page that is not full.
  const int64_t most =
      c.cu_k.empty() ? c.shape.B * longest : longest + members_of(c);
  for (const int64_t n : {paging.size, c.shape.Hkv, most + 2}) {
    if (n > kMaxElements / elements)
      return page_token(c) + ": the pool has more than " +
             std::to_string(kMaxElements) + " elements, the most allowed";
    elements *= n;
  }
  return "";
}

std::string append_reason(const Case& c) {
  if (c.append == 0) return "";
  if (c.append < 0 || c.append > kMaxExtent)
    return append_token(c) + ": allowed 0 .. " + std::to_string(kMaxExtent);
  for (int64_t m = 0; m < members_of(c); ++m)
    if (const int64_t count = keys_of(c, m).count; count < c.append)
      return append_token(c) + ": member " + std::to_string(m) + " has " +
             std::to_string(count) +
             " tokens (Tk, kvlen= or cuk=), and the new ones are among them";
  return "";
}

std::string read_count(std::string_view text, std::string_view token,
                       int64_t most, int64_t* count) {
  const auto given = number<int64_t>(text);
  if (!given || *given < 1 || *given > most)
    return quoted(token) + ": allowed " +
           std::string(token.substr(0, token.find('='))) + "=1 .. " +
           std::to_string(most);
  *count = *given;
  return "";
}

}  // namespace

std::string read_page(std::string_view text, std::string_view token, Case& c) {
  return read_count(text, token, kMostPageTokens, &c.paging.size);
}

std::string read_append(std::string_view text, std::string_view token,
                        Case& c) {
  return read_count(text, token, kMaxExtent, &c.append);
}

std::string read_page_order(std::string_view text, std::string_view token,
                            Case& c) {
  const auto* const found = std::find(kOrders.begin(), kOrders.end(), text);
  if (found == kOrders.end())
    return quoted(token) + ": allowed pages=perm, pages=order, pages=reverse";
  c.paging.order = static_cast<PageOrder>(found - kOrders.begin());
  return "";
}

std::string read_unowned(std::string_view text, std::string_view token,
                         Case& c) {
  const auto* const found = std::find(kUnowned.begin(), kUnowned.end(), text);
  if (found == kUnowned.end())
    return quoted(token) +
           ": allowed unowned=nan, unowned=others, unowned=zero";
  c.paging.unowned = static_cast<Unowned>(found - kUnowned.begin());
  return "";
}

std::string read_page_table(std::string_view text, std::string_view token,
                            Case& c) {
  const auto* const found = std::find(kTables.begin(), kTables.end(), text);
  if (found == kTables.end())
    return quoted(token) + ": allowed table=blocks, table=csr";
  c.paging.table = static_cast<PageTable>(found - kTables.begin());
  return "";
}

std::string read_page_pool(std::string_view text, std::string_view token,
                           Case& c) {
  const auto* const found = std::find(kPools.begin(), kPools.end(), text);
  if (found == kPools.end())
    return quoted(token) + ": allowed pool=rows, pool=x";
  c.paging.pool = static_cast<PageForm>(found - kPools.begin());
  return "";
}

std::string page_text(const Case& c) {
  return c.paging.size > 0 ? page_token(c) : "";
}

std::string page_order_text(const Case& c) {
  return c.paging.order == PageOrder::kPermuted
             ? ""
             : "pages=" +
                   std::string(kOrders[static_cast<size_t>(c.paging.order)]);
}

std::string unowned_text(const Case& c) {
  return c.paging.unowned == Unowned::kNan
             ? ""
             : "unowned=" +
                   std::string(kUnowned[static_cast<size_t>(c.paging.unowned)]);
}

std::string page_table_text(const Case& c) {
  return c.paging.table == PageTable::kBlocks
             ? ""
             : "table=" +
                   std::string(kTables[static_cast<size_t>(c.paging.table)]);
}

std::string page_pool_text(const Case& c) {
  return c.paging.pool == PageForm::kRows
             ? ""
             : "pool=" +
                   std::string(kPools[static_cast<size_t>(c.paging.pool)]);
}

std::string append_text(const Case& c) {
  return c.append > 0 ? append_token(c) : "";
}

std::string paging_reason(const Case& c) {
  if (!is_served(c)) return page_reason(c);
  if (!c.cu_q.empty() && c.paging.size == 0)
    return append_token(c) +
           ": a packed batch (cuq=, cuk=) has new tokens in pages alone, page= "
           "is missing";
  std::string why = page_reason(c);
  return why.empty() ? append_reason(c) : why;
}

}  // namespace qkvet

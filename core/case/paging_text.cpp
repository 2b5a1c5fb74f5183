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

std::string page_text(const Case& c) {
  return "page=" + std::to_string(c.paging.size);
}

std::string append_text(const Case& c) {
  return "append=" + std::to_string(c.append);
}

std::string page_reason(const Case& c) {
  const Paging& paging = c.paging;
  if (paging.size == 0)
    return paging == Paging{} ? "" : "pages= and unowned= need page=";
  if (paging.size < 0 || paging.size > kMostPageTokens)
    return page_text(c) + ": allowed 1 .. " + std::to_string(kMostPageTokens);
  if (c.layout == Layout::kPacked)
    return page_text(c) +
           ": pages are a buffer of their own; layout=packed has one for all";
  if ((c.share & kShareH) != 0)
    return page_text(c) + ": members share pages (share=b), heads do not";
  const int64_t longest = (c.shape.Tk + paging.size - 1) / paging.size;
  const int64_t widest = std::max(c.shape.d, c.shape.dv);
  int64_t elements = widest;
  for (const int64_t n : {paging.size, c.shape.Hkv, c.shape.B * longest + 2}) {
    if (n > kMaxElements / elements)
      return page_text(c) + ": the pool has more than " +
             std::to_string(kMaxElements) + " elements, the most allowed";
    elements *= n;
  }
  return "";
}

std::string append_reason(const Case& c) {
  if (c.append == 0) return "";
  if (c.append < 0 || c.append > kMaxExtent)
    return append_text(c) + ": allowed 0 .. " + std::to_string(kMaxExtent);
  if (c.share != 0)
    return append_text(c) +
           ": tokens are appended to k and v of a member's "
           "own, not to shared ones (share=)";
  for (int64_t b = 0; b < c.shape.B; ++b)
    if (counted_keys(c, b) < c.append)
      return append_text(c) + ": member " + std::to_string(b) + " has " +
             std::to_string(counted_keys(c, b)) +
             " tokens (Tk or kvlen=), and the new ones are among them";
  return c.layout == Layout::kPacked
             ? append_text(c) + ": layout=packed has no room for new tokens"
             : "";
}

}  // namespace

bool is_paging_key(std::string_view key) {
  return key == "page" || key == "pages" || key == "unowned" || key == "append";
}

std::string read_paging(std::string_view key, std::string_view text,
                        std::string_view token, Case& c) {
  if (key == "pages") {
    const auto* const found = std::find(kOrders.begin(), kOrders.end(), text);
    if (found == kOrders.end())
      return quoted(token) + ": allowed pages=perm, pages=order, pages=reverse";
    c.paging.order = static_cast<PageOrder>(found - kOrders.begin());
    return "";
  }
  if (key == "unowned") {
    const auto* const found = std::find(kUnowned.begin(), kUnowned.end(), text);
    if (found == kUnowned.end())
      return quoted(token) +
             ": allowed unowned=nan, unowned=others, unowned=zero";
    c.paging.unowned = static_cast<Unowned>(found - kUnowned.begin());
    return "";
  }
  const auto count = number<int64_t>(text);
  const int64_t most = key == "page" ? kMostPageTokens : kMaxExtent;
  if (!count || *count < 1 || *count > most)
    return quoted(token) + ": allowed " + std::string(key) + "=1 .. " +
           std::to_string(most);
  (key == "page" ? c.paging.size : c.append) = *count;
  return "";
}

void add_paging(std::string& text, const Case& c) {
  if (c.paging.size > 0) add_token(text, page_text(c));
  if (c.paging.order != PageOrder::kPermuted)
    add_token(
        text,
        "pages=" + std::string(kOrders[static_cast<size_t>(c.paging.order)]));
  if (c.paging.unowned != Unowned::kNan)
    add_token(text,
              "unowned=" +
                  std::string(kUnowned[static_cast<size_t>(c.paging.unowned)]));
  if (c.append > 0) add_token(text, append_text(c));
}

std::string paging_reason(const Case& c) {
  if (!is_served(c)) return page_reason(c);
  if (!c.cu_q.empty())
    return "a packed batch (cuq=, cuk=) has no pages and no new tokens";
  std::string why = page_reason(c);
  return why.empty() ? append_reason(c) : why;
}

}  // namespace qkvet

// SPDX-License-Identifier: Apache-2.0
#include "core/case/case_options.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "core/call/layout.h"
#include "core/case/case_text.h"
#include "core/case/exclusions.h"
#include "core/case/key_lists.h"
#include "core/case/mask_fields.h"
#include "core/case/paging.h"
#include "core/case/rope.h"

namespace qkvet {
namespace {

// As with recipes, the number follows the name and is left out where it is the
// usual one.
struct MaskRow {
  std::string_view name;
  int64_t usual;
  int64_t largest;
};

// In the order of MaskKind.
constexpr std::array<MaskRow, kMaskKindCount + 1> kMasks = {{
    {"none", 0, 0},
    {"random", 50, 100},
    {"band", 1, kMaxExtent},
    {"only", 0, kMaxExtent},
    {"but", 0, kMaxExtent},
    {"emptyrow", 0, kMaxExtent},
    {"padding", 1, kMaxExtent},
    {"prefix", 4, kMaxExtent},
    {"ranges", 4, kMaxExtent},
    {"docs", 4, kMaxExtent},
    {"chunk", 4, kMaxExtent},
    {"tree", 0, kMaxExtent},
    {"file", 0, 0},
}};

// In the order of Layout.
constexpr std::array<std::string_view, kLayoutCount> kLayouts = {
    "bhtd", "bthd", "packed", "gaps", "apart", "far", "turned"};

constexpr std::string_view kOwnLetters = "bhqk";
constexpr std::string_view kDropoutAllowed =
    "the probability of dropout is 0 .. 0.99";

const MaskRow& row_of(MaskKind kind) {
  return kMasks[static_cast<size_t>(kind)];
}

// Some of the letters, in their order, each once; 0 if it is anything else.
uint8_t bits_of(std::string_view text, std::string_view letters) {
  uint8_t bits = 0;
  for (const char c : text) {
    const size_t bit = letters.find(c);
    if (bit == std::string_view::npos || bits >> bit != 0) return 0;
    bits = static_cast<uint8_t>(bits | 1 << bit);
  }
  return bits;
}

std::string letters_of(uint8_t bits, std::string_view letters) {
  std::string text;
  for (size_t i = 0; i < letters.size(); ++i)
    if ((bits >> i & 1) != 0) text += letters[i];
  return text;
}

// ".qk", or "" where all extents are its own.
std::string own_text(uint8_t own) {
  return own == kOwnAll ? "" : "." + letters_of(own, kOwnLetters);
}

std::string read_own(std::string_view text, std::string_view token,
                     uint8_t* own) {
  *own = bits_of(text, kOwnLetters);
  return *own != 0 ? ""
                   : quoted(token) +
                         ": allowed after the dot are letters of b h q k, in "
                         "this order, for its own extents";
}

// The text before the first dot, and in `rest` the text after it; `rest` is
// empty without a dot.
std::string_view split_dot(std::string_view text, bool* has_rest,
                           std::string_view* rest) {
  const size_t dot = std::min(text.find('.'), text.size());
  *has_rest = dot < text.size();
  *rest = *has_rest ? text.substr(dot + 1) : std::string_view();
  return text.substr(0, dot);
}

std::string mask_names() {
  std::string names;
  for (const MaskRow& row : std::span(kMasks).subspan(1))
    names += " " + std::string(row.name);
  return names;
}

std::string mask_text(const Mask& mask) {
  const MaskRow& row = row_of(mask.kind);
  std::string text = "mask=" + std::string(row.name);
  if (mask.parameter != row.usual) text += std::to_string(mask.parameter);
  return text + own_text(mask.own);
}

std::string read_mask(std::string_view text, std::string_view token,
                      Mask* mask) {
  bool has_own = false;
  std::string_view own;
  text = split_dot(text, &has_own, &own);
  const size_t digits = std::min(text.find_first_of("0123456789"), text.size());
  const std::string_view name = text.substr(0, digits);
  for (int i = 1; i <= kMaskKindCount; ++i) {
    const MaskRow& row = kMasks[static_cast<size_t>(i)];
    if (row.name != name) continue;
    *mask = {static_cast<MaskKind>(i), row.usual, kOwnAll};
    if (digits < text.size()) {
      const auto parameter = number<int64_t>(text.substr(digits));
      if (!parameter)
        return quoted(token) + ": the number after " + std::string(name) +
               " is 0 .. " + std::to_string(row.largest);
      mask->parameter = *parameter;
    }
    return has_own ? read_own(own, token, &mask->own) : "";
  }
  return "unknown mask " + quoted(text) + "; allowed:" + mask_names();
}

std::string read_bias(std::string_view text, std::string_view token,
                      Case& value) {
  bool has_own = false;
  std::string_view own;
  std::string why;
  value.score_bias = parse_recipe(split_dot(text, &has_own, &own), &why);
  if (!value.score_bias) return why;
  return has_own ? read_own(own, token, &value.score_bias_own) : "";
}

// "one" of all members alike, "one.bh" of each.
std::string read_slopes(std::string_view text, std::string_view token,
                        Case& value) {
  bool has_own = false;
  std::string_view own;
  std::string why;
  value.slopes = parse_recipe(split_dot(text, &has_own, &own), &why);
  if (!value.slopes) return why;
  value.member_slopes = own == "bh";
  return !has_own || own == "h" || own == "bh"
             ? ""
             : quoted(token) +
                   ": allowed after the dot is h, one slope for each head, or "
                   "bh, for each head of each sequence";
}

// "3.0.7"
bool read_numbers(std::string_view text, std::vector<int64_t>* numbers) {
  numbers->clear();
  for (bool more = true; more;) {
    const auto next = number<int64_t>(split_dot(text, &more, &text));
    if (!next) return false;
    numbers->push_back(*next);
  }
  return true;
}

std::string numbers_text(std::string_view key,
                         const std::vector<int64_t>& numbers) {
  std::string text(key);
  char separator = '=';
  for (const int64_t n : numbers) {
    text += separator + std::to_string(n);
    separator = '.';
  }
  return text;
}

std::string read_window(std::string_view text, std::string_view token,
                        std::optional<Window>* window) {
  std::vector<int64_t> sides;
  if (!read_numbers(text, &sides) || sides.size() != 2)
    return quoted(token) +
           ": write window=LEFT.RIGHT, inclusive counts, -1 without a limit, "
           "for example window=3.0 or window=-1.2";
  *window = {sides[0], sides[1]};
  return "";
}

std::string read_layout(std::string_view text, std::string_view token,
                        Layout* layout) {
  const auto* const found = std::find(kLayouts.begin(), kLayouts.end(), text);
  if (found == kLayouts.end())
    return quoted(token) +
           ": allowed layout=bthd, layout=packed, layout=gaps, layout=apart, "
           "layout=far, layout=turned";
  *layout = static_cast<Layout>(found - kLayouts.begin());
  return "";
}

std::string read_dropout(std::string_view text, std::string_view token,
                         std::optional<float>* dropout) {
  *dropout = number<float>(text);
  return *dropout ? "" : quoted(token) + ": " + std::string(kDropoutAllowed);
}

// ---- What is allowed -------------------------------------------------------

std::string up_to(int64_t least, int64_t most) {
  return std::to_string(least) + " .. " + std::to_string(most);
}

std::string window_reason(const Window& window) {
  const auto bad = [](int64_t side) { return side < -1 || side > kMaxCount; };
  if (!bad(window.left) && !bad(window.right)) return "";
  return numbers_text("window", {window.left, window.right}) +
         ": both sides are " + up_to(-1, kMaxCount);
}

std::string mask_reason(const Mask& mask) {
  const MaskRow& row = row_of(mask.kind);
  if (mask.kind == MaskKind::kNone)
    return mask == Mask{} ? "" : "no mask has a number or extents of its own";
  if (mask.parameter < 0 || mask.parameter > row.largest)
    return mask_text(mask) + ": the number after " + std::string(row.name) +
           " is " + up_to(0, row.largest);
  if (mask.own == 0 || mask.own > kOwnAll)
    return mask_text(mask) + ": a mask has at least one extent of its own";
  return "";
}

std::string bias_reason(const Case& c) {
  for (const std::optional<Recipe>& recipe : {c.sink, c.slopes})
    if (recipe && is_of_bias_alone(recipe->kind)) return of_bias_alone(*recipe);
  if (!c.score_bias)
    return c.score_bias_own == kOwnAll ? "" : "no bias has extents of its own";
  if (c.backward && is_of_bias_alone(c.score_bias->kind))
    return of_bias_alone(*c.score_bias);
  return c.score_bias_own == 0 || c.score_bias_own > kOwnAll
             ? "bias=" + recipe_text(*c.score_bias) +
                   ": a bias has at least one extent of its own"
             : "";
}

// `extent` is called `name`.
std::string lengths_reason(std::string_view key,
                           const std::vector<int64_t>& lengths, int64_t B,
                           std::string_view name, int64_t extent) {
  if (lengths.empty()) return "";
  const std::string text = numbers_text(key, lengths);
  if (lengths.size() > kMaxMembers)
    return std::string(key) + "= has " + std::to_string(lengths.size()) +
           " numbers: at most " + std::to_string(kMaxMembers) + " are allowed";
  if (static_cast<int64_t>(lengths.size()) != B)
    return text + ": one number for each of B" + std::to_string(B);
  for (const int64_t n : lengths)
    if (n < 0 || n > extent)
      return text + ": allowed " + up_to(0, extent) + " (" + std::string(name) +
             ")";
  return "";
}

std::string ends_reason(std::string_view key, const std::vector<int64_t>& ends,
                        std::string_view name, int64_t extent) {
  const std::string text = numbers_text(key, ends);
  if (ends.size() < 2 || ends.size() > kMaxMembers + 1)
    return std::string(key) + "= has " + std::to_string(ends.size()) +
           " numbers: allowed 2 .. " + std::to_string(kMaxMembers + 1) +
           ", where each member begins and the end";
  if (ends.front() != 0) return text + ": the first member begins at 0";
  if (!std::is_sorted(ends.begin(), ends.end()))
    return text + ": the numbers must not fall";
  if (ends.back() > extent)
    return text + ": ends at most at " + std::to_string(extent) + " (" +
           std::string(name) + ")";
  return "";
}

std::string packed_batch_reason(const Case& c) {
  if (c.cu_q.empty() && c.cu_k.empty()) return "";
  const Shape& s = c.shape;
  if (c.cu_q.empty() || c.cu_k.empty())
    return "cuq= and cuk= come together; " +
           std::string(c.cu_q.empty() ? "cuq=" : "cuk=") + " is missing";
  if (s.B != 1)
    return "B" + std::to_string(s.B) +
           ": a packed batch (cuq=, cuk=) is one member, B is 1";
  std::string why = ends_reason("cuq", c.cu_q, "Tq", s.Tq);
  if (why.empty()) why = ends_reason("cuk", c.cu_k, "Tk", s.Tk);
  if (why.empty() && c.cu_q.size() != c.cu_k.size())
    why = "cuq= has " + std::to_string(c.cu_q.size()) +
          " numbers and cuk= " + std::to_string(c.cu_k.size()) +
          ": as many are allowed in both";
  return why;
}

std::string layout_reason(const Case& c) {
  const Shape& s = c.shape;
  if (static_cast<int>(c.layout) >= kLayoutCount) return "no such layout";
  if (c.share > (kShareB | kShareH)) return "share= takes b, h or bh";
  if (!c.has_options())
    return c.layout == Layout::kBhtd || is_any_strides(c.layout)
               ? ""
               : "a layer and a story have layout=gaps, apart or turned";
  if (c.layout != Layout::kPacked) return "";
  return !fit_one_block(s, c.q_dtype, c.kv_dtype)
             ? "layout=packed: q, k and v have one buffer [B,T,H+2Hkv,d], so "
               "Tq = Tk, dv = d and one storage type are needed"
             : "";
}

std::string layout_text(const Case& c) {
  return c.layout == Layout::kBhtd
             ? ""
             : "layout=" + std::string(kLayouts[static_cast<size_t>(c.layout)]);
}

// ---- The rows --------------------------------------------------------------

// An option that consists of these fields of a case. It is absent if they are
// as in a case without options. Without fields the key is a part of another
// row's option.
template <auto... fields>
struct Fields {
  static bool given([[maybe_unused]] const Case& c) {
    [[maybe_unused]] static const Case plain{};
    return (... || !(c.*fields == plain.*fields));
  }
  static void copy([[maybe_unused]] const Case& from,
                   [[maybe_unused]] Case& to) {
    (..., (to.*fields = from.*fields));
  }
};

std::string fine(const Case&) { return ""; }
std::string read_nothing(std::string_view, std::string_view, Case&) {
  return "";
}

std::string values_reason(const Case& c) {
  return c.values_in_keys && c.shape.dv > c.shape.d
             ? "values=keys are the first dv channels of d: dv" +
                   std::to_string(c.shape.dv) + " is more than d" +
                   std::to_string(c.shape.d)
             : "";
}

std::string read_sink(std::string_view text, std::string_view, Case& c) {
  std::string why;
  c.sink = parse_recipe(text, &why);
  return why;
}

template <std::vector<int64_t> Case::*numbers>
std::string read_counts(std::string_view text, std::string_view token,
                        Case& c) {
  const std::string key(token.substr(0, token.find('=')));
  return read_numbers(text, &(c.*numbers))
             ? ""
             : quoted(token) + ": numbers with dots between, for example " +
                   key + "=" + (key.starts_with("cu") ? "0.3.3.8" : "3.0.7");
}

std::string counts_text(std::string_view key,
                        const std::vector<int64_t>& values) {
  return values.empty() ? "" : numbers_text(key, values);
}

// An option that is one number.
std::string number_text(std::string_view name, float value) {
  return value != 0 ? std::string(name) + "=" + float_text(value) : "";
}

std::string number_reason(std::string_view name, float value) {
  return value >= 0 && std::isfinite(value)
             ? ""
             : number_text(name, value) + ": must be finite and above 0";
}

template <auto field>
std::string read_number(std::string_view text, std::string_view token,
                        Case& c) {
  const float value = c.*field = number<float>(text).value_or(0);
  return value > 0 && std::isfinite(value)
             ? ""
             : quoted(token) + ": the " +
                   std::string(token.substr(0, token.find('='))) +
                   " must be finite and above 0";
}

std::string dropout_reason(const Case& c) {
  return !c.dropout || (*c.dropout >= 0 && *c.dropout <= kMostDropout)
             ? ""
             : "dropout=" + float_text(*c.dropout) + ": " +
                   std::string(kDropoutAllowed);
}

using Text = std::string_view;

template <auto field, auto read>
std::string read_into(Text text, Text token, Case& c) {
  return read(text, token, &(c.*field));
}

constexpr auto kOptions = std::to_array<CaseOption>({
    {"window", QKVET_OPTION_WINDOW, true, Fields<&Case::window>::given,
     Fields<&Case::window>::copy, read_into<&Case::window, read_window>,
     [](const Case& c) {
       return c.window
                  ? numbers_text("window", {c.window->left, c.window->right})
                  : "";
     },
     [](const Case& c) { return c.window ? window_reason(*c.window) : ""; }},
    {"mask", QKVET_OPTION_MASK, true, Fields<&Case::mask>::given,
     Fields<&Case::mask>::copy, read_into<&Case::mask, read_mask>,
     [](const Case& c) {
       return c.mask.kind != MaskKind::kNone ? mask_text(c.mask) : "";
     },
     [](const Case& c) { return mask_reason(c.mask); }},
    {"keys", QKVET_OPTION_KEY_LISTS, true,
     [](const Case& c) { return c.listed.entries > 0; },
     Fields<&Case::listed>::copy, read_key_lists, key_lists_text,
     key_lists_reason},
    {"", QKVET_OPTION_KEY_LIST_LENGTHS, true,
     [](const Case& c) { return c.listed.lengths; },
     [](const Case& from, Case& to) {
       to.listed.lengths = from.listed.lengths;
     },
     read_nothing, fine, fine},
    {"", QKVET_OPTION_KEY_LIST_BLOCKS, true,
     [](const Case& c) { return c.listed.block > 1; },
     [](const Case& from, Case& to) { to.listed.block = from.listed.block; },
     read_nothing, fine, fine},
    {"segments", QKVET_OPTION_SEGMENTS, false,
     [](const Case& c) { return c.fields.segments; }, copy_segments,
     read_segments, segments_text, segments_reason},
    {"ranges", QKVET_OPTION_FULL_RANGES, false,
     [](const Case& c) { return c.fields.ranges > 0; }, copy_ranges,
     read_ranges, ranges_text, ranges_reason},
    {"chunk", QKVET_OPTION_CHUNK, false, Fields<&Case::chunk>::given,
     Fields<&Case::chunk>::copy,
     [](Text text, Text token, Case& c) {
       const auto chunk = number<int64_t>(text);
       c.chunk = chunk.value_or(0);
       return c.chunk > 0 ? ""
                          : quoted(token) + ": a chunk has 1 .. " +
                                std::to_string(kMaxCount) + " positions";
     },
     [](const Case& c) {
       return c.chunk != 0 ? "chunk=" + std::to_string(c.chunk) : "";
     },
     [](const Case& c) {
       return c.chunk >= 0 && c.chunk <= kMaxCount
                  ? ""
                  : "chunk=" + std::to_string(c.chunk) + ": allowed " +
                        up_to(1, kMaxCount);
     }},
    {"tree", QKVET_OPTION_TREE_MASK, false,
     [](const Case& c) { return c.fields.tree; }, copy_tree, read_tree,
     tree_text, tree_reason},
    {"bias", QKVET_OPTION_BIAS, true,
     Fields<&Case::score_bias, &Case::score_bias_own>::given,
     Fields<&Case::score_bias, &Case::score_bias_own>::copy, read_bias,
     [](const Case& c) {
       return c.score_bias ? "bias=" + recipe_text(*c.score_bias) +
                                 own_text(c.score_bias_own)
                           : "";
     },
     bias_reason},
#define QKVET_OPTION_NUMBER(name, NAME, one, in_backward, ...) \
  {#name,                                                      \
   QKVET_OPTION_##NAME,                                        \
   in_backward,                                                \
   Fields<&Case::name>::given,                                 \
   Fields<&Case::name>::copy,                                  \
   read_number<&Case::name>,                                   \
   [](const Case& c) { return number_text(#name, c.name); },   \
   [](const Case& c) { return number_reason(#name, c.name); }},
#include "core/call/option_numbers.def"
    {"sink", QKVET_OPTION_SINK, true, Fields<&Case::sink>::given,
     Fields<&Case::sink>::copy, read_sink,
     [](const Case& c) { return c.sink ? "sink=" + recipe_text(*c.sink) : ""; },
     fine},
    {"alibi", QKVET_OPTION_ALIBI, true, Fields<&Case::slopes>::given,
     Fields<&Case::slopes, &Case::member_slopes>::copy, read_slopes,
     [](const Case& c) {
       return c.slopes ? "alibi=" + recipe_text(*c.slopes) +
                             (c.member_slopes ? ".bh" : "")
                       : "";
     },
     [](const Case& c) -> std::string {
       return c.member_slopes && !c.slopes
                  ? "no member has slopes of its own without alibi="
                  : "";
     }},
    {"", QKVET_OPTION_ALIBI_PER_MEMBER, true,
     Fields<&Case::member_slopes>::given, Fields<&Case::member_slopes>::copy,
     read_nothing, fine, fine},
    {"qlen", QKVET_OPTION_LENGTHS, true, Fields<&Case::q_len>::given,
     Fields<&Case::q_len>::copy, read_counts<&Case::q_len>,
     [](const Case& c) { return counts_text("qlen", c.q_len); },
     [](const Case& c) {
       return lengths_reason("qlen", c.q_len, c.shape.B, "Tq", c.shape.Tq);
     }},
    {"kvlen", QKVET_OPTION_LENGTHS, true, Fields<&Case::kv_len>::given,
     Fields<&Case::kv_len>::copy, read_counts<&Case::kv_len>,
     [](const Case& c) { return counts_text("kvlen", c.kv_len); },
     [](const Case& c) {
       return lengths_reason("kvlen", c.kv_len, c.shape.B, "Tk", c.shape.Tk);
     }},
    {"cuq", QKVET_OPTION_PACKED, true, Fields<&Case::cu_q>::given,
     Fields<&Case::cu_q>::copy, read_counts<&Case::cu_q>,
     [](const Case& c) { return counts_text("cuq", c.cu_q); },
     packed_batch_reason},
    {"cuk", QKVET_OPTION_PACKED, true, Fields<&Case::cu_k>::given,
     Fields<&Case::cu_k>::copy, read_counts<&Case::cu_k>,
     [](const Case& c) { return counts_text("cuk", c.cu_k); }, fine},
    {"lens", QKVET_OPTION_INT32_LENGTHS, true,
     Fields<&Case::int32_lengths>::given, Fields<&Case::int32_lengths>::copy,
     [](Text text, Text token, Case& c) {
       c.int32_lengths = text == "i32";
       return text == "i32" || text == "i64"
                  ? ""
                  : quoted(token) + ": allowed lens=i32, lens=i64";
     },
     [](const Case& c) -> std::string {
       return c.int32_lengths ? "lens=i32" : "";
     },
     [](const Case& c) -> std::string {
       return c.int32_lengths && !gives_lengths(c)
                  ? "lens=i32 needs lengths or starts of members: qlen=, "
                    "kvlen=, cuq=, append= or page= with a block table"
                  : "";
     }},
    {"layout", kOptionLayout, true, Fields<&Case::layout>::given,
     Fields<&Case::layout>::copy, read_into<&Case::layout, read_layout>,
     layout_text, layout_reason},
    {"share", kOptionShare, false, Fields<&Case::share>::given,
     Fields<&Case::share>::copy,
     [](Text text, Text token, Case& c) {
       c.share = bits_of(text, "bh");
       return c.share != 0 ? "" : quoted(token) + ": allowed share=b, h or bh";
     },
     [](const Case& c) {
       return c.share != 0 ? "share=" + letters_of(c.share, "bh") : "";
     },
     fine},
    {"values", QKVET_OPTION_VALUES_IN_KEYS, false,
     Fields<&Case::values_in_keys>::given, Fields<&Case::values_in_keys>::copy,
     [](Text text, Text token, Case& c) {
       c.values_in_keys = text == "keys";
       return c.values_in_keys ? "" : quoted(token) + ": allowed values=keys";
     },
     [](const Case& c) {
       return std::string(c.values_in_keys ? "values=keys" : "");
     },
     values_reason},
    {"dropout", QKVET_OPTION_DROPOUT, true, Fields<&Case::dropout>::given,
     Fields<&Case::dropout>::copy, read_into<&Case::dropout, read_dropout>,
     [](const Case& c) {
       return c.dropout ? "dropout=" + float_text(*c.dropout) : "";
     },
     dropout_reason},
    {"page", QKVET_OPTION_PAGED, false, Fields<&Case::paging>::given,
     Fields<&Case::paging>::copy, read_page, page_text, paging_reason},
    {"pages", QKVET_OPTION_PAGED, false, Fields<>::given, Fields<>::copy,
     read_page_order, page_order_text, fine},
    {"unowned", QKVET_OPTION_PAGED, false, Fields<>::given, Fields<>::copy,
     read_unowned, unowned_text, fine},
    // If a kernel takes no such table, dropping the option drops the pages.
    {"table", QKVET_OPTION_PAGED_CSR, false,
     [](const Case& c) { return c.paging.table == PageTable::kCsr; },
     Fields<&Case::paging>::copy, read_page_table, page_table_text, fine},
    {"pool", QKVET_OPTION_PAGED_CHANNEL_GROUPS, false,
     [](const Case& c) { return c.paging.pool == PageForm::kGroups; },
     [](const Case& from, Case& to) { to.paging.pool = from.paging.pool; },
     read_page_pool, page_pool_text, fine},
    {"append", QKVET_OPTION_APPEND, false, Fields<&Case::append>::given,
     Fields<&Case::append>::copy, read_append, append_text, fine},
    {"rope", QKVET_OPTION_ROPE, true, Fields<&Case::rope>::given,
     Fields<&Case::rope>::copy, read_into<&Case::rope, read_rope>,
     [](const Case& c) {
       return c.rope.style != RopeStyle::kNone ? rope_text(c.rope) : "";
     },
     fine},  // rope_reason(): also of layers and stories
    {"", QKVET_OPTION_ROPE_PART, true,
     [](const Case& c) { return c.rope.channels != 0; },
     [](const Case& from, Case& to) { to.rope.channels = from.rope.channels; },
     read_nothing, fine, fine},
    {"calls", kOptionCalls, false, Fields<&Case::calls>::given,
     Fields<&Case::calls>::copy, read_into<&Case::calls, read_calls>,
     [](const Case& c) {
       return c.calls.empty() ? "" : "calls=" + calls_text(c.calls);
     },
     [](const Case& c) { return calls_reason(c.calls); }},
});

}  // namespace

std::span<const CaseOption> case_options() { return kOptions; }

const CaseOption* find_option(std::string_view key) {
  const auto* const found = std::find_if(
      kOptions.begin(), kOptions.end(),
      [key](const CaseOption& row) { return !key.empty() && row.key == key; });
  return found == kOptions.end() ? nullptr : found;
}

void add_options(std::string& text, const Case& c) {
  for (const CaseOption& row : kOptions)
    if (const std::string token = row.text(c); !token.empty())
      add_token(text, token);
}

std::string_view first_option(const Case& c) {
  const uint64_t its_own = c.story.empty() ? kLayerOptions : kStoryOptions;
  for (const CaseOption& row : kOptions) {
    if ((row.option & its_own) != 0 || !row.given(c)) continue;
    return row.option == QKVET_OPTION_BIAS               ? "score bias"
           : row.option == QKVET_OPTION_ALIBI_PER_MEMBER ? "alibi= of members"
                                                         : row.key;
  }
  return "";
}

std::string options_reason(const Case& c) {
  for (const CaseOption& row : kOptions)
    if (std::string why = row.reason(c); !why.empty()) return why;
  return exclusion_reason(c);
}

std::string option_keys(bool of_backward, std::string_view separator) {
  std::string text;
  for (const CaseOption& row : kOptions)
    if (!row.key.empty() && (row.in_backward || !of_backward)) {
      if (!text.empty()) text += separator;
      text += std::string(row.key) + "=";
    }
  return text;
}

}  // namespace qkvet

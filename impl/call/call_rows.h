// SPDX-License-Identifier: Apache-2.0
// Calls are checked against tables: a row for each tensor, with its shape in
// the names of kernel.h. The first tensor with a name sets its extent, and all
// others must agree. No element of a tensor is read, and none of its extents
// before its rank is known.
#ifndef QKVET_IMPL_CALL_CALL_ROWS_H_
#define QKVET_IMPL_CALL_CALL_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>

#include "impl/call/tensor_view.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

// The names that shapes may use: those of kernel.h and its parts, and L tokens
// that a cache holds after a step, R ranges, E columns of w_qkv.
inline constexpr const char* kExtentNames[] = {
    "B",     "H", "Hkv",       "Tq",        "Tk",    "d",    "dv",
    "T",     "D", "C",         "L",         "n",     "N",    "P",
    "R",     "S", "sequences", "page_size", "pages", "Tnew", "positions",
    "pairs", "x", "E",         "groups"};

struct ExtentName {
  // Fails to compile for another name.
  consteval ExtentName(const char* text) : ExtentName(text, nullptr) {}
  // The name up to `end`, or to the end of the text.
  consteval ExtentName(const char* text, const char* end) {
    for (const char* const name : kExtentNames) {
      const char *a = name, *b = text;
      while (b != end && *a != '\0' && *a == *b) {
        ++a, ++b;
      }
      if (*a == '\0' && (b == end || *b == '\0')) {
        return;
      }
      ++index;
    }
    throw "no such name";
  }
  uint8_t index = 0;
};

// An extent, a name or a number, changed by an operation:
//   x*y  the product;  x/2;  x+1;  x|1  x, or 1
struct ExtentTerm {
  char operation = '=';  // '#': the number `other`
  uint8_t name = 0;
  uint8_t other = 0;  // of x*y
};

// "B,H,Tq,Tk", or shapes of different ranks: "H;B,H".
struct TensorShape {
  static constexpr int kMostRank = 5;

  consteval TensorShape(const char* shape) : text(shape) {
    const char* begin = shape;
    for (const char* end = shape;; ++end) {
      if (*end != ',' && *end != ';' && *end != '\0') {
        continue;
      }
      terms[forms - 1][ranks[forms - 1]++] = parsed(begin, end);
      if (*end == '\0') {
        break;
      }
      if (*end == ';') {
        ++forms;
      }
      begin = end + 1;
    }
  }

  const char* text;
  uint8_t forms = 1;
  uint8_t ranks[2] = {0, 0};
  ExtentTerm terms[2][kMostRank];

 private:
  static consteval ExtentTerm parsed(const char* begin, const char* end) {
    if (*begin >= '0' && *begin <= '9') {
      return {'#', 0, static_cast<uint8_t>(*begin - '0')};
    }
    const char* at = begin;
    while (at != end && *at != '*' && *at != '/' && *at != '+' && *at != '|') {
      ++at;
    }
    const uint8_t name = ExtentName(begin, at).index;
    if (at == end) {
      return {'=', name, 0};
    }
    return {*at, name, *at == '*' ? ExtentName(at + 1, end).index : uint8_t{0}};
  }
};

// Sets of types. kOfCall: that of the first tensor that must have it, which
// the kernel declares. kOfStages: Check::stage.
using Types = uint32_t;
enum : Types {
  kTypeF32 = 1,
  kTypeF64 = 2,
  kTypeBool = 4,
  kTypeUint8 = 8,
  kTypeInt32 = 16,
  kTypeInt64 = 32,
  kTypeByte = 64,  // any of 8 bits
  kOfCall = 128,
  kOfStages = 256
};
inline constexpr Types kBytes = kTypeBool | kTypeUint8;
inline constexpr Types kF32OrOfCall = kTypeF32 | kOfCall;

// Whether tensors may have extents of 0.
enum class Empty : uint8_t { kRefused, kAllowed };
enum class Need : uint8_t { kOptional, kRequired };

struct TensorRow {
  const char* name;
  size_t at;  // in the struct of the arguments
  TensorShape shape;
  Types types;
  Need need = Need::kOptional;
  uint64_t option = 0;  // one of Check::options must bring it; 0: none need
};
#define QKVET_ROW(args, field, ...) \
  { #field, offsetof(args, field), __VA_ARGS__ }

// Whether a table has the tensor at `at`: for assertions over tensors.def that
// no tensor is left unchecked.
template <class... Tables>
consteval bool has_row(size_t at, const Tables&... tables) {
  const auto has = [at](const auto& table) {
    for (const TensorRow& row : table) {
      if (row.at == at) {
        return true;
      }
    }
    return false;
  };
  return (has(tables) || ...);
}

// Rules that are about more than one tensor, or about none.
struct Rule {
  bool broken;
  const char* reason;
};

// The checks of a call, in order: after the first refusal they do nothing. Also
// the extents that are known so far, by name.
struct Check {
  Check(const qkvet_capabilities& declared, qkvet_text* to,
        uint64_t its_options = 0)
      : can(&declared), why(to), options(its_options) {
    for (int64_t& extent : extents) {
      extent = -1;
    }
  }
  int64_t& operator[](ExtentName name) { return extents[name.index]; }
  int64_t operator[](ExtentName name) const { return extents[name.index]; }

  bool ok() const { return status == QKVET_OK; }
  // The struct in this library's version.
  template <class T>
  void copy(const T* args, T* known) {
    status = ok() ? read_struct(args, known, why) : status;
  }
  // Refuses the first tensor of `args` that differs from its row; the reason
  // begins with its name. An absent one is refused only if it is required.
  void rows(std::span<const TensorRow> table, const void* args);
  // Refuses the first rule that is broken. All rules are evaluated, after a
  // refusal too: a rule that reads elements needs ok() before it.
  void rules(qkvet_status refusal, std::initializer_list<Rule> list);
  // The reason is as by printf. A later refusal does not replace it.
  [[gnu::format(printf, 3, 4)]] void refuse(qkvet_status refusal,
                                            const char* format, ...);

  int64_t extents[std::size(kExtentNames)];  // -1: not known
  const qkvet_capabilities* can;
  qkvet_text* why;
  uint64_t options;
  qkvet_status status = QKVET_OK;
  Empty empty = Empty::kAllowed;
  const char* typed_by = nullptr;  // the tensor that has set `storage`
  Storage storage = Storage::kF32;
  qkvet_dtype stage = {};

 private:
  void row(const TensorRow& row, const qkvet_tensor& t);
  void wrong_row(const TensorRow& row, qkvet_status refusal,
                 const char* wrong) {
    refuse(refusal, "%s [%s]: %s", row.name, row.shape.text, wrong);
  }
  void wrong_type(const TensorRow& row);
  void wrong_extent(const TensorRow& row, const ExtentTerm& term, int32_t axis,
                    int64_t found, int64_t needed);
  bool has_type(const TensorRow& row, qkvet_dtype type);
  bool agrees(const ExtentTerm& term, int64_t found, int64_t* needed);
};

// Sets the view of a checked tensor; an absent one leaves it without data.
template <class T>
void fill(const qkvet_tensor& t, View<T>* to) {
  if (!is_absent(t)) {
    *to = view_of<T>(t);
  }
}
void fill(const qkvet_tensor& t, Stored* to);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CALL_CALL_ROWS_H_

// SPDX-License-Identifier: Apache-2.0
#include "impl/call/call_rows.h"

#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace qkvet::impl {
namespace {

struct TypeName {
  Types type;
  qkvet_dtype dtype;
  const char* name;
  bool is_one() const { return dtype.bits != 0; }  // else a set of types
};
constexpr TypeName kTypeNames[] = {
    {kTypeF32, kF32, "f32"},
    {kTypeF64, {QKVET_DTYPE_FLOAT, 64, 1}, "f64"},
    {kTypeBool, {QKVET_DTYPE_BOOL, 8, 1}, "bool"},
    {kTypeUint8, {QKVET_DTYPE_UINT, 8, 1}, "uint8"},
    {kTypeInt32, {QKVET_DTYPE_INT, 32, 1}, "int32"},
    {kTypeInt64, {QKVET_DTYPE_INT, 64, 1}, "int64"},
    {kTypeByte, {}, "of 8 bits"},
    {kOfStages, {}, "of the declared type of the stages"}};

}  // namespace

bool Check::has_type(const TensorRow& row, qkvet_dtype type) {
  if ((row.types & kOfCall) != 0) {
    if (typed_by == nullptr && storage_of(type, &storage) &&
        is_declared(*can, type)) {
      typed_by = row.name;
    }
    if (typed_by != nullptr && is_same(type, dtype_named(storage))) {
      return true;
    }
  }
  if (((row.types & kOfStages) != 0 && is_same(type, stage)) ||
      ((row.types & kTypeByte) != 0 && type.bits == 8 && type.lanes == 1)) {
    return true;
  }
  for (const TypeName& one : kTypeNames) {
    if ((row.types & one.type) != 0 && one.is_one() &&
        is_same(type, one.dtype)) {
      return true;
    }
  }
  return false;
}

// "bias must be f32 or of the type of q"
void Check::wrong_type(const TensorRow& row) {
  char types[96] = "";
  const auto add = [&types](const char* name, const char* of) {
    const size_t length = std::strlen(types);
    std::snprintf(types + length, sizeof(types) - length, "%s%s%s",
                  length == 0 ? "" : " or ", name, of);
  };
  for (const TypeName& type : kTypeNames) {
    if ((row.types & type.type) != 0) {
      add(type.name, "");
    }
  }
  if ((row.types & kOfCall) != 0 && typed_by == nullptr) {
    add("of a type that the kernel declares", "");
  } else if ((row.types & kOfCall) != 0) {
    add("of the type of ", typed_by);
  }
  refuse(QKVET_UNSUPPORTED, "%s must be %s", row.name, types);
}

// Whether an extent agrees; sets a name that is not known. *needed: the extent
// that agrees, -1 if none does.
bool Check::agrees(const ExtentTerm& term, int64_t found, int64_t* needed) {
  int64_t& known = extents[term.name];
  *needed = -1;
  switch (term.operation) {
    case '#':
      *needed = term.other;
      break;
    case '+':
      if (known < 0 && found > 0) {
        known = found - 1;
      }
      *needed = known < 0 || known == INT64_MAX ? -1 : known + 1;
      break;
    case '/':
      *needed = known % 2 == 0 ? known / 2 : -1;
      break;
    case '*': {
      int64_t& other = extents[term.other];
      if (other < 0 && known > 0 && found % known == 0) {
        other = found / known;
      }
      if (other < 0 || __builtin_mul_overflow(known, other, needed)) {
        *needed = -1;
      }
      break;
    }
    default:
      if (known < 0) {
        known = found;
      }
      *needed = known;
      return found == known || (term.operation == '|' && found == 1);
  }
  return found == *needed;
}

// "w_k [D,Hkv*d]: 8 at axis 1, 6 is needed". Without an extent that agrees, the
// reason is in the operation.
void Check::wrong_extent(const TensorRow& row, const ExtentTerm& term,
                         int32_t axis, int64_t found, int64_t needed) {
  char wrong[64] = "1 or more is needed";
  const char* const name = kExtentNames[term.name];
  const int64_t known = extents[term.name];
  if (found < 0) {
    std::snprintf(wrong, sizeof(wrong), "is negative");
  } else if (needed >= 0) {
    std::snprintf(wrong, sizeof(wrong), "%" PRId64 " is needed", needed);
  } else if (term.operation != '+') {
    std::snprintf(wrong, sizeof(wrong), "%s%s = %" PRId64 "%s",
                  term.operation == '*' ? "no multiple of " : "", name, known,
                  term.operation == '/' ? " is odd" : "");
  }
  refuse(QKVET_INVALID_ARGUMENT, "%s [%s]: %" PRId64 " at axis %" PRId32 ", %s",
         row.name, row.shape.text, found, axis, wrong);
}

void Check::row(const TensorRow& row, const qkvet_tensor& t) {
  const TensorShape& shape = row.shape;
  const int form = shape.forms > 1 && t.ndim == shape.ranks[1] ? 1 : 0;
  if (row.option != 0 && (options & row.option) == 0) {
    return refuse(QKVET_UNSUPPORTED, "%s is not supported", row.name);
  }
  if (t.ndim != shape.ranks[form] || t.shape == nullptr ||
      t.strides == nullptr) {
    return wrong_row(row, QKVET_INVALID_ARGUMENT,
                     "the wrong rank, or no shape and strides");
  }
  if (t.device_type != QKVET_DEVICE_CPU) {
    return wrong_row(row, QKVET_UNSUPPORTED, "only the CPU is supported");
  }
  if (!has_type(row, t.dtype)) {
    return wrong_type(row);
  }
  bool has_elements = true;
  for (int32_t axis = 0; axis < t.ndim; ++axis) {
    const ExtentTerm& term = shape.terms[form][axis];
    const int64_t found = t.shape[axis];
    int64_t needed = -1;
    // Most extents are a name that is known.
    const bool same = term.operation == '=' && found == extents[term.name];
    if (found < 0 || (!same && !agrees(term, found, &needed))) {
      return wrong_extent(row, term, axis, found, needed);
    }
    has_elements = has_elements && found > 0;
  }
  if (!has_elements && empty == Empty::kRefused) {
    wrong_row(row, QKVET_UNSUPPORTED, "empty extents are not supported");
  } else if (has_elements && t.data == nullptr) {
    wrong_row(row, QKVET_INVALID_ARGUMENT, "elements and no data");
  }
}

void Check::rows(std::span<const TensorRow> table, const void* args) {
  for (size_t n = 0; n < table.size() && ok(); ++n) {
    const auto& t = *reinterpret_cast<const qkvet_tensor*>(
        static_cast<const char*>(args) + table[n].at);
    if (!is_absent(t)) {
      row(table[n], t);
    } else if (table[n].need == Need::kRequired) {
      wrong_row(table[n], QKVET_INVALID_ARGUMENT, "is absent");
    }
  }
}

void Check::rules(qkvet_status refusal, std::initializer_list<Rule> list) {
  for (const Rule& rule : list) {
    if (rule.broken) {
      refuse(refusal, "%s", rule.reason);
    }
  }
}

void Check::refuse(qkvet_status refusal, const char* format, ...) {
  if (!ok()) {
    return;
  }
  char reason[192];
  std::va_list values;
  va_start(values, format);
  std::vsnprintf(reason, sizeof(reason), format, values);
  va_end(values);
  status = impl::refuse(why, refusal, reason);
}

void fill(const qkvet_tensor& t, Stored* to) {
  Storage type = Storage::kF32;
  storage_of(t.dtype, &type);
  if (!is_absent(t)) {
    *to = stored(t, type);
  }
}

}  // namespace qkvet::impl

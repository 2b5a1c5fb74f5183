// SPDX-License-Identifier: Apache-2.0
// A kernel's declaration for rows that see no key, by the reason why they see
// none.
#ifndef QKVET_PROPERTIES_JUDGING_EMPTY_ROW_H_
#define QKVET_PROPERTIES_JUDGING_EMPTY_ROW_H_

#include <array>
#include <optional>

#include "core/base/floors.h"
#include "core/case/case.h"
#include "qkvet/kernel.h"

namespace qkvet::properties {

// Why a row sees no key: the causal rule or a window, and the reasons for which
// qkvet_dialect has fields.
enum class EmptyBy : uint8_t { kRule, kMask, kBias, kLength, kExtent };
inline constexpr int kEmptyByCount = 5;

// QKVET_EMPTY_ROW_* and QKVET_EMPTY_LSE_*; 0: not declared.
struct EmptyRow {
  int32_t o = 0;
  int32_t lse = 0;
};

// The fields of a way, of o and of lse.
struct EmptyRowFields {
  const char* name;
  int32_t qkvet_dialect::*o;
  const char* lse_name;
  int32_t qkvet_dialect::*lse;
};
const std::array<EmptyRowFields, kEmptyByCount>& empty_row_fields();

// The declaration for one reason.
EmptyRow empty_row_of(const qkvet_dialect& dialect, EmptyBy by);
// The declaration for the rows of this call that see no key. Unspecified if
// there are several reasons for that, with different declarations. `also`: a
// reason that the case does not show.
EmptyRow empty_row_of(const qkvet_dialect& dialect, const Case& value,
                      std::optional<EmptyBy> also = {});
// The number that all elements of such rows are declared to be, in o or in lse;
// nullopt if none is, or their mean.
std::optional<double> declared_number(const EmptyRow& said, TensorName output);
// Whether o of such rows is declared to be 0 for every reason.
bool empty_rows_are_zero(const qkvet_dialect& dialect);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_EMPTY_ROW_H_

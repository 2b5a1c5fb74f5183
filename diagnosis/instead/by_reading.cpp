// SPDX-License-Identifier: Apache-2.0
// Descriptions by the numbers of another call: the same call with one thing
// read differently. The oracle computes it.
#include <algorithm>
#include <cmath>

#include "diagnosis/instead/reading.h"
#include "properties/judging/empty_row.h"
#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

// The right row, divided by the sum over another set of keys, as if keys were
// hidden after they were summed.
std::optional<Predicted> divided_as(const Edit& edit,
                                    const JudgedKernel& kernel, TimeUse& time,
                                    const WrongAnswer& answer,
                                    const WrongOutput& output) {
  if (output.name != TensorName::kO || answer.truth == nullptr)
    return std::nullopt;
  const WrongOutput lse{TensorName::kLse, {}, {}, {}, {}, {}, {}};
  const auto other = read_as(edit, kernel, time, answer, lse);
  const std::vector<double>& right = answer.truth->oracle.lse;
  if (!other || other->values.size() != right.size()) return std::nullopt;
  const bool in_base2 = kernel.info.dialect.lse_base == QKVET_LSE_BASE2;
  Predicted out{output.right, output.bound};
  const auto width = static_cast<size_t>(answer.value().shape.dv);
  for (size_t n = 0; n < out.values.size(); ++n) {
    const double apart = right[n / width] - other->values[n / width];
    out.values[n] *= in_base2 ? std::exp2(apart) : std::exp(apart);
  }
  return out;
}

// A row over another set of keys, divided by the sum over the right ones, as if
// keys were lost between their sum and their product with V.
std::optional<Predicted> summed_as(const Edit& edit, const JudgedKernel& kernel,
                                   TimeUse& time, const WrongAnswer& answer,
                                   const WrongOutput& output) {
  if (output.name != TensorName::kO || answer.truth == nullptr)
    return std::nullopt;
  auto out = read_as(edit, kernel, time, answer, output);
  const std::vector<double>& right = answer.truth->oracle.lse;
  if (!out || out->lse.size() != right.size()) return std::nullopt;
  const bool in_base2 = kernel.info.dialect.lse_base == QKVET_LSE_BASE2;
  const auto width = static_cast<size_t>(answer.value().shape.dv);
  for (size_t n = 0; n < out->values.size(); ++n) {
    const double apart = out->lse[n / width] - right[n / width];
    const double share = in_base2 ? std::exp2(apart) : std::exp(apart);
    // A row that has lost all keys adds up to 0.
    out->values[n] = share > 0 ? out->values[n] * share : 0;
    out->bounds[n] = std::isfinite(out->bounds[n])
                         ? out->bounds[n] * share + output.bound[n]
                         : output.bound[n];
  }
  out->lse = right;
  out->lse_bounds = answer.truth->bound->lse;
  out->weights.clear();
  return out;
}

// Rows without a visible key under this reading get the values that the
// kernel's dialect declares for such rows.
void clear_empty_rows(const qkvet_dialect& dialect, const OracleOutput& oracle,
                      Predicted& out) {
  if (!empty_rows_are_zero(dialect) || oracle.visible.empty()) return;
  const size_t width = out.values.size() / oracle.visible.size();
  for (size_t n = 0; n < out.values.size(); ++n)
    if (oracle.visible[n / width] == 0 && std::isnan(out.values[n]))
      out.values[n] = out.bounds[n] = 0;
}

// A sum over other keys than those of its numerator.
void add_half_read(const OtherReading& keys, const JudgedKernel& kernel,
                   TimeUse& time, std::vector<Description>& out) {
  out.push_back({keys.text + ", but divided by the sum over the right keys",
                 Stage::kValues,
                 [edit = keys.edit, &kernel, &time](const WrongAnswer& answer,
                                                    const WrongOutput& output) {
                   return summed_as(edit, kernel, time, answer, output);
                 }});
  out.push_back({"right, but divided by the sum that is " + keys.text,
                 Stage::kSoftmax,
                 [edit = keys.edit, &kernel, &time](const WrongAnswer& answer,
                                                    const WrongOutput& output) {
                   return divided_as(edit, kernel, time, answer, output);
                 }});
}

}  // namespace

Readings readings_of_attention(const KernelInfo& kernel) {
  Readings rows;
  // Before descriptions of keys in general: a range that is one position too
  // long is also one key more.
  add_readings_of_fields(kernel, rows);
  add_readings_of_scores(rows);
  add_readings_of_keys(rows);
  add_readings_of_places(rows);
  add_formulas(rows);
  return rows;
}

CaseWork work_as(const Edit& edit, Room& room, const Law& law,
                 const Case& value, TimeUse& time) {
  return {law, value, /*with_twin=*/false, time, plain_forward, [&](Problem p) {
            edit(p, room);
            return p;
          }};
}

std::optional<Predicted> read_as(const Edit& edit, const JudgedKernel& kernel,
                                 TimeUse& time, const WrongAnswer& answer,
                                 const WrongOutput& output) {
  if (answer.truth == nullptr) return std::nullopt;
  const Case& value = answer.evidence->value();
  Room room(value);
  CaseWork work =
      work_as(edit, room, agreement_about(value.subject()), value, time);
  const Truth* truth = work.whole_call(kernel, answer.call).truth;
  if (truth == nullptr) return std::nullopt;
  Predicted out;
  if (output.name == TensorName::kO) {
    out = {truth->oracle.o,   truth->bound->o,       truth->oracle.lse,
           truth->bound->lse, truth->oracle.weights, truth->bound->weights};
    clear_empty_rows(kernel.info.dialect, truth->oracle, out);
  } else if (output.name == TensorName::kLse)
    out = {truth->oracle.lse, truth->bound->lse};
  else
    return std::nullopt;
  for (size_t n = 0; room.has_own_scores && n < out.bounds.size(); ++n)
    if (std::isfinite(output.bound[n]))
      out.bounds[n] = std::max(out.bounds[n], output.bound[n]);
  if (room.has_own_scores) out.lse.clear(), out.weights.clear();
  return out;
}

std::vector<Description> descriptions_by_reading(const JudgedKernel& kernel,
                                                 TimeUse& time,
                                                 Subject subject) {
  Readings rows;
  if (subject == Subject::kMerge)
    add_readings_of_merges(rows);
  else
    rows = readings_of_attention(kernel.info);
  std::vector<Description> out;
  for (OtherReading& row : rows)
    out.push_back({std::move(row.text), row.stage,
                   [edit = std::move(row.edit), &kernel, &time](
                       const WrongAnswer& answer, const WrongOutput& output) {
                     return read_as(edit, kernel, time, answer, output);
                   }});
  if (subject != Subject::kAttention) return out;
  const Edit all = seeing_every_key();
  out.push_back({"divided by the sum over all keys, hidden ones with them",
                 Stage::kSoftmax,
                 [all, &kernel, &time](const WrongAnswer& answer,
                                       const WrongOutput& output) {
                   return divided_as(all, kernel, time, answer, output);
                 }});
  add_strides(kernel, time, out);
  Readings keys;
  add_readings_of_key_sets(keys);
  for (const OtherReading& row : keys) add_half_read(row, kernel, time, out);
  return out;
}

}  // namespace qkvet::diagnosis

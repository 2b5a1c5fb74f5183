// SPDX-License-Identifier: Apache-2.0
// The spelling of the options of attention, a part of a Case's: window=, mask=,
// bias=, softcap=, sink=, alibi=, qlen=, kvlen=, cuq=, cuk=, layout=, share=,
// dropout=, and what core/case/paging.h has.
#ifndef QKVET_CORE_CASE_CASE_OPTIONS_H_
#define QKVET_CORE_CASE_CASE_OPTIONS_H_

#include <string>
#include <string_view>

#include "core/case/case.h"

namespace qkvet {

// bias= is not among them: a layer has one, too.
bool is_option_key(std::string_view key);

// Reads the value of such a key, or of bias=, into `value`. "" or a line that
// says what is wrong with the token; ranges are options_reason()'s business.
std::string read_option(std::string_view key, std::string_view text,
                        std::string_view token, Case& value);

// Appends what the case has, in canonical order.
void add_options(std::string& text, const Case& value);

// "" or what is wrong with the options of an attention case.
std::string options_reason(const Case& value);

// The key of the first option that the case has; "" if it has none.
std::string_view first_option(const Case& value);

}  // namespace qkvet

#endif  // QKVET_CORE_CASE_CASE_OPTIONS_H_

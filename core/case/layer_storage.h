// SPDX-License-Identifier: Apache-2.0
// How the inputs of a layer are given: the tokens fused= and context= of a
// case, and their tensors.
#ifndef QKVET_CORE_CASE_LAYER_STORAGE_H_
#define QKVET_CORE_CASE_LAYER_STORAGE_H_

#include <string>
#include <string_view>

#include "core/case/case.h"

namespace qkvet {

// fused= or context=; "" or what is wrong with the token.
bool is_layer_storage_key(std::string_view key);
std::string read_layer_storage(std::string_view key, std::string_view text,
                               std::string_view token, Case& value);
void add_layer_storage(std::string& text, const Case& value);
// "" or what is wrong with them; of any case.
std::string layer_storage_reason(const Case& value);

// Fills w_qkv, b_qkv and the mask buffer from what is stored of the layer.
void store_layer(const Case& value, Inputs& inputs);
// Gives them to a call of the layer. With a mask buffer it is no longer causal:
// the buffer is the rule.
void fill_layer_storage(const Case& value, const Inputs& inputs,
                        KernelCall& call);

}  // namespace qkvet

#endif  // QKVET_CORE_CASE_LAYER_STORAGE_H_

// SPDX-License-Identifier: Apache-2.0
// The rows of C tables that say how a call is made, its tensors apart.
#ifndef QKVET_TOOLS_REPRODUCE_REPRODUCER_CALLS_C_H_
#define QKVET_TOOLS_REPRODUCE_REPRODUCER_CALLS_C_H_

#include <string>

#include "tools/reproduce/reproducer.h"

namespace qkvet::tools {

// A call_row of the templates for attention and its gradient, for layers, for
// caches.
std::string forward_row_c(const WrittenCall& call);
std::string layer_row_c(const WrittenCall& call);
std::string story_row_c(const WrittenCall& call);
// The config_row of a story.
std::string config_row_c(const CallPlan& created);
// The struct whose fields are the tensors of the call.
const char* arguments_c(Operation operation);
std::string field_c(Operation operation, TensorName tensor);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_REPRODUCE_REPRODUCER_CALLS_C_H_

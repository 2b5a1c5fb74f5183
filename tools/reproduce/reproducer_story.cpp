// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/reproducer_story.h"

#include "core/call/cache_function.h"

namespace qkvet::tools {

const char* command_name(Operation operation) {
  return operation == Operation::kCacheCreate
             ? "create"
             : function_of(qkvet_cache_table{}, operation).name;
}

NamedNumbers command_numbers(const CallPlan& plan) {
  switch (plan.operation) {
    case Operation::kCacheCreate:
    case Operation::kCacheReorder:
      return {};
    case Operation::kCacheTruncate:
      return {{"sequence", plan.sequence}, {"tokens", plan.tokens}};
    case Operation::kCacheEvict:
      return {{"sequence", plan.sequence},
              {"first", plan.first},
              {"tokens", plan.tokens}};
    case Operation::kCacheFork:
      return {{"sequence", plan.sequence}, {"other", plan.other}};
    default:
      return {{"sequence", plan.sequence}};
  }
}

std::vector<int64_t> command_parents(const CallPlan& plan, int64_t sequences) {
  if (plan.operation != Operation::kCacheReorder) return {};
  return {plan.parents.begin(), plan.parents.begin() + sequences};
}

NamedNumbers config_numbers(const CallPlan& created) {
  const CacheForm& form = created.cache;
  return {{"sequences", created.sequences},
          {"heads", created.heads},
          {"kv_heads", created.kv_heads},
          {"d", created.d},
          {"dv", created.dv},
          {"capacity", created.tokens},
          {"window", form.window},
          {"first_tokens", form.first_tokens},
          {"rollback", form.rollback}};
}

const char* stored_codes(const CacheForm& form) {
  if (form.stored == StoredAs::kAsGiven) return "";
  return form.stored <= StoredAs::kInt8PerChannel ? "int8" : "fp8_e4m3";
}

const char* stored_scales(const CacheForm& form) {
  if (form.stored == StoredAs::kAsGiven) return "";
  return form.per_channel() ? "per channel" : "per token";
}

RopeStyle story_rope(const Reproducer& from) {
  for (const WrittenCall& call : from.calls)
    if (call.plan.operation == Operation::kCacheStep) return call.plan.rope;
  return RopeStyle::kNone;
}

}  // namespace qkvet::tools

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "properties/cases/draw.h"
#include "properties/checking/picture.h"
#include "properties/checking/simpler.h"
#include "properties/judging/gradient_answer.h"
#include "properties/judging/subject.h"

namespace qkvet::properties {
namespace {

constexpr SubjectRow kSubjects[] = {
    {.subject = Subject::kAttention,
     .id = "attention",
     .text = "attention",
     .missing = "the kernel declares no forward()",
     .is_declared = [](const KernelInfo& kernel) { return kernel.has_forward; },
     .agreement = "agrees_with_oracle",
     .memory_law = kMemoryLaw,
     .is_gradient = false,
     .unsettled = nullptr,
     .draw = draw_attention,
     .simplify = add_simpler_attention,
     .picture = attention_picture},
    {.subject = Subject::kBackward,
     .id = "backward",
     .text = "gradients of attention",
     .missing = "the kernel declares no backward()",
     .is_declared =
         [](const KernelInfo& kernel) { return kernel.has_backward; },
     .agreement = "backward_agrees_with_oracle",
     .memory_law = kBackwardMemoryLaw,
     .is_gradient = true,
     .unsettled = unsettled_gradient,
     .draw = draw_backward,
     .simplify = add_simpler_backward,
     .picture = gradient_picture},
    {.subject = Subject::kCache,
     .id = "cache",
     .text = "KV caches",
     .missing = "the kernel declares no cache",
     .is_declared = [](const KernelInfo& kernel) { return kernel.has_cache; },
     .agreement = "cache_agrees_with_history",
     .memory_law = nullptr,
     .is_gradient = false,
     .unsettled = nullptr,
     .draw = draw_story,
     .simplify = add_simpler_story,
     .picture = story_picture},
    {.subject = Subject::kLayer,
     .id = "layer",
     .text = "layers",
     .missing = "the kernel declares no layer",
     .is_declared = [](const KernelInfo& kernel) { return kernel.has_layer; },
     .agreement = "layer_agrees_with_oracle",
     .memory_law = nullptr,
     .is_gradient = false,
     .unsettled = nullptr,
     .draw = draw_layer,
     .simplify = add_simpler_layer,
     .picture = layer_picture},
    {.subject = Subject::kLayerBackward,
     .id = "layer_backward",
     .text = "gradients of layers",
     .missing = "the kernel declares no layer_backward()",
     .is_declared =
         [](const KernelInfo& kernel) {
           return kernel.has_layer && kernel.has_layer_backward;
         },
     .agreement = "layer_backward_agrees_with_oracle",
     .memory_law = kLayerBackwardMemoryLaw,
     .is_gradient = true,
     .unsettled = nullptr,
     .draw = draw_layer_backward,
     .simplify = add_simpler_layer_backward,
     .picture = layer_gradient_picture},
    {.subject = Subject::kMerge,
     .id = "merge",
     .text = "merges of attention states",
     .missing = "the kernel declares no merge",
     .is_declared = [](const KernelInfo& kernel) { return kernel.has_merge; },
     .agreement = "merge_agrees_with_oracle",
     .memory_law = kMergeMemoryLaw,
     .is_gradient = false,
     .unsettled = nullptr,
     .draw = draw_merge,
     .simplify = add_simpler_merge,
     .picture = merge_picture}};

}  // namespace

std::span<const SubjectRow> all_subjects() { return kSubjects; }

const SubjectRow& subject_row(Subject subject) {
  return *std::ranges::find(kSubjects, subject, &SubjectRow::subject);
}

const char* subject_text(Subject subject) { return subject_row(subject).text; }

bool has_subject(const KernelInfo& kernel, Subject subject) {
  return subject_row(subject).is_declared(kernel);
}

std::string missing_subject(Subject subject) {
  return subject_row(subject).missing;
}

const Law& agreement_about(Subject subject) {
  return *find_law(subject_row(subject).agreement);
}

}  // namespace qkvet::properties

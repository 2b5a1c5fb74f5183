// SPDX-License-Identifier: Apache-2.0
// Masks in a few numbers (kernel.h): their spelling in a case, and their
// content. The spellings are parts of a Case's:
//
//   segments=4    documents of four tokens or so, segments=4.i64, segments=file
//   ranges=3      three ranges seen both ways, ranges=3.i64, ranges=file3
//   tree=2        drafts of two children each, tree=0 of any, tree=file
//
// Segments: one of eight is padding. Some have the number of another one, so
// that a segment is in several pieces; 64-bit numbers may differ only in the
// upper half. Where q and k have different lengths the rows are the last
// tokens.
//
// Ranges: the keys are divided into as many parts as there are ranges, and one
// range is drawn in each. They are stored in another order. One of four is
// empty, between two tokens or before all of them; one of eight is all of its
// part. The parts are equal, but in one member of four one part has all keys
// except one for each of the others, so that a range covers many tiles, up to
// the whole row.
#ifndef QKVET_CORE_CASE_MASK_FIELDS_H_
#define QKVET_CORE_CASE_MASK_FIELDS_H_

#include <string>
#include <string_view>
#include <vector>

#include "core/case/case.h"

namespace qkvet {

inline constexpr int64_t kMostRanges = 1024;  // of each member

// The functions of their rows in case_options.cpp.
void copy_segments(const Case& from, Case& to);
std::string read_segments(std::string_view text, std::string_view token,
                          Case& value);
std::string segments_text(const Case& value);
std::string segments_reason(const Case& value);
void copy_ranges(const Case& from, Case& to);
std::string read_ranges(std::string_view text, std::string_view token,
                        Case& value);
std::string ranges_text(const Case& value);
std::string ranges_reason(const Case& value);
void copy_tree(const Case& from, Case& to);
std::string read_tree(std::string_view text, std::string_view token,
                      Case& value);
std::string tree_text(const Case& value);
std::string tree_reason(const Case& value);

// The number of keys of a member before its first row; negative where it has
// more rows than keys.
int64_t history_of(const Case& value, int64_t b);

// The parent of draft n of member b in the tree that the case draws; -1: the
// history.
int64_t parent_in_tree(const Case& value, int64_t b, int64_t n);

void fill_mask_fields(const Case& value, Inputs& inputs);

}  // namespace qkvet

#endif  // QKVET_CORE_CASE_MASK_FIELDS_H_

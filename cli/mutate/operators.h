// SPDX-License-Identifier: Apache-2.0
// The operators: each finds the places of a source to which it applies, and the
// replacements. One row each in operators.cpp.
#ifndef QKVET_CLI_MUTATE_OPERATORS_H_
#define QKVET_CLI_MUTATE_OPERATORS_H_

#include <span>
#include <string>
#include <vector>

#include "cli/kernels/tokens.h"

namespace qkvet::cli {

// Bytes of the source, and their replacement.
struct Edit {
  size_t at = 0;
  size_t size = 0;
  std::string text;
};

// A source with one change.
struct Mutation {
  std::string operation;  // the operator's name
  std::string variant;    // "lt-le"
  int line = 0;           // of the place that names it, from 1
  int column = 0;
  std::vector<Edit> edits;  // ascending, apart from one another

  // "41:9:lt-le", one of its kind in a source.
  std::string id() const;
};

struct Operator {
  const char* name;
  const char* what;  // one line for people
  void (*find)(const Tokens& tokens, std::vector<Mutation>& found);
};
std::span<const Operator> mutation_operators();

// All of them, by line, column and operator.
std::vector<Mutation> all_mutations(const Tokens& tokens);

std::string mutated(const std::string& source, const Mutation& mutation);

// The changed line, or the first of several, before and after, without the
// blanks around it.
struct ChangedLine {
  std::string before, after;
};
ChangedLine changed_line(const std::string& source, const Mutation& mutation);

// The operators that need more than one token (places.cpp).
void find_bounds(const Tokens& tokens, std::vector<Mutation>& found);
void find_indices(const Tokens& tokens, std::vector<Mutation>& found);
void find_strides(const Tokens& tokens, std::vector<Mutation>& found);
void find_statements(const Tokens& tokens, std::vector<Mutation>& found);
void find_variables(const Tokens& tokens, std::vector<Mutation>& found);
void find_conditions(const Tokens& tokens, std::vector<Mutation>& found);

// A mutation of the token's place, without edits.
Mutation mutation_at(const Tokens& tokens, size_t i, const char* operation,
                     std::string variant);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_MUTATE_OPERATORS_H_

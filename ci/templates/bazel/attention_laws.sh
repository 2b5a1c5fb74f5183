#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# attention_laws.sh QKVET LIBRARY CASES: a test of Bazel, which sets the places of its
# files.
set -euo pipefail
out=${TEST_UNDECLARED_OUTPUTS_DIR:-.}
exec "./$1" check "./$2" --cases "$3" \
  --junit "${XML_OUTPUT_FILE:-$out/qkvet.xml}" \
  --sarif "$out/qkvet.sarif" --html "$out/qkvet.html" --json "$out/qkvet.jsonl"

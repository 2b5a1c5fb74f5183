#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
exec bash "$SRC/qkvet/fuzz/oss-fuzz/build.sh"

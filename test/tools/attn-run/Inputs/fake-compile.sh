#!/bin/sh
#===- fake-compile.sh - Stands in for attn-compile --------------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===------------------------------------------------------------------------===#
#
# Shows its command line and hands out the artifact that ARTIFACT names. An
# input whose name has "bad" in it does not compile.
#
#===------------------------------------------------------------------------===#
echo "compile: $1 $2 OUT $4 $5 $6" >&2
case "$1" in
*bad*)
  echo "bad.mlir:1:1: error: bad" >&2
  exit 1
  ;;
esac
cp "$ARTIFACT" "$3"

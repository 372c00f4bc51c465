# ===- lit.cfg.py - Configuration of the unit tests ------------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Finds the GoogleTest programs of the build tree.
#
# ===----------------------------------------------------------------------===#

import os

import lit.formats

config.name = "Attn-Unit"
config.suffixes = []
config.test_source_root = os.path.join(config.attn_obj_root, "test", "Unit")
config.test_exec_root = config.test_source_root
config.test_format = lit.formats.GoogleTest(".", "Tests")
for variable in ["HOME", "TMP", "TEMP"]:
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]

# What programs need in a build tree with ATTN_SANITIZE.
environment = os.path.join(config.attn_obj_root, "sanitizer-environment")
if os.path.exists(environment):
    with open(environment) as lines:
        config.environment.update(line.rstrip("\n").split("=", 1) for line in lines)

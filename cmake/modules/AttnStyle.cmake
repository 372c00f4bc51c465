#===- AttnStyle.cmake - Targets that check the source's style -------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===------------------------------------------------------------------------===#
#
# `attn-clang-format` fails if a file is not formatted, `attn-clang-format-fix`
# formats all, `attn-clang-tidy` reports what clang-tidy finds. The versions are
# pinned: other ones format differently.
#
#===------------------------------------------------------------------------===#

find_program(ATTN_CLANG_FORMAT NAMES clang-format-22
  HINTS ${LLVM_TOOLS_BINARY_DIR} DOC "clang-format 22")
find_program(ATTN_RUN_CLANG_TIDY NAMES run-clang-tidy-22 run-clang-tidy
  HINTS ${LLVM_TOOLS_BINARY_DIR} DOC "run-clang-tidy 22")

if(ATTN_CLANG_FORMAT)
  set(patterns)
  foreach(folder benchmarks docs include lib test tools)
    foreach(suffix c cpp h)
      list(APPEND patterns ${ATTN_SOURCE_DIR}/${folder}/*.${suffix})
    endforeach()
  endforeach()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${patterns})
  list(JOIN sources "\n" list)
  set(list_file ${ATTN_BINARY_DIR}/clang-format-sources.txt)
  file(WRITE ${list_file} "${list}\n")
  add_custom_target(attn-clang-format
    COMMAND ${ATTN_CLANG_FORMAT} --dry-run -Werror --files=${list_file}
    COMMENT "Checking the format of the sources" VERBATIM)
  add_custom_target(attn-clang-format-fix
    COMMAND ${ATTN_CLANG_FORMAT} -i --files=${list_file}
    COMMENT "Formatting the sources" VERBATIM)
endif()

if(ATTN_RUN_CLANG_TIDY)
  add_custom_target(attn-clang-tidy
    COMMAND ${ATTN_RUN_CLANG_TIDY} -quiet -p ${ATTN_BINARY_DIR}
      ${ATTN_SOURCE_DIR}/lib ${ATTN_SOURCE_DIR}/tools
    DEPENDS attn-headers
    COMMENT "Running clang-tidy" VERBATIM USES_TERMINAL)
endif()

#===- AttnStyle.cmake - Targets that check the source's style -------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===------------------------------------------------------------------------===#
#
# `attn-clang-format` fails if a file is not formatted, `attn-clang-format-fix`
# formats all, `attn-clang-tidy` reports what clang-tidy finds, in the sources
# that it has not found clean before. The versions are pinned: other ones format
# differently. `attn-doc-check` fails if docs/reference is not what TableGen
# generates, `attn-doc-update` writes it.
#
#===------------------------------------------------------------------------===#

find_program(ATTN_CLANG_FORMAT NAMES clang-format-22
  HINTS ${LLVM_TOOLS_BINARY_DIR} DOC "clang-format 22")
find_program(ATTN_CLANG_TIDY NAMES clang-tidy-22
  HINTS ${LLVM_TOOLS_BINARY_DIR} DOC "clang-tidy 22")
find_package(Python3 QUIET COMPONENTS Interpreter)

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

# Sources are built first: ninja then knows which headers each includes.
if(ATTN_CLANG_TIDY AND Python3_Interpreter_FOUND)
  get_property(libraries GLOBAL PROPERTY ATTN_EXPORTS)
  add_custom_target(attn-clang-tidy
    COMMAND ${Python3_EXECUTABLE} ${ATTN_SOURCE_DIR}/.ci/clang_tidy.py
      --build-dir ${ATTN_BINARY_DIR} --clang-tidy ${ATTN_CLANG_TIDY}
    DEPENDS attn-headers ${libraries}
    COMMENT "Running clang-tidy" VERBATIM USES_TERMINAL)
endif()

if(Python3_Interpreter_FOUND)
  set(reference ${Python3_EXECUTABLE} ${ATTN_SOURCE_DIR}/utils/reference.py)
  set(folders ${ATTN_BINARY_DIR}/docs ${ATTN_SOURCE_DIR}/docs/reference)
  add_custom_target(attn-doc-check
    COMMAND ${reference} --check ${folders}
    COMMENT "Comparing docs/reference with the generated pages" VERBATIM)
  add_custom_target(attn-doc-update
    COMMAND ${reference} ${folders}
    COMMENT "Writing docs/reference" VERBATIM)
  add_dependencies(attn-doc-check attn-doc)
  add_dependencies(attn-doc-update attn-doc)
endif()

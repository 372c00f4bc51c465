#===- AttnSanitizers.cmake - AddressSanitizer and UBSan --------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===------------------------------------------------------------------------===#
#
# Compiles everything of this project, but not MLIR, with the sanitizers of
# ATTN_SANITIZE. Included before HandleLLVMOptions, which adds the flags.
#
# Programs and libraries share one runtime, so that it can be preloaded for
# programs without it that load these libraries: Python, mlir-runner and programs
# of users. The file `sanitizer-environment` of the build tree has the variables
# that tests run with.
#
#===------------------------------------------------------------------------===#

set(environment ${CMAKE_BINARY_DIR}/sanitizer-environment)
if(NOT ATTN_SANITIZE)
  file(REMOVE ${environment})
  return()
endif()

if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "ATTN_SANITIZE needs clang, not ${CMAKE_CXX_COMPILER_ID}")
endif()

set(LLVM_USE_SANITIZER "")
foreach(sanitizer ${ATTN_SANITIZE})
  if(sanitizer STREQUAL "address")
    list(APPEND LLVM_USE_SANITIZER Address)
    set(runtime asan)
  elseif(sanitizer STREQUAL "undefined")
    list(APPEND LLVM_USE_SANITIZER Undefined)
    if(NOT runtime)
      set(runtime ubsan_standalone)
    endif()
  else()
    message(FATAL_ERROR
      "ATTN_SANITIZE must be a list of `address` and `undefined`, not `${sanitizer}`")
  endif()
endforeach()
list(REMOVE_DUPLICATES LLVM_USE_SANITIZER)

# The type of an object of MLIR, and the types of its functions, are only known
# where MLIR was compiled with the same checks.
set(LLVM_UBSAN_FLAGS
  "-fsanitize=undefined -fno-sanitize=vptr,function -fno-sanitize-recover=all")

execute_process(
  COMMAND ${CMAKE_CXX_COMPILER}
    -print-file-name=libclang_rt.${runtime}-${CMAKE_SYSTEM_PROCESSOR}.so
  OUTPUT_VARIABLE library OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT EXISTS ${library})
  message(FATAL_ERROR "clang has no ${library}; Debian's package is libclang-rt-22-dev")
endif()
get_filename_component(folder ${library} DIRECTORY)
add_link_options(-shared-libsan -Wl,-rpath,${folder})

# MLIR, the linker and Python free little of what they allocate when they end.
# LLVM's allocators only mark their free memory where they were compiled with the
# sanitizer, and MLIR was not. Statistics of MLIR's passes are allocated with a
# flag that nothing sets in C++17: new memory is zero, as it is without sanitizers.
file(WRITE ${environment} "LD_PRELOAD=${library}
ASAN_OPTIONS=detect_leaks=0:allow_user_poisoning=0:malloc_fill_byte=0
UBSAN_OPTIONS=print_stacktrace=1
")

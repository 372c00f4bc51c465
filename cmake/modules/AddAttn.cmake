#===- AddAttn.cmake - CMake helpers of the project -------------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===------------------------------------------------------------------------===#
#
# Thin wrappers over MLIR's functions that put every library of the project in
# the export set `AttnTargets` and give it usable include directories from both
# the build tree and an install tree.
#
#===------------------------------------------------------------------------===#

include(GNUInstallDirs)

# Upstream headers that many sources read. Parsing them takes most of the time
# that a source compiles. They hold no header of the project, so that a
# change of the project never builds them again. clang-tidy reads sources without
# them: a source has to include what it uses.
set(attn_upstream_headers
  <llvm/ADT/DenseSet.h>
  <llvm/ADT/DynamicAPInt.h>
  <llvm/ADT/MapVector.h>
  <llvm/ADT/STLExtras.h>
  <llvm/ADT/SetVector.h>
  <llvm/ADT/StringExtras.h>
  <llvm/ADT/TypeSwitch.h>
  <llvm/Support/CommandLine.h>
  <llvm/Support/DebugLog.h>
  <llvm/Support/Error.h>
  <llvm/Support/FormatVariadic.h>
  <llvm/Support/JSON.h>
  <llvm/Support/MathExtras.h>
  <llvm/Support/raw_ostream.h>
  <mlir/Analysis/Presburger/IntegerRelation.h>
  <mlir/Dialect/Arith/IR/Arith.h>
  <mlir/Dialect/Arith/Utils/Utils.h>
  <mlir/Dialect/Func/IR/FuncOps.h>
  <mlir/Dialect/GPU/IR/GPUDialect.h>
  <mlir/Dialect/LLVMIR/LLVMDialect.h>
  <mlir/Dialect/LLVMIR/NVVMDialect.h>
  <mlir/Dialect/Linalg/IR/Linalg.h>
  <mlir/Dialect/Math/IR/Math.h>
  <mlir/Dialect/MemRef/IR/MemRef.h>
  <mlir/Dialect/SCF/IR/SCF.h>
  <mlir/Dialect/Tensor/IR/Tensor.h>
  <mlir/Dialect/Utils/IndexingUtils.h>
  <mlir/Dialect/Utils/StaticValueUtils.h>
  <mlir/Dialect/Vector/IR/VectorOps.h>
  <mlir/IR/BuiltinOps.h>
  <mlir/IR/DialectImplementation.h>
  <mlir/IR/IRMapping.h>
  <mlir/IR/ImplicitLocOpBuilder.h>
  <mlir/IR/Matchers.h>
  <mlir/IR/PatternMatch.h>
  <mlir/IR/Remarks.h>
  <mlir/IR/TypeUtilities.h>
  <mlir/Interfaces/DestinationStyleOpInterface.h>
  <mlir/Interfaces/SideEffectInterfaces.h>
  <mlir/Interfaces/ValueBoundsOpInterface.h>
  <mlir/Pass/Pass.h>
  <mlir/Pass/PassManager.h>
  <mlir/Transforms/DialectConversion.h>
  <mlir/Transforms/GreedyPatternRewriteDriver.h>
  <mlir/Transforms/RegionUtils.h>)

# The headers of the dialects, which two thirds of all sources include. AttnDialect and all libraries and programs after
# it compile with them, so that a change of a dialect builds all of these again.
set(attn_dialect_headers
  <attn/Dialect/Attn/IR/AttnOps.h>
  <attn/Dialect/AttnTile/IR/AttnTileOps.h>)

# The object library `name` whose sources are an empty one and `headers`, precompiled with the options that all targets
# have and `options`.
function(attn_precompile_headers name headers options)
  file(WRITE ${ATTN_BINARY_DIR}/${name}.cpp "")
  add_library(${name} OBJECT ${ATTN_BINARY_DIR}/${name}.cpp)
  llvm_update_compile_flags(${name})
  target_precompile_headers(${name} PRIVATE ${headers})
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # ccache takes a header without a time stamp for the same one when it is built again.
    target_compile_options(${name} PRIVATE ${options} "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endfunction()

# The precompiled headers of the dialects, which refer to the precompiled headers of MLIR.
function(attn_precompile_dialect_headers)
  get_target_property(folder attn-precompiled-headers BINARY_DIR)
  set(upstream ${folder}/CMakeFiles/attn-precompiled-headers.dir/cmake_pch.hxx.pch)
  attn_precompile_headers(attn-precompiled-dialects "${attn_dialect_headers}"
    "SHELL:-Xclang -include-pch -Xclang ${upstream}")
  target_include_directories(attn-precompiled-dialects PRIVATE ${ATTN_INCLUDE_DIR} ${ATTN_BINARY_DIR}/include)
  target_compile_options(attn-precompiled-dialects PRIVATE -fPIC)
  add_dependencies(attn-precompiled-dialects attn-headers attn-precompiled-headers)
  set_property(SOURCE ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/attn-precompiled-dialects.dir/cmake_pch.hxx.cxx
    APPEND PROPERTY OBJECT_DEPENDS ${upstream})
endfunction()

# Compiles the sources of target `name` with precompiled headers: of MLIR, and of the dialects once these are there.
# Only Clang can add to headers that are precompiled already.
function(attn_use_precompiled_headers name)
  if(NOT ATTN_PRECOMPILE_HEADERS)
    return()
  endif()
  if(NOT TARGET attn-precompiled-headers)
    attn_precompile_headers(attn-precompiled-headers "${attn_upstream_headers}" "")
  endif()
  set(headers attn-precompiled-headers)
  if(TARGET AttnDialect AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    if(NOT TARGET attn-precompiled-dialects)
      attn_precompile_dialect_headers()
    endif()
    set(headers attn-precompiled-dialects)
  endif()
  # MLIR compiles the sources of a library in an object library.
  foreach(target obj.${name} ${name})
    if(TARGET ${target})
      target_precompile_headers(${target} REUSE_FROM ${headers})
      if(NOT MSVC)
        # Programs, too: headers are for one kind of code.
        target_compile_options(${target} PRIVATE -fPIC)
      endif()
      if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
        target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
      endif()
      return()
    endif()
  endforeach()
endfunction()

# Adds `name` to the exported package.
function(attn_export_library name)
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${ATTN_INCLUDE_DIR}>
    $<BUILD_INTERFACE:${ATTN_BINARY_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  install(TARGETS ${name} EXPORT AttnTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  set_property(GLOBAL APPEND PROPERTY ATTN_EXPORTS ${name})
endfunction()

# add_attn_library(name sources... [DEPENDS targets...] [MLIR_LIBS libs...]
#                  [LINK_LIBS PUBLIC targets...])
# A library of the compiler. MLIR_LIBS names upstream component libraries;
# they become libMLIR.so when the project links the dylib.
function(add_attn_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;MLIR_LIBS;LINK_LIBS" ${ARGN})
  add_mlir_library(${name} ${ARG_UNPARSED_ARGUMENTS}
    DISABLE_INSTALL
    DEPENDS attn-headers ${ARG_DEPENDS}
    LINK_LIBS ${ARG_LINK_LIBS})
  if(ARG_MLIR_LIBS)
    mlir_target_link_libraries(${name} PUBLIC ${ARG_MLIR_LIBS})
  endif()
  if(ATTN_FUZZ_COVERAGE)
    # Coverage of the libraries guides the fuzzers.
    foreach(target ${name} obj.${name})
      if(TARGET ${target})
        target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
      endif()
    endforeach()
    target_link_options(${name} INTERFACE -fsanitize=fuzzer-no-link)
  endif()
  attn_use_precompiled_headers(${name})
  attn_export_library(${name})
  set_property(GLOBAL APPEND PROPERTY ATTN_LIBS ${name})
endfunction()

# attn_set_search_path(name folders...): where a program or library that is
# installed looks for shared libraries, in the build tree too. Where CMake
# replaces the path of the build tree it leaves room in it: empty entries, for
# which the dynamic linker takes the working directory.
function(attn_set_search_path name)
  set(folders ${ARGN})
  list(REMOVE_DUPLICATES folders)
  set_target_properties(${name} PROPERTIES
    BUILD_WITH_INSTALL_RPATH ON
    BUILD_RPATH ""
    INSTALL_RPATH "${folders}")
endfunction()

# add_attn_tool(name sources... [LIBS targets...] [MLIR_LIBS libs...])
function(add_attn_tool name)
  cmake_parse_arguments(ARG "" "" "LIBS;MLIR_LIBS" ${ARGN})
  add_llvm_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  llvm_update_compile_flags(${name})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS})
  mlir_target_link_libraries(${name} PRIVATE ${ARG_MLIR_LIBS})
  if(ARG_MLIR_LIBS)
    attn_use_precompiled_headers(${name})
  endif()
  attn_set_search_path(${name}
    "$ORIGIN/../lib" "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}" ${LLVM_LIBRARY_DIR})
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# attn_embed_files(output folder names...): makes `output`, in the build folder,
# which has an initializer {"name", "text"} for each file folder/name.json.
function(attn_embed_files output folder)
  list(TRANSFORM ARGN PREPEND ${folder}/ OUTPUT_VARIABLE files)
  list(TRANSFORM files APPEND .json)
  set(script ${ATTN_SOURCE_DIR}/cmake/modules/EmbedFiles.cmake)
  add_custom_command(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${output}
    COMMAND ${CMAKE_COMMAND} "-DFILES=${files}"
      -DOUTPUT=${CMAKE_CURRENT_BINARY_DIR}/${output} -P ${script}
    DEPENDS ${files} ${script} VERBATIM)
endfunction()

# attn_tablegen(target file.td "-gen-x" out.inc ...)
# One IncGen target for the outputs of one .td file. Generators are those of
# mlir-tblgen, or with "attn-tblgen " in front those of tools/attn-tblgen.
function(attn_tablegen target td)
  set(LLVM_TARGET_DEFINITIONS ${td})
  set(args ${ARGN})
  while(args)
    list(POP_FRONT args generator output)
    separate_arguments(generator)
    list(GET generator 0 tool)
    if(tool STREQUAL "attn-tblgen")
      list(POP_FRONT generator)
      tablegen(ATTN ${output} ${generator})
    else()
      mlir_tablegen(${output} ${generator})
    endif()
  endwhile()
  add_public_tablegen_target(${target})
  add_dependencies(attn-headers ${target})
endfunction()

# attn_doc(file.td output "-gen-x-doc"): a page of generated reference.
function(attn_doc td output generator)
  set(LLVM_TARGET_DEFINITIONS ${td})
  separate_arguments(generator)
  tablegen(MLIR ${output}.md ${generator})
  set(page ${ATTN_BINARY_DIR}/docs/${output}.md)
  add_custom_command(OUTPUT ${page}
    COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_CURRENT_BINARY_DIR}/${output}.md ${page}
    DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/${output}.md)
  add_custom_target(attn-doc-${output} DEPENDS ${page})
  add_dependencies(attn-doc attn-doc-${output})
endfunction()

#===- FindCUDAToolchain.cmake - Where ptxas and libdevice are --------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===------------------------------------------------------------------------===#
#
# Sets ATTN_CUDA_TOOLKIT_DIR to a folder that holds bin/ptxas: a CUDA toolkit,
# or the PyPI package nvidia-cuda-nvcc. It is the compiler's default place to
# look; what users set in the environment goes before it. Left empty if there is
# none: the compiler then works without it for all outputs but cubin.
#
#===------------------------------------------------------------------------===#

if(NOT ATTN_CUDA_TOOLKIT_DIR)
  find_package(Python3 QUIET COMPONENTS Interpreter)
  set(hints)
  if(Python3_SITELIB)
    file(GLOB hints "${Python3_SITELIB}/nvidia/cu[0-9]*"
      "${Python3_SITELIB}/nvidia/cuda_nvcc")
  endif()
  find_program(ATTN_CUDA_PTXAS ptxas
    HINTS ENV CUDA_ROOT ENV CUDA_HOME ENV CUDA_PATH
    PATHS /usr/local/cuda ${hints}
    PATH_SUFFIXES bin
    NO_SYSTEM_ENVIRONMENT_PATH NO_CMAKE_SYSTEM_PATH)
  mark_as_advanced(ATTN_CUDA_PTXAS)
  set(folder "")
  if(ATTN_CUDA_PTXAS)
    get_filename_component(folder "${ATTN_CUDA_PTXAS}" DIRECTORY)
    get_filename_component(folder "${folder}" DIRECTORY)
  endif()
  set(ATTN_CUDA_TOOLKIT_DIR "${folder}" CACHE PATH
    "Folder of the CUDA toolkit or of the package nvidia-cuda-nvcc")
endif()
if(ATTN_CUDA_TOOLKIT_DIR)
  message(STATUS "CUDA tools: ${ATTN_CUDA_TOOLKIT_DIR}")
else()
  message(STATUS "CUDA tools: not found")
endif()

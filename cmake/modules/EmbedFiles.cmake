#===- EmbedFiles.cmake - Files as C++ initializers -------------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===------------------------------------------------------------------------===#
#
# cmake -DFILES=a.json;b.json -DOUTPUT=file.inc -P EmbedFiles.cmake writes an
# initializer {"a", "text of the file"} for each file.
#
#===------------------------------------------------------------------------===#

set(text "")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${bytes}")
  # One literal for each line of 8 bytes.
  string(REPEAT "(\\\\x..)?" 7 seven)
  string(REGEX REPLACE "((\\\\x..)${seven})" "\"\\1\"\n" bytes "${bytes}")
  string(APPEND text "{\"${name}\",\n${bytes}},\n")
endforeach()
file(WRITE ${OUTPUT} "${text}")

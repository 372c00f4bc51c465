//===- LibraryFile.cpp - Files of shared libraries ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the headers of ELF files. `python/attn/artifact.py` makes the same
// checks, and `lib/Target/Host/HostObject.cpp` writes the checksum.
//
//===----------------------------------------------------------------------===//

#include "LibraryFile.h"
#include "attn-runtime/attn_runtime.h"

#include <algorithm>
#include <cstring>
#include <elf.h>

using namespace attnrt;

static constexpr char checksumMagic[] = {'A', 'T', 'T', 'N',
                                         '-', 'C', 'R', 'C'};

namespace {
/// Behind the end of a library.
struct Checksum {
  char magic[sizeof(checksumMagic)];
  uint32_t crc;
  uint32_t zero;
};
static_assert(sizeof(Checksum) == 16, "as attn-compile writes it");
} // namespace

/// The CRC-32 of zlib.
static uint32_t computeCRC32(const unsigned char *data, size_t size) {
  uint32_t table[256];
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit)
      value = value & 1 ? value >> 1 ^ 0xEDB88320u : value >> 1;
    table[byte] = value;
  }
  uint32_t crc = ~0u;
  for (size_t i = 0; i < size; ++i)
    crc = table[(crc ^ data[i]) & 0xFF] ^ crc >> 8;
  return ~crc;
}

/// The end of `count` bytes from `offset` on; more than any file has if there
/// is no such number.
static uint64_t getEnd(uint64_t offset, uint64_t count) {
  uint64_t end;
  return __builtin_add_overflow(offset, count, &end) ? UINT64_MAX : end;
}

/// The end of the segments and sections whose headers `data` has. These are
/// within its `size` bytes.
static uint64_t getContentsEnd(const unsigned char *data,
                               const Elf64_Ehdr &header) {
  uint64_t end = 0;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    memcpy(&segment, data + header.e_phoff + i * sizeof(segment),
           sizeof(segment));
    end = std::max(end, getEnd(segment.p_offset, segment.p_filesz));
  }
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    memcpy(&section, data + header.e_shoff + i * sizeof(section),
           sizeof(section));
    uint64_t bytes = section.sh_type == SHT_NOBITS ? 0 : section.sh_size;
    end = std::max(end, getEnd(section.sh_offset, bytes));
  }
  return end;
}

int32_t attnrt::checkLibraryContents(const unsigned char *data, size_t size,
                                     const char *name) {
  Elf64_Ehdr header;
  if (size < sizeof(header) || memcmp(data, ELFMAG, SELFMAG) != 0 ||
      data[EI_CLASS] != ELFCLASS64 || data[EI_DATA] != ELFDATA2LSB)
    return attnrtSetError(ATTN_IO_ERROR, "%s: not a shared library of 64 bits",
                          name);
  memcpy(&header, data, sizeof(header));
  if ((header.e_phnum && header.e_phentsize != sizeof(Elf64_Phdr)) ||
      (header.e_shnum && header.e_shentsize != sizeof(Elf64_Shdr)))
    return attnrtSetError(ATTN_IO_ERROR, "%s: the headers are damaged", name);
  uint64_t end =
      std::max(getEnd(header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr)),
               getEnd(header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr)));
  if (end <= size)
    end = std::max(end, getContentsEnd(data, header));
  if (end > size)
    return attnrtSetError(ATTN_IO_ERROR,
                          "%s: cut off: has %zu bytes, but its headers give it "
                          "%llu",
                          name, size, static_cast<unsigned long long>(end));
  // Libraries that another linker made have no checksum.
  if (end == size)
    return ATTN_OK;
  Checksum checksum;
  if (size - end < sizeof(checksum))
    return attnrtSetError(ATTN_IO_ERROR, "%s: the checksum is cut off", name);
  memcpy(&checksum, data + end, sizeof(checksum));
  uint32_t actual = computeCRC32(data, end);
  if (memcmp(checksum.magic, checksumMagic, sizeof(checksumMagic)) != 0 ||
      checksum.crc != actual)
    return attnrtSetError(ATTN_IO_ERROR,
                          "%s: damaged: the checksum of its contents is %08x, "
                          "expected %08x",
                          name, actual, checksum.crc);
  return ATTN_OK;
}

//===- Npy.cpp - NumPy's .npy files ---------------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A file is: the magic string, two version bytes, the header's length (two
// bytes in version 1, four later, little-endian), the header (a Python
// dictionary as text, padded with blanks and ended by a newline), the data.
//
//===----------------------------------------------------------------------===//

#include "Npy.h"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace attnrt;

static constexpr char magic[] = "\x93NUMPY";
static constexpr size_t magicSize = 6;

/// No header NumPy writes comes near this.
static constexpr size_t maxHeaderSize = 1 << 20;

namespace {

struct FileCloser {
  void operator()(FILE *file) const { fclose(file); }
};
using File = std::unique_ptr<FILE, FileCloser>;

/// The entries of the header's dictionary.
struct Header {
  std::string descr;
  bool fortranOrder = false;
  std::vector<int64_t> shape;
};

/// A parser of the subset of Python that headers are written in.
class HeaderParser {
public:
  HeaderParser(const std::string &path, const std::string &text)
      : path(path), text(text) {}

  int32_t parse(Header &header);

private:
  int32_t parseString(std::string &value);
  int32_t parseBool(bool &value);
  int32_t parseShape(std::vector<int64_t> &shape);
  int32_t parseEntry(const std::string &key, size_t keyPosition,
                     Header &header);

  void skipBlanks() {
    while (position < text.size() && isBlank(text[position]))
      ++position;
  }
  static bool isBlank(char c) { return c == ' ' || c == '\n' || c == '\t'; }

  bool consume(char c) {
    skipBlanks();
    if (position >= text.size() || text[position] != c)
      return false;
    ++position;
    return true;
  }

  int32_t expected(const char *what) const {
    std::string found = text.substr(position, 20);
    while (!found.empty() && isBlank(found.back()))
      found.pop_back();
    return attnrtSetError(ATTN_IO_ERROR,
                          "%s: malformed .npy header at byte %zu: expected %s, "
                          "found '%s'",
                          path.c_str(), position, what, found.c_str());
  }

  const std::string &path;
  const std::string &text;
  size_t position = 0;
  bool hasDescr = false, hasOrder = false, hasShape = false;
};

} // namespace

int32_t HeaderParser::parseString(std::string &value) {
  skipBlanks();
  char quote = position < text.size() ? text[position] : 0;
  if (quote != '\'' && quote != '"')
    return expected("a string");
  size_t end = text.find(quote, position + 1);
  if (end == std::string::npos)
    return expected("a string that ends");
  value = text.substr(position + 1, end - position - 1);
  position = end + 1;
  return ATTN_OK;
}

int32_t HeaderParser::parseBool(bool &value) {
  skipBlanks();
  for (const char *word : {"True", "False"})
    if (text.compare(position, strlen(word), word) == 0) {
      position += strlen(word);
      value = word[0] == 'T';
      return ATTN_OK;
    }
  return expected("True or False");
}

int32_t HeaderParser::parseShape(std::vector<int64_t> &shape) {
  if (!consume('('))
    return expected("a tuple of sizes");
  shape.clear();
  while (!consume(')')) {
    skipBlanks();
    size_t begin = position;
    int64_t size = 0;
    for (; position < text.size() && text[position] >= '0' &&
           text[position] <= '9';
         ++position)
      if (__builtin_mul_overflow(size, int64_t(10), &size) ||
          __builtin_add_overflow(size, int64_t(text[position] - '0'), &size)) {
        position = begin;
        return expected("a size that fits in 64 bits");
      }
    if (position == begin)
      return expected("a size");
    shape.push_back(size);
    if (consume(','))
      continue;
    skipBlanks();
    if (position >= text.size() || text[position] != ')')
      return expected("',' or ')'");
  }
  return ATTN_OK;
}

/// Parses the value of a key, whose first character is at `keyPosition`.
int32_t HeaderParser::parseEntry(const std::string &key, size_t keyPosition,
                                 Header &header) {
  if (key == "descr") {
    if (position < text.size() && text[position] == '[')
      return attnrtSetError(ATTN_DTYPE_MISMATCH,
                            "%s: structured dtypes are not supported",
                            path.c_str());
    hasDescr = true;
    return parseString(header.descr);
  }
  if (key == "fortran_order") {
    hasOrder = true;
    return parseBool(header.fortranOrder);
  }
  if (key == "shape") {
    hasShape = true;
    return parseShape(header.shape);
  }
  position = keyPosition;
  return expected("'descr', 'fortran_order' or 'shape'");
}

int32_t HeaderParser::parse(Header &header) {
  if (!consume('{'))
    return expected("'{'");
  while (!consume('}')) {
    size_t keyPosition = position;
    std::string key;
    if (int32_t status = parseString(key))
      return status;
    if (!consume(':'))
      return expected("':'");
    skipBlanks();
    if (int32_t status = parseEntry(key, keyPosition, header))
      return status;
    if (consume(','))
      continue;
    if (!consume('}'))
      return expected("',' or '}'");
    break;
  }
  const char *missing = !hasDescr   ? "descr"
                        : !hasOrder ? "fortran_order"
                        : !hasShape ? "shape"
                                    : nullptr;
  if (missing)
    return attnrtSetError(ATTN_IO_ERROR,
                          "%s: malformed .npy header: '%s' is missing",
                          path.c_str(), missing);
  return ATTN_OK;
}

/// The attn_dtype of a `descr`, -1 if there is none.
static int32_t parseDescr(const std::string &descr) {
  if (descr == "bfloat16")
    return ATTN_BF16;
  if (descr.size() < 3 || (descr[0] != '<' && descr[0] != '|' &&
                           descr[0] != '=' && descr[0] != '>'))
    return -1;
  const struct {
    const char *name;
    int32_t dtype;
  } names[] = {{"V2", ATTN_BF16},  {"f2", ATTN_F16}, {"f4", ATTN_F32},
               {"f8", ATTN_F64},   {"i4", ATTN_I32}, {"i8", ATTN_I64},
               {"i1", ATTN_I8},    {"b1", ATTN_I1},  {"V1", ATTN_F8E4M3FN},
               {"f1", ATTN_F8E5M2}};
  for (const auto &entry : names)
    if (descr.compare(1, std::string::npos, entry.name) == 0) {
      // The order of bytes is of no matter where there is one.
      if (descr[0] == '>' && attnDTypeSize(entry.dtype) > 1)
        return -1;
      return entry.dtype;
    }
  return -1;
}

static const char *getDescr(int32_t dtype) {
  switch (dtype) {
  case ATTN_BF16:
    return "<V2";
  case ATTN_F16:
    return "<f2";
  case ATTN_F32:
    return "<f4";
  case ATTN_F64:
    return "<f8";
  case ATTN_I32:
    return "<i4";
  case ATTN_I64:
    return "<i8";
  case ATTN_I8:
    return "|i1";
  case ATTN_I1:
    return "|b1";
  case ATTN_F8E4M3FN:
    return "<V1";
  case ATTN_F8E5M2:
    return "<f1";
  }
  return "";
}

/// Reads the header up to the first byte of data.
static int32_t readHeader(FILE *file, const std::string &path,
                          std::string &text) {
  unsigned char prefix[12];
  size_t got = fread(prefix, 1, magicSize + 2, file);
  if (got < magicSize || memcmp(prefix, magic, magicSize) != 0)
    return attnrtSetError(ATTN_IO_ERROR,
                          "%s: not a .npy file (expected it to begin with "
                          "\\x93NUMPY)",
                          path.c_str());
  if (got < magicSize + 2)
    return attnrtSetError(ATTN_IO_ERROR,
                          "%s: truncated .npy file: ends after %zu bytes, in "
                          "the version",
                          path.c_str(), got);
  int version = prefix[magicSize];
  if (version < 1 || version > 3)
    return attnrtSetError(ATTN_IO_ERROR,
                          "%s: version %d of the .npy format is not supported "
                          "(expected 1 to 3)",
                          path.c_str(), version);
  size_t lengthSize = version == 1 ? 2 : 4;
  unsigned char *length = prefix + magicSize + 2;
  got = fread(length, 1, lengthSize, file);
  if (got < lengthSize)
    return attnrtSetError(ATTN_IO_ERROR,
                          "%s: truncated .npy file: ends in the length of the "
                          "header",
                          path.c_str());
  size_t size = 0;
  for (size_t i = lengthSize; i-- > 0;)
    size = size << 8 | length[i];
  if (size > maxHeaderSize)
    return attnrtSetError(ATTN_IO_ERROR,
                          "%s: .npy header of %zu bytes is too long (expected "
                          "at most %zu)",
                          path.c_str(), size, maxHeaderSize);
  text.resize(size);
  got = fread(&text[0], 1, size, file);
  if (got < size)
    return attnrtSetError(ATTN_IO_ERROR,
                          "%s: truncated .npy file: header has %zu bytes, "
                          "expected %zu",
                          path.c_str(), got, size);
  return ATTN_OK;
}

int32_t attnrt::readNpy(const std::string &path, HostTensor &tensor) {
  File file(fopen(path.c_str(), "rb"));
  if (!file)
    return attnrtSetError(ATTN_IO_ERROR, "%s: cannot open: %s", path.c_str(),
                          strerror(errno));
  std::string text;
  if (int32_t status = readHeader(file.get(), path, text))
    return status;
  Header header;
  if (int32_t status = HeaderParser(path, text).parse(header))
    return status;

  int32_t dtype = parseDescr(header.descr);
  if (dtype < 0)
    return attnrtSetError(
        ATTN_DTYPE_MISMATCH,
        "%s: dtype '%s' is not supported (expected little-endian f2, f4, f8, "
        "i1, i4, i8, b1, bfloat16 as V2, f8E4M3FN as V1, or f8E5M2 as f1)",
        path.c_str(), header.descr.c_str());
  int32_t longDims = 0;
  for (int64_t size : header.shape)
    longDims += size > 1;
  if (header.fortranOrder && longDims > 1)
    return attnrtSetError(
        ATTN_BAD_STRIDES,
        "%s: data is in Fortran order, expected C order (save "
        "numpy.ascontiguousarray(a))",
        path.c_str());

  // The size is checked before memory is asked for, so that a header with a
  // wild shape is no trouble.
  long dataBegin = ftell(file.get());
  struct stat info;
  if (dataBegin < 0 || fstat(fileno(file.get()), &info) != 0)
    return attnrtSetError(ATTN_IO_ERROR, "%s: cannot read: %s", path.c_str(),
                          strerror(errno));
  int64_t expected = attnDTypeSize(dtype);
  bool overflow = false;
  for (int64_t size : header.shape)
    overflow |= __builtin_mul_overflow(expected, size, &expected);
  int64_t available = static_cast<int64_t>(info.st_size) - dataBegin;
  bool isRegular = S_ISREG(info.st_mode);
  if (overflow || (isRegular && available != expected))
    return attnrtSetError(
        ATTN_IO_ERROR,
        "%s: %s .npy file: %lld bytes of data, expected "
        "%s%lld for shape %s of %s",
        path.c_str(),
        overflow || available < expected ? "truncated" : "trailing bytes in",
        static_cast<long long>(available), overflow ? "more than " : "",
        static_cast<long long>(overflow ? INT64_MAX : expected),
        formatShape(header.shape).c_str(), attnDTypeName(dtype));

  HostTensor result;
  if (int32_t status =
          HostTensor::create(dtype, header.shape, Layout::BHSD, result))
    return status;
  size_t bytes = result.getNumBytes();
  size_t got = bytes ? fread(result.getData(), 1, bytes, file.get()) : 0;
  if (got < bytes)
    return attnrtSetError(ATTN_IO_ERROR,
                          "%s: truncated .npy file: %zu bytes of data, "
                          "expected %zu",
                          path.c_str(), got, bytes);
  tensor = std::move(result);
  return ATTN_OK;
}

static std::string makeHeader(const HostTensor &tensor) {
  std::string text = "{'descr': '";
  text += getDescr(tensor.getDType());
  text += "', 'fortran_order': False, 'shape': (";
  for (int64_t size : tensor.getShape())
    text += std::to_string(size) + ", ";
  // (1, 2, ) is as good a tuple as (1, 2) but not what NumPy writes.
  if (tensor.getShape().size() > 1)
    text.resize(text.size() - 2);
  else if (tensor.getShape().size() == 1)
    text.pop_back();
  text += "), }";

  // Data begins at a multiple of 64.
  size_t prefix = magicSize + 4;
  size_t total = (prefix + text.size() + 1 + 63) / 64 * 64;
  text.append(total - prefix - text.size() - 1, ' ');
  text += '\n';

  std::string header(magic, magicSize);
  header += '\x01';
  header += '\x00';
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

static bool writeData(FILE *file, const HostTensor &tensor) {
  const char *data = static_cast<const char *>(tensor.getData());
  size_t bytes = tensor.getNumBytes();
  if (bytes == 0)
    return true;
  if (tensor.isRowMajor())
    return fwrite(data, 1, bytes, file) == bytes;

  // The innermost dimension is contiguous in every layout.
  int64_t row = tensor.getShape().back();
  size_t rowBytes = row * attnDTypeSize(tensor.getDType());
  for (int64_t index = 0; index < tensor.getNumElements(); index += row) {
    int64_t offset = tensor.getOffset(index) * attnDTypeSize(tensor.getDType());
    if (fwrite(data + offset, 1, rowBytes, file) != rowBytes)
      return false;
  }
  return true;
}

/// Where a file is written: behind links, so that these stay. The file need not
/// exist. Empty, with the reason in `errno`, if a link cannot be followed.
static std::string resolve(const std::string &path) {
  // As many as Linux follows.
  constexpr int maxLinks = 40;
  std::string target = path;
  for (int i = 0; i <= maxLinks; ++i) {
    struct stat status;
    if (lstat(target.c_str(), &status) != 0 || !S_ISLNK(status.st_mode))
      return target;
    char link[PATH_MAX];
    ssize_t length = readlink(target.c_str(), link, sizeof(link));
    if (length < 0)
      return "";
    std::string next(link, length);
    size_t slash = target.rfind('/');
    bool isRelative = next.empty() || next.front() != '/';
    if (isRelative && slash != std::string::npos)
      next = target.substr(0, slash + 1) + next;
    target = next;
  }
  errno = ELOOP;
  return "";
}

/// Whether a path is a device or a pipe, which must not be replaced by a file.
static bool isSpecial(const std::string &path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) &&
         !S_ISDIR(status.st_mode);
}

int32_t attnrt::writeNpy(const std::string &path, const HostTensor &tensor) {
  bool inPlace = isSpecial(path);
  std::string target = inPlace ? path : resolve(path);
  if (target.empty())
    return attnrtSetError(ATTN_IO_ERROR, "%s: cannot follow the link: %s",
                          path.c_str(), strerror(errno));
  std::string temporary = inPlace ? path : target + ".XXXXXX";
  int descriptor = inPlace ? open(path.c_str(), O_WRONLY | O_CLOEXEC)
                           : mkstemp(&temporary[0]);
  if (descriptor < 0)
    return attnrtSetError(ATTN_IO_ERROR, "%s: cannot %s '%s': %s", path.c_str(),
                          inPlace ? "open" : "create", temporary.c_str(),
                          strerror(errno));
  // mkstemp makes files private; ask for what a plain open would have given.
  if (!inPlace) {
    mode_t mask = umask(0);
    umask(mask);
    fchmod(descriptor, 0666 & ~mask);
  }

  std::string header = makeHeader(tensor);
  FILE *file = fdopen(descriptor, "wb");
  bool written =
      file && fwrite(header.data(), 1, header.size(), file) == header.size() &&
      writeData(file, tensor);
  int error = errno;
  // Data that was buffered may fail to be written only now.
  if (file ? fclose(file) != 0 : close(descriptor) != 0) {
    if (written)
      error = errno;
    written = false;
  }
  if (written && !inPlace && rename(temporary.c_str(), target.c_str()) != 0) {
    error = errno;
    written = false;
  }
  if (written)
    return ATTN_OK;
  if (!inPlace)
    unlink(temporary.c_str());
  return attnrtSetError(ATTN_IO_ERROR, "%s: cannot write: %s", path.c_str(),
                        strerror(error));
}

//===- NpyTest.cpp - Tests of .npy files ----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Round trips, files as NumPy writes them, and broken ones.
//
//===----------------------------------------------------------------------===//

#include "Npy.h"
#include "TestSupport.h"

#include "gtest/gtest.h"

#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace attnrt;

namespace {

class Npy : public ::testing::Test {
protected:
  void SetUp() override {
    char pattern[] = "/tmp/attn-npy-test-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    directory = pattern;
    path = directory + "/a.npy";
  }
  void TearDown() override {
    for (const std::string &name : listFiles())
      unlink((directory + "/" + name).c_str());
    rmdir(directory.c_str());
  }

  std::vector<std::string> listFiles() const {
    std::vector<std::string> names;
    DIR *stream = opendir(directory.c_str());
    while (struct dirent *entry = readdir(stream))
      if (entry->d_name[0] != '.')
        names.emplace_back(entry->d_name);
    closedir(stream);
    return names;
  }

  void write(const std::string &bytes) const {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  /// A file with the given header and data.
  void write(int version, const std::string &header,
             const std::string &data) const {
    std::string bytes = "\x93NUMPY";
    bytes += static_cast<char>(version);
    bytes += '\0';
    for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
      bytes += static_cast<char>(header.size() >> (8 * i));
    write(bytes + header + data);
  }

  /// Expects reading to fail with a text that goes on after the file's name.
  void expectError(int32_t status, const std::string &text) {
    HostTensor tensor;
    EXPECT_EQ(readNpy(path, tensor), status);
    EXPECT_EQ(std::string(attnGetLastError()), path + ": " + text);
  }

  std::string directory;
  std::string path;
};

std::string header(const std::string &descr, const std::string &shape,
                   const std::string &order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order +
         ", 'shape': " + shape + ", }\n";
}

} // namespace

TEST_F(Npy, RoundTripOfAllDTypesAndLayouts) {
  const std::vector<std::vector<int64_t>> shapes = {
      {}, {3}, {2, 3}, {2, 3, 4, 5}, {0, 4}};
  for (int32_t dtype = ATTN_BF16; dtype <= ATTN_F8E5M2; ++dtype)
    for (const auto &shape : shapes)
      for (Layout layout : {Layout::BHSD, Layout::BSHD}) {
        HostTensor tensor, back;
        ASSERT_EQ(HostTensor::create(dtype, shape, layout, tensor), ATTN_OK);
        for (int64_t i = 0; i < tensor.getNumElements(); ++i)
          tensor.store(tensor.getOffset(i), i % 100);
        ASSERT_EQ(writeNpy(path, tensor), ATTN_OK) << attnGetLastError();
        ASSERT_EQ(readNpy(path, back), ATTN_OK) << attnGetLastError();
        EXPECT_EQ(back.getDType(), dtype);
        EXPECT_EQ(back.getShape(), shape);
        for (int64_t i = 0; i < tensor.getNumElements(); ++i)
          EXPECT_EQ(back.load(i), tensor.load(tensor.getOffset(i)));
      }
  EXPECT_EQ(listFiles(), std::vector<std::string>{"a.npy"});
}

TEST_F(Npy, WritesWhatNumPyWrites) {
  HostTensor tensor;
  ASSERT_EQ(HostTensor::create(ATTN_F32, {2, 1}, Layout::BHSD, tensor),
            ATTN_OK);
  tensor.store(0, 1);
  tensor.store(1, -2);
  ASSERT_EQ(writeNpy(path, tensor), ATTN_OK);
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  std::string text =
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }";
  std::string expected("\x93NUMPY\x01\x00\x76\x00", 10);
  expected += text + std::string(117 - text.size(), ' ') + "\n";
  expected += std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0", 8);
  EXPECT_EQ(bytes, expected);
}

TEST_F(Npy, AllVersions) {
  std::string data("\x01\x00\x00\x00", 4);
  for (int version : {1, 2, 3}) {
    write(version, header("<i4", "(1,)"), data);
    HostTensor tensor;
    ASSERT_EQ(readNpy(path, tensor), ATTN_OK) << attnGetLastError();
    EXPECT_EQ(tensor.load(0), 1);
  }
  write(4, header("<i4", "(1,)"), data);
  expectError(ATTN_IO_ERROR,
              "version 4 of the .npy format is not supported (expected 1 to "
              "3)");
}

TEST_F(Npy, Bf16Spellings) {
  for (const char *descr : {"<V2", "|V2", "bfloat16"}) {
    write(1, header(descr, "(1,)"), "\x80\x3f");
    HostTensor tensor;
    ASSERT_EQ(readNpy(path, tensor), ATTN_OK) << attnGetLastError();
    EXPECT_EQ(tensor.getDType(), ATTN_BF16);
    EXPECT_EQ(tensor.load(0), 1);
  }
}

TEST_F(Npy, FortranOrder) {
  write(1, header("<i4", "(2, 2)", "True"), std::string(16, '\0'));
  expectError(ATTN_BAD_STRIDES,
              "data is in Fortran order, expected C order (save "
              "numpy.ascontiguousarray(a))");
  // The orders are one if at most one dimension is longer than 1.
  write(1, header("<i4", "(1, 2)", "True"), std::string(8, '\0'));
  HostTensor tensor;
  EXPECT_EQ(readNpy(path, tensor), ATTN_OK);
}

TEST_F(Npy, DTypes) {
  const char *rest =
      "' is not supported (expected little-endian f2, f4, f8, "
      "i1, i4, i8, b1, bfloat16 as V2, f8E4M3FN as V1, or f8E5M2 as f1)";
  for (const char *descr : {">f4", "<c8", "<u4", "|O", "f4", ""}) {
    write(1, header(descr, "(1,)"), std::string(8, '\0'));
    expectError(ATTN_DTYPE_MISMATCH, "dtype '" + std::string(descr) + rest);
  }
  write(1, "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,)}\n",
        std::string(4, '\0'));
  expectError(ATTN_DTYPE_MISMATCH, "structured dtypes are not supported");
}

TEST_F(Npy, MissingFile) {
  HostTensor tensor;
  std::string missing = directory + "/b.npy";
  EXPECT_ERROR(readNpy(missing, tensor), ATTN_IO_ERROR,
               (missing + ": cannot open: No such file or directory").c_str());
}

TEST_F(Npy, Truncated) {
  write("");
  expectError(ATTN_IO_ERROR,
              "not a .npy file (expected it to begin with \\x93NUMPY)");
  write("PK\x03\x04 something else");
  expectError(ATTN_IO_ERROR,
              "not a .npy file (expected it to begin with \\x93NUMPY)");
  write("\x93NUMPY\x01");
  expectError(ATTN_IO_ERROR,
              "truncated .npy file: ends after 7 bytes, in the version");
  write(std::string("\x93NUMPY\x01\x00\x40", 9));
  expectError(ATTN_IO_ERROR,
              "truncated .npy file: ends in the length of the header");
  write(std::string("\x93NUMPY\x01\x00\x40\x00{'des", 15));
  expectError(ATTN_IO_ERROR,
              "truncated .npy file: header has 5 bytes, expected 64");
  write(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12));
  expectError(ATTN_IO_ERROR,
              ".npy header of 4294967295 bytes is too long (expected at most "
              "1048576)");
  write(1, header("<f4", "(2, 3)"), std::string(20, '\0'));
  expectError(ATTN_IO_ERROR, "truncated .npy file: 20 bytes of data, expected "
                             "24 for shape 2x3 of f32");
  write(1, header("<f4", "(2, 3)"), std::string(25, '\0'));
  expectError(ATTN_IO_ERROR, "trailing bytes in .npy file: 25 bytes of data, "
                             "expected 24 for shape 2x3 of f32");
  write(1, header("<f4", "(4611686018427387904, 4)"), "");
  expectError(ATTN_IO_ERROR,
              "truncated .npy file: 0 bytes of data, expected more than "
              "9223372036854775807 for shape 4611686018427387904x4 of f32");
}

TEST_F(Npy, MalformedHeaders) {
  const struct {
    const char *header;
    const char *message;
  } cases[] = {
      {"", "malformed .npy header at byte 0: expected '{', found ''"},
      {"{'descr' '<f4'}",
       "malformed .npy header at byte 9: expected ':', found ''<f4'}'"},
      {"{'descr': '<f4', 'x': 1}",
       "malformed .npy header at byte 17: expected 'descr', 'fortran_order' or "
       "'shape', found ''x': 1}'"},
      {"{'descr': '<f4}",
       "malformed .npy header at byte 10: expected a string that ends, found "
       "''<f4}'"},
      {"{'fortran_order': 1}",
       "malformed .npy header at byte 18: expected True or False, found '1}'"},
      {"{'shape': 3}",
       "malformed .npy header at byte 10: expected a tuple of sizes, found "
       "'3}'"},
      {"{'shape': (3 4)}",
       "malformed .npy header at byte 13: expected ',' or ')', found '4)}'"},
      {"{'shape': (-3,)}",
       "malformed .npy header at byte 11: expected a size, found '-3,)}'"},
      {"{'shape': (99999999999999999999,)}",
       "malformed .npy header at byte 11: expected a size that fits in 64 "
       "bits, found '99999999999999999999'"},
      {"{'shape': (3,), 'descr': '<f4'}",
       "malformed .npy header: 'fortran_order' is missing"},
      {"{'shape': (3,)", "malformed .npy header at byte 14: expected ',' or "
                         "'}', found ''"},
  };
  for (const auto &test : cases) {
    write(1, test.header, "");
    expectError(ATTN_IO_ERROR, test.message);
  }
}

TEST_F(Npy, KeepsPipesAndLinks) {
  HostTensor tensor;
  ASSERT_EQ(HostTensor::create(ATTN_F32, {4}, Layout::BHSD, tensor), ATTN_OK);
  std::string pipe = directory + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  EXPECT_EQ(writeNpy(pipe, tensor), ATTN_OK) << attnGetLastError();
  char begin[6] = {};
  EXPECT_EQ(read(reader, begin, sizeof begin), 6);
  EXPECT_EQ(memcmp(begin, "\x93NUMPY", 6), 0);
  close(reader);
  struct stat status;
  ASSERT_EQ(lstat(pipe.c_str(), &status), 0);
  EXPECT_TRUE(S_ISFIFO(status.st_mode));

  std::string link = directory + "/link";
  write("");
  ASSERT_EQ(symlink(path.c_str(), link.c_str()), 0);
  EXPECT_EQ(writeNpy(link, tensor), ATTN_OK) << attnGetLastError();
  ASSERT_EQ(lstat(link.c_str(), &status), 0);
  EXPECT_TRUE(S_ISLNK(status.st_mode));
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_GT(status.st_size, 16);
  EXPECT_EQ(listFiles().size(), 3u);
}

TEST_F(Npy, FollowsLinksToNewFiles) {
  HostTensor tensor;
  ASSERT_EQ(HostTensor::create(ATTN_F32, {4}, Layout::BHSD, tensor), ATTN_OK);
  // The links name the file relative to their own folder, and by its path.
  std::string relative = directory + "/relative", first = directory + "/first";
  ASSERT_EQ(symlink("new.npy", relative.c_str()), 0);
  ASSERT_EQ(symlink(relative.c_str(), first.c_str()), 0);
  EXPECT_EQ(writeNpy(first, tensor), ATTN_OK) << attnGetLastError();
  struct stat status;
  for (const std::string &link : {relative, first}) {
    ASSERT_EQ(lstat(link.c_str(), &status), 0);
    EXPECT_TRUE(S_ISLNK(status.st_mode));
  }
  ASSERT_EQ(lstat((directory + "/new.npy").c_str(), &status), 0);
  EXPECT_TRUE(S_ISREG(status.st_mode));
  EXPECT_EQ(listFiles().size(), 3u);

  std::string cycle = directory + "/cycle", lost = directory + "/lost";
  ASSERT_EQ(symlink("cycle", cycle.c_str()), 0);
  EXPECT_ERROR(
      writeNpy(cycle, tensor), ATTN_IO_ERROR,
      (cycle + ": cannot follow the link: Too many levels of symbolic links")
          .c_str());
  ASSERT_EQ(symlink("none/new.npy", lost.c_str()), 0);
  EXPECT_EQ(writeNpy(lost, tensor), ATTN_IO_ERROR);
  ASSERT_EQ(lstat(lost.c_str(), &status), 0);
  EXPECT_TRUE(S_ISLNK(status.st_mode));
  EXPECT_EQ(listFiles().size(), 5u);
}

TEST_F(Npy, FailedWriteLeavesNothing) {
  HostTensor tensor;
  ASSERT_EQ(HostTensor::create(ATTN_F32, {4}, Layout::BHSD, tensor), ATTN_OK);
  EXPECT_EQ(writeNpy(directory + "/none/a.npy", tensor), ATTN_IO_ERROR);
  // The name is taken by a directory: the last step fails.
  ASSERT_EQ(mkdir(path.c_str(), 0777), 0);
  EXPECT_EQ(writeNpy(path, tensor), ATTN_IO_ERROR);
  EXPECT_EQ(listFiles(), std::vector<std::string>{"a.npy"});
  rmdir(path.c_str());
}

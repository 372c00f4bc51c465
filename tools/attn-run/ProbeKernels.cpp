//===- ProbeKernels.cpp - Kernels that keep one unit busy -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each kernel is a loop of independent chains of one instruction, long enough
// that the loop itself does not count. Results go into a store that is never
// made, so that nothing is removed.
//
//===----------------------------------------------------------------------===//

#include "ProbeKernels.h"

using namespace attnrt;

static std::string number(int64_t value) { return std::to_string(value); }

/// "%f0,%f1,...": `count` registers from `first` on.
static std::string registers(const std::string &name, int first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += (i ? ",%" : "%") + name + number(first + i);
  return text;
}

static std::string header(bool isArchSpecific) {
  return std::string(".version ") + (isArchSpecific ? "8.0" : "7.0") +
         "\n.target " + (isArchSpecific ? "sm_90a" : "sm_80") +
         "\n.address_size 64\n";
}

/// The loop around `body`; `setup` comes before it, and `use` makes a 32-bit
/// %sink of all results.
static std::string loop(const std::string &name, bool isArchSpecific,
                        const std::string &declarations,
                        const std::string &setup, const std::string &body,
                        const std::string &use) {
  return header(isArchSpecific) + ".visible .entry " + name +
         "(.param .u64 out, .param .u32 repeats)\n{\n" + declarations +
         R"(
  .reg .pred %again, %never, %first;
  .reg .b32 %thread, %block, %count, %sink;
  .reg .b64 %results, %offset, %begin, %end, %t0, %t1;
  mov.u32 %thread, %tid.x;
  mov.u32 %block, %ctaid.x;
  ld.param.u32 %count, [repeats];
  ld.param.u64 %results, [out];
  cvta.to.global.u64 %results, %results;
)" + setup +
         R"(
  bar.sync 0;
  mov.u64 %begin, %clock64;
  mov.u64 %t0, %globaltimer;
LOOP:
)" + body +
         R"(
  sub.u32 %count, %count, 1;
  setp.ne.u32 %again, %count, 0;
  @%again bra LOOP;
  bar.sync 0;
  mov.u64 %end, %clock64;
  mov.u64 %t1, %globaltimer;
)" + use +
         R"(
  mul.wide.u32 %offset, %block, 16;
  add.u64 %results, %results, %offset;
  setp.eq.u32 %never, %sink, 0x7fb1a5e3;
  @%never st.global.u32 [%results], %sink;
  setp.eq.u32 %first, %thread, 0;
  sub.u64 %end, %end, %begin;
  sub.u64 %t1, %t1, %t0;
  @%first st.global.v2.u64 [%results], {%end, %t1};
  ret;
}
)";
}

/// Chains of one instruction on registers of one kind.
namespace {
struct Chains {
  const char *name;
  /// Of the register: "f" for f32, "b" for 32 bits.
  char kind;
  /// The instruction, with I and J for a chain's register and its neighbour's.
  const char *code;
};
} // namespace

static constexpr int numChains = 8, numRounds = 8;

static std::string replaceAll(std::string text, const std::string &from,
                              const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;
       at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

static UnitKernel makeChains(const Chains &chains) {
  constexpr int32_t threads = 1024;
  std::string declarations = std::string("  .reg .") +
                             (chains.kind == 'f' ? "f32" : "b32") +
                             " %x<8>;\n"
                             "  .reg .b32 %h<8>;\n  .reg .b64 %d<8>;\n"
                             "  .reg .b32 %bits;\n";
  std::string setup, body, use = "  mov.u32 %sink, 0;\n";
  for (int i = 0; i < numChains; ++i) {
    std::string x = "%x" + number(i);
    setup +=
        "  add.u32 %h" + number(i) + ", %thread, " + number(3 * i + 1) + ";\n";
    setup += chains.kind == 'f'
                 ? "  cvt.rn.f32.u32 " + x + ", %h" + number(i) + ";\n"
                 : "  mov.b32 " + x + ", %h" + number(i) + ";\n";
    use += "  mov.b32 %bits, " + x + ";\n  xor.b32 %sink, %sink, %bits;\n";
  }
  for (int round = 0; round < numRounds; ++round)
    for (int i = 0; i < numChains; ++i) {
      std::string code = replaceAll(chains.code, "I", number(i));
      body += "  " + replaceAll(code, "J", number((i + 1) % numChains)) + "\n";
    }
  return {chains.name,
          loop(chains.name, /*isArchSpecific=*/false, declarations, setup, body,
               use),
          threads, double(threads) * numChains * numRounds};
}

/// Reads of 16 bytes from shared memory, each thread at its own place.
static UnitKernel makeShared() {
  constexpr int32_t threads = 1024;
  constexpr int reads = 16;
  // Reads at one place, or of what nobody uses, would become one.
  constexpr int step = 1024;
  std::string declarations = "  .reg .b32 %v<4>, %at, %sum;\n"
                             "  .shared .align 16 .b8 tile[32768];\n";
  std::string setup =
      "  mov.u32 %at, tile;\n"
      "  mad.lo.u32 %at, %thread, 16, %at;\n"
      "  mov.u32 %sum, 0;\n"
      "  st.shared.v4.u32 [%at], {%thread,%thread,%thread,%thread};\n";
  std::string body;
  for (int i = 0; i < reads; ++i) {
    body += "  ld.volatile.shared.v4.u32 {" + registers("v", 0, 4) +
            "}, [%at+" + number(step * i) + "];\n";
    for (int j = 0; j < 4; ++j)
      body += "  xor.b32 %sum, %sum, %v" + number(j) + ";\n";
  }
  return {"shared_bytes_per_cycle",
          loop("shared_bytes_per_cycle", /*isArchSpecific=*/false, declarations,
               setup, body, "  mov.u32 %sink, %sum;\n"),
          threads, double(threads) * reads * 16};
}

/// MMAs of warps, in 8 independent accumulators each.
static UnitKernel makeWarpMma(const char *figure, const char *shape,
                              const char *types, int depth, int lhs, int rhs) {
  constexpr int32_t threads = 512, numWarps = threads / 32;
  constexpr int accumulators = 8;
  std::string declarations = "  .reg .f32 %c<" + number(4 * accumulators) +
                             ">;\n  .reg .b32 %a<4>, %b<2>;\n";
  std::string setup, body, use = "  mov.b32 %sink, %c0;\n";
  // Small numbers of both kinds.
  for (int i = 0; i < 4; ++i)
    setup += "  or.b32 %a" + number(i) + ", %thread, 0x3c003c00;\n";
  for (int i = 0; i < 2; ++i)
    setup += "  or.b32 %b" + number(i) + ", %thread, 0x3c003c00;\n";
  for (int i = 0; i < 4 * accumulators; ++i)
    setup += "  mov.f32 %c" + number(i) + ", 0f00000000;\n";
  for (int i = 0; i < accumulators; ++i) {
    std::string sums = registers("c", 4 * i, 4);
    body += std::string("  mma.sync.aligned.") + shape + ".row.col.f32." +
            types + ".f32 {" + sums + "}, {" + registers("a", 0, lhs) + "}, {" +
            registers("b", 0, rhs) + "}, {" + sums + "};\n";
  }
  for (int i = 1; i < 4 * accumulators; ++i)
    use +=
        "  mov.b32 %b0, %c" + number(i) + ";\n  xor.b32 %sink, %sink, %b0;\n";
  return {
      figure,
      loop(figure, /*isArchSpecific=*/false, declarations, setup, body, use),
      threads, 2.0 * 16 * 8 * depth * accumulators * double(numWarps)};
}

/// MMAs of two warpgroups with both operands in shared memory.
static UnitKernel makeGroupMmas(const char *figure, const char *types,
                                int depth, bool hasTranspose) {
  constexpr int32_t threads = 256, numWarpgroups = threads / 128;
  constexpr int accumulators = 4, sums = 128;
  std::string declarations =
      "  .reg .f32 %c<128>;\n  .reg .pred %yes;\n  .reg .b32 %w, %h, %at;\n"
      "  .reg .b64 %da, %db, %address;\n"
      "  .shared .align 1024 .b8 tiles[40960];\n";
  // 64 rows of the left-hand side, then 256 of the right-hand one, of 128
  // swizzled bytes; numbers between 0.5 and 2.
  std::string setup = "  mov.u32 %at, tiles;\n  mov.u32 %w, %thread;\n"
                      "  setp.ne.u32 %yes, %w, 0xffffffff;\nFILL:\n"
                      "  mul.lo.u32 %h, %w, 0x9e3779b1;\n"
                      "  and.b32 %h, %h, 0x80ff80ff;\n"
                      "  or.b32 %h, %h, 0x3f003f00;\n"
                      "  mad.lo.u32 %sink, %w, 4, %at;\n"
                      "  st.shared.u32 [%sink], %h;\n"
                      "  add.u32 %w, %w, 256;\n"
                      "  setp.lt.u32 %again, %w, 10240;\n  @%again bra FILL;\n"
                      "  fence.proxy.async.shared::cta;\n"
                      "  shr.u32 %h, %at, 4;\n  and.b32 %h, %h, 0x3fff;\n"
                      "  cvt.u64.u32 %address, %h;\n"
                      "  or.b64 %da, %address, 0x4000004000010000;\n"
                      "  add.u64 %db, %da, 512;\n";
  for (int i = 0; i < sums; ++i)
    setup += "  mov.f32 %c" + number(i) + ", 0f00000000;\n";
  std::string body = "  wgmma.fence.sync.aligned;\n";
  for (int i = 0; i < accumulators; ++i)
    body += std::string("  wgmma.mma_async.sync.aligned.m64n256k") +
            number(depth) + ".f32." + types + " {" + registers("c", 0, sums) +
            "}, %da, %db, %yes, 1, 1" + (hasTranspose ? ", 0, 0" : "") + ";\n";
  body += "  wgmma.commit_group.sync.aligned;\n"
          "  wgmma.wait_group.sync.aligned 0;\n";
  std::string use = "  mov.b32 %sink, %c0;\n";
  for (int i = 1; i < sums; ++i)
    use += "  mov.b32 %w, %c" + number(i) + ";\n  xor.b32 %sink, %sink, %w;\n";
  return {figure,
          loop(figure, /*isArchSpecific=*/true, declarations, setup, body, use),
          threads,
          2.0 * 64 * 256 * depth * accumulators * double(numWarpgroups),
          /*isArchSpecific=*/true};
}

std::vector<UnitKernel> attnrt::getUnitKernels(int32_t major, int32_t minor) {
  std::vector<UnitKernel> kernels;
  if (major == 9 && minor == 0) {
    kernels.push_back(
        makeGroupMmas("mma_flops_per_cycle_32b", "tf32.tf32", 8, false));
    kernels.push_back(
        makeGroupMmas("mma_flops_per_cycle_16b", "bf16.bf16", 16, true));
    kernels.push_back(
        makeGroupMmas("mma_flops_per_cycle_8b", "e4m3.e4m3", 32, false));
  } else {
    kernels.push_back(makeWarpMma("mma_flops_per_cycle_32b", "m16n8k8",
                                  "tf32.tf32", 8,
                                  /*lhs=*/4, /*rhs=*/2));
    kernels.push_back(makeWarpMma("mma_flops_per_cycle_16b", "m16n8k16",
                                  "bf16.bf16", 16, /*lhs=*/4, /*rhs=*/2));
  }
  for (const Chains &chains :
       {Chains{"fma", 'f', "fma.rn.f32 %xI, %xI, %xI, %xJ;"},
        Chains{"special", 'f', "ex2.approx.ftz.f32 %xI, %xI;"},
        Chains{"integer", 'b', "lop3.b32 %xI, %xI, %xJ, %thread, 0xe8;"},
        Chains{"wide_multiply", 'b',
               "mul.wide.u32 %dI, %xI, %hI; mov.b64 {%xI, %hI}, %dI;"}})
    kernels.push_back(makeChains(chains));
  kernels.push_back(makeShared());
  return kernels;
}

std::string attnrt::getStreamKernel() {
  return header(/*isArchSpecific=*/false) +
         R"(.visible .entry stream(.param .u64 source, .param .u64 dest,
    .param .u64 count, .param .u32 passes)
{
  .reg .pred %more, %again, %copies, %never;
  .reg .b32 %thread, %block, %width, %blocks, %pass, %sink, %v<16>;
  .reg .b64 %from, %to, %n, %i, %step, %step4, %at, %bytes, %a, %b<4>;
  mov.u32 %thread, %tid.x;
  mov.u32 %block, %ctaid.x;
  mov.u32 %width, %ntid.x;
  mov.u32 %blocks, %nctaid.x;
  ld.param.u64 %from, [source];
  ld.param.u64 %to, [dest];
  ld.param.u64 %n, [count];
  ld.param.u32 %pass, [passes];
  setp.ne.u64 %copies, %to, 0;
  mul.wide.u32 %step, %width, %blocks;
  shl.b64 %step4, %step, 2;
  shl.b64 %bytes, %step, 4;
  mov.u32 %sink, 0;
PASS:
  mad.wide.u32 %i, %block, %width, 0;
  cvt.u64.u32 %a, %thread;
  add.u64 %i, %i, %a;
LOOP:
  shl.b64 %at, %i, 4;
  add.u64 %b0, %from, %at;
  add.u64 %b1, %b0, %bytes;
  add.u64 %b2, %b1, %bytes;
  add.u64 %b3, %b2, %bytes;
  ld.global.cg.v4.u32 {%v0,%v1,%v2,%v3}, [%b0];
  ld.global.cg.v4.u32 {%v4,%v5,%v6,%v7}, [%b1];
  ld.global.cg.v4.u32 {%v8,%v9,%v10,%v11}, [%b2];
  ld.global.cg.v4.u32 {%v12,%v13,%v14,%v15}, [%b3];
  @!%copies bra READ;
  add.u64 %b0, %to, %at;
  add.u64 %b1, %b0, %bytes;
  add.u64 %b2, %b1, %bytes;
  add.u64 %b3, %b2, %bytes;
  st.global.v4.u32 [%b0], {%v0,%v1,%v2,%v3};
  st.global.v4.u32 [%b1], {%v4,%v5,%v6,%v7};
  st.global.v4.u32 [%b2], {%v8,%v9,%v10,%v11};
  st.global.v4.u32 [%b3], {%v12,%v13,%v14,%v15};
  bra NEXT;
READ:
  lop3.b32 %v0, %v0, %v1, %v2, 0x96;
  lop3.b32 %v3, %v3, %v4, %v5, 0x96;
  lop3.b32 %v6, %v6, %v7, %v8, 0x96;
  lop3.b32 %v9, %v9, %v10, %v11, 0x96;
  lop3.b32 %v12, %v12, %v13, %v14, 0x96;
  lop3.b32 %v0, %v0, %v3, %v6, 0x96;
  lop3.b32 %v9, %v9, %v12, %v15, 0x96;
  lop3.b32 %sink, %sink, %v0, %v9, 0x96;
NEXT:
  add.u64 %i, %i, %step4;
  setp.lt.u64 %more, %i, %n;
  @%more bra LOOP;
  sub.u32 %pass, %pass, 1;
  setp.ne.u32 %again, %pass, 0;
  @%again bra PASS;
  setp.eq.u32 %never, %sink, 0x7fb1a5e3;
  @%never st.global.u32 [%from], %sink;
  ret;
}
)";
}

// RUN: attn-opt %s --attn-serialize-kernels=format=elf --verify-diagnostics

// expected-error @below {{unknown format 'elf' (expected ptx, cubin or llvm)}}
module {
}

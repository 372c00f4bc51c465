// RUN: attn-opt %s --attn-describe-arguments=target=sm_86 --verify-diagnostics
// RUN: attn-opt %s --attn-bufferization-pipeline=target=sm_86 --verify-diagnostics

// expected-error @below {{unknown target 'sm_86' (expected host, sm_80 or sm_90a)}}
module {}

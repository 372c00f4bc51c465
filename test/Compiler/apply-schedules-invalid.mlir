// RUN: attn-opt %s --attn-apply-schedules --verify-diagnostics

// expected-error @below {{'attn_tile.kernel' op has no schedule}}
attn_tile.kernel @k() {
  attn_tile.return
}

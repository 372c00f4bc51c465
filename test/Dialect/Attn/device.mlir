// RUN: attn-opt %s --split-input-file --verify-diagnostics | FileCheck %s

// What is as public figures say is not printed.
// CHECK: d0 = #attn.device<"a100">,
// CHECK-SAME: d1 = #attn.device<"b200">,
// CHECK-SAME: d2 = #attn.device<"h100">,
// CHECK-SAME: d3 = #attn.device<"h200", clock_mhz = 1500, memory_gbps = 4100>,
// CHECK-SAME: d4 = #attn.device<"host">,
// CHECK-SAME: d5 = #attn.device<"mine", sms = 2, clock_mhz = 1000, fma = 32, memory_bytes = 1000000, memory_gbps = 10>,
// CHECK-SAME: d6 = #attn.device<"h200", link_ns = 5000, host_devices = 4, network_gbps = 50, network_ns = 9000, link_percent = 80>
func.func private @devices() attributes {
  d0 = #attn.device<"a100">,
  d1 = #attn.device<"b200">,
  d2 = #attn.device<"h100", clock_mhz = 1830>,
  d3 = #attn.device<"h200", memory_gbps = 4100, clock_mhz = 1500>,
  d4 = #attn.device<"host">,
  d5 = #attn.device<"mine", sms = 2, clock_mhz = 1000, fma = 32, memory_gbps = 10, memory_bytes = 1000000>,
  d6 = #attn.device<"h200", link_gbps = 900, link_ns = 5000, link_percent = 80, host_devices = 4, network_gbps = 50, network_ns = 9000>
}

// -----

// CHECK: module attributes {attn.device = #attn.device<"h200">}
module attributes {attn.device = #attn.device<"h200">} {}

// -----

// expected-error @below {{unknown device "h300"; did you mean 'h100'? (expected a100, h100, h200, b200, host, or another name with figures)}}
func.func private @unknown() attributes {d = #attn.device<"h300">}

// -----

// expected-error @below {{'sms' of device "mine" must be positive (was 0)}}
func.func private @missing() attributes {d = #attn.device<"mine", clock_mhz = 1000>}

// -----

// expected-error @below {{'l2_bytes' of device "h200" must be non-negative (was -1)}}
func.func private @negative() attributes {d = #attn.device<"h200", l2_bytes = -1>}

// -----

// expected-error @below {{'memory_percent' of device "h200" must be at most 100 (was 101)}}
func.func private @percent() attributes {d = #attn.device<"h200", memory_percent = 101>}

// -----

// expected-error @below {{'link_percent' of device "h200" must be at most 100 (was 120)}}
func.func private @link_percent() attributes {d = #attn.device<"h200", link_percent = 120>}

// -----

// expected-error @below {{'network_ns' of device "h200" must be non-negative (was -1)}}
func.func private @network() attributes {d = #attn.device<"h200", network_ns = -1>}

// -----

// expected-error @below {{device must have a name}}
func.func private @name() attributes {d = #attn.device<"", clock_mhz = 1000>}

// -----

// expected-error @below {{unknown figure 'clock' (expected sms, clock_mhz,}}
func.func private @figure() attributes {d = #attn.device<"h200", clock = 1000>}

// -----

// expected-error @below {{figure 'fma' is given twice}}
func.func private @twice() attributes {d = #attn.device<"h200", fma = 1, fma = 2>}

// -----

// expected-error @below {{'attn.device' must be #attn.device (was "h200")}}
module attributes {attn.device = "h200"} {}

// -----

// expected-error @below {{cannot have 'attn.device' (expected on a module)}}
func.func private @function() attributes {attn.device = #attn.device<"h200">}

// Where the assembler and libdevice are looked for: in what is named on the
// command line, then in the environment, in the path, and in the package
// nvidia-cuda-nvcc next to Attn's own package for Python or in the active
// virtual environment. Failing stand-ins show which was found.

// RUN: rm -rf %t && mkdir -p %t/named/bin %t/home/bin %t/path
// RUN: mkdir -p %t/venv/lib/python3.11/site-packages/nvidia/cu12/bin
// RUN: mkdir -p %t/venv/lib/python3.11/site-packages/nvidia/cu13/bin
// RUN: mkdir -p %t/venv/lib/python3.11/site-packages/nvidia/cu13/nvvm/libdevice
// RUN: cp %S/Inputs/fake-ptxas.sh %t/named/bin/ptxas
// RUN: cp %S/Inputs/fake-ptxas.sh %t/home/bin/ptxas
// RUN: cp %S/Inputs/fake-ptxas.sh %t/path/ptxas
// RUN: cp %S/Inputs/fake-ptxas.sh %t/venv/lib/python3.11/site-packages/nvidia/cu12/bin/ptxas
// RUN: cp %S/Inputs/fake-ptxas.sh %t/venv/lib/python3.11/site-packages/nvidia/cu13/bin/ptxas
// RUN: echo "no bitcode" > %t/venv/lib/python3.11/site-packages/nvidia/cu13/nvvm/libdevice/libdevice.10.bc
// RUN: split-file %s %t

// RUN: not env CUDA_HOME=%t/home PATH=%t/path VIRTUAL_ENV=%t/venv attn-compile %t/plain.mlir --target=sm_90a --emit=cubin -o %t/out --cuda-path=%t/named \
// RUN:   2>&1 | FileCheck %s --check-prefix=NAMED
// NAMED: error: '{{.*}}/named/bin/ptxas' failed: no assembler

// RUN: not env -u CUDA_ROOT CUDA_HOME=%t/home PATH=%t/path VIRTUAL_ENV=%t/venv attn-compile %t/plain.mlir --target=sm_90a --emit=cubin -o %t/out \
// RUN:   2>&1 | FileCheck %s --check-prefix=HOME
// HOME: error: '{{.*}}/home/bin/ptxas' failed: no assembler

// RUN: not env -u CUDA_ROOT -u CUDA_HOME -u CUDA_PATH PATH=%t/path VIRTUAL_ENV=%t/venv attn-compile %t/plain.mlir --target=sm_90a --emit=cubin -o %t/out \
// RUN:   2>&1 | FileCheck %s --check-prefix=PATH
// PATH: error: '{{.*}}/path/ptxas' failed: no assembler

// The package of the newest toolkit.
// RUN: not env -u CUDA_ROOT -u CUDA_HOME -u CUDA_PATH PATH=%t/none VIRTUAL_ENV=%t/venv attn-compile %t/plain.mlir --target=sm_90a --emit=cubin -o %t/out \
// RUN:   2>&1 | FileCheck %s --check-prefix=VENV
// VENV: error: '{{.*}}/venv/lib/python3.11/site-packages/nvidia/cu13/bin/ptxas' failed: no assembler

// The package next to the package attn, without any variable.
// RUN: mkdir -p %t/site/attn/bin %t/site/nvidia/cu13/bin && cp %attn_obj_root/bin/attn-compile %t/site/attn/bin
// RUN: cp %S/Inputs/fake-ptxas.sh %t/site/nvidia/cu13/bin/ptxas
// RUN: cd %t/site && not env -u CUDA_ROOT -u CUDA_HOME -u CUDA_PATH -u VIRTUAL_ENV PATH=%t/none attn/bin/attn-compile %t/plain.mlir \
// RUN:   --target=sm_90a --emit=cubin -o %t/out 2>&1 | FileCheck %s --check-prefix=SITE
// SITE: error: '{{.*}}/site/nvidia/cu13/bin/ptxas' failed: no assembler

// RUN: not env -u CUDA_ROOT -u CUDA_HOME -u CUDA_PATH PATH=%t/none VIRTUAL_ENV=%t/venv attn-compile %t/device-library.mlir --target=sm_90a --emit=ptx \
// RUN:   -o %t/out 2>&1 | FileCheck %s --check-prefix=LIBDEVICE
// LIBDEVICE: error: could not read '{{.*}}/venv/lib/python3.11/site-packages/nvidia/cu13/nvvm/libdevice/libdevice.10.bc'

// No folder is searched but the named one.
// RUN: not env CUDA_HOME=%t/home PATH=%t/path VIRTUAL_ENV=%t/venv attn-compile %t/plain.mlir --target=sm_90a --emit=cubin -o %t/out --cuda-path=%t/none \
// RUN:   2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: needs the assembler ptxas of the CUDA toolkit, which was not found in {{.*}}/none; set CUDA_HOME or install the package nvidia-cuda-nvcc
// RUN: not env VIRTUAL_ENV=%t/venv attn-compile %t/device-library.mlir --target=sm_90a --emit=ptx -o %t/out --cuda-path=%t/none \
// RUN:   2>&1 | FileCheck %s --check-prefix=NO-LIBDEVICE
// NO-LIBDEVICE: error: needs '__nv_{{.*}}' of the CUDA toolkit's libdevice.10.bc, which was not found in {{.*}}/none;
// NO-LIBDEVICE-SAME:     set CUDA_HOME or install the package nvidia-cuda-nvcc

// RUN: not test -e %t/out

//--- plain.mlir
func.func @plain(%q: tensor<1x1x?x64xbf16>, %k: tensor<1x1x?x64xbf16>, %v: tensor<1x1x?x64xbf16>,
                 %o: tensor<1x1x?x64xbf16>) -> tensor<1x1x?x64xbf16> {
  %0 = attn.attention
      ins(%q, %k, %v : tensor<1x1x?x64xbf16>, tensor<1x1x?x64xbf16>, tensor<1x1x?x64xbf16>)
      outs(%o : tensor<1x1x?x64xbf16>) -> tensor<1x1x?x64xbf16>
  return %0 : tensor<1x1x?x64xbf16>
}

//--- device-library.mlir
func.func @device_library(%q: tensor<1x1x?x64xbf16>, %k: tensor<1x1x?x64xbf16>, %v: tensor<1x1x?x64xbf16>,
                          %o: tensor<1x1x?x64xbf16>) -> tensor<1x1x?x64xbf16> {
  %0 = attn.attention
      ins(%q, %k, %v : tensor<1x1x?x64xbf16>, tensor<1x1x?x64xbf16>, tensor<1x1x?x64xbf16>)
      outs(%o : tensor<1x1x?x64xbf16>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %t = math.erf %s : f32
        attn.yield %t : f32
      } -> tensor<1x1x?x64xbf16>
  return %0 : tensor<1x1x?x64xbf16>
}

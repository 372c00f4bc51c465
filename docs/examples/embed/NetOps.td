//===- NetOps.td - A dialect of small networks -------------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef NET_OPS_TD
#define NET_OPS_TD

include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Net_Dialect : Dialect {
  let name = "net";
  let summary = "operations of small networks";
  let cppNamespace = "::net";
}

class Net_Op<string mnemonic, list<Trait> traits = []>
    : Op<Net_Dialect, mnemonic, !listconcat([Pure], traits)>;

def Net_Tensor : StaticShapeTensorOf<[F32]>;
/// Batch, heads, positions and channels.
def Net_HeadTensor
    : ConfinedType<Net_Tensor, [HasAnyRankOfPred<[4]>], "4-dimensional f32 tensor">;

def Net_RmsNormOp : Net_Op<"rms_norm", [SameOperandsAndResultType]> {
  let summary = "division by the root of the mean square of each row";
  let arguments = (ins Net_Tensor:$input);
  let results = (outs Net_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Net_AddOp : Net_Op<"add", [SameOperandsAndResultType]> {
  let summary = "sum of elements";
  let arguments = (ins Net_Tensor:$lhs, Net_Tensor:$rhs);
  let results = (outs Net_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs)";
}

def Net_SelfAttentionOp : Net_Op<"self_attention", [SameOperandsAndResultType]> {
  let summary = "attention of positions to themselves and those before";
  let arguments = (ins Net_HeadTensor:$query, Net_HeadTensor:$key, Net_HeadTensor:$value);
  let results = (outs Net_HeadTensor:$result);
  let assemblyFormat = "$query `,` $key `,` $value attr-dict `:` type($query)";
}

def Net_CallKernelOp : Net_Op<"call_kernel"> {
  let summary = "call of a function that another compiler has compiled";
  let arguments = (ins StrAttr:$kernel, Variadic<Net_Tensor>:$inputs);
  let results = (outs Net_Tensor:$result);
  let assemblyFormat = "$kernel `(` $inputs `)` attr-dict `:` functional-type($inputs, $result)";
}

#endif // NET_OPS_TD

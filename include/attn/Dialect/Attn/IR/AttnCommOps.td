//===- AttnCommOps.td - Communication of ranks -------------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Communication between the ranks of a group, of which each has a shard.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_IR_ATTNCOMMOPS_TD
#define ATTN_DIALECT_ATTN_IR_ATTNCOMMOPS_TD

include "attn/Dialect/Attn/IR/AttnOps.td"

/// Elements that are whole bytes.
def Attn_CommTensor
    : Type<And<[Or<[AnyRankedTensor.predicate, AnyMemRef.predicate]>,
                CPred<"::mlir::getElementTypeOrSelf($_self).isIntOrFloat()">,
                CPred<"::mlir::getElementTypeOrSelf($_self)"
                      ".getIntOrFloatBitWidth() % 8 == 0">]>,
           "ranked tensor or memref of elements of whole bytes">;

/// An operation by which ranks communicate: it uses the communicator of the
/// thread that runs it.
def Attn_Communicates : NativeOpTrait<"Communicates"> {
  let cppNamespace = "::mlir::attn";
}

class Attn_CommOp<string mnemonic, list<Trait> traits = []>
    : Attn_Op<"comm." # mnemonic, !listconcat(traits, [
        Attn_Communicates, DestinationStyleOpInterface,
        DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface,
                                  ["reifyResultShapes"]>,
        DeclareOpInterfaceMethods<MemoryEffectsOpInterface>])> {
  let results = (outs Optional<AnyRankedTensor>:$result);
  let hasVerifier = 1;
  code commonDeclaration = [{
    /// Whether the operands are memrefs.
    bool isBufferized() {
      return ::llvm::isa<::mlir::MemRefType>(getReceived().getType());
    }
    /// DestinationStyleOpInterface.
    ::mlir::MutableOperandRange getDpsInitsMutable() {
      return getReceivedMutable();
    }
  }];
  let extraClassDeclaration = commonDeclaration;
}

def Attn_CommRankOp : Attn_Op<"comm.rank", [Attn_Communicates, NoMemoryEffect]> {
  let summary = "the rank that runs the function";
  let description = [{
    The number of the rank that runs the operation, from 0 to `ranks - 1`. A function
    that communicates is called once for each rank of a group, by a thread that has
    the rank's communicator (`attn_comm_set_current`). The runtime reports an error if
    the thread has none, or if the group does not have `ranks` ranks.

    ```mlir
    %rank = attn.comm.rank ranks(4)
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntPositive]>:$ranks);
  let results = (outs Index:$rank);
  let assemblyFormat = "`ranks` `(` $ranks `)` attr-dict";
}

def Attn_SendRecvOp : Attn_CommOp<"send_recv"> {
  let summary = "send a tensor to one rank and receive one from another";
  let description = [{
    Sends the elements of `sent` to rank `to`, and returns the elements that rank
    `from` sends to this one, in the shape of `received`. Both may be the same rank,
    and may be this one. Rank -1 is none: nothing is sent, or `received` keeps its
    elements.

    All ranks of a group run operations that communicate in the same order. Operations
    of two ranks match in their order, and the rank that is received from sends as many
    bytes as `received` has. The runtime reports a number of bytes that does not match,
    and a rank that is neither -1 nor in the group, as an error on all ranks.

    The operation is in destination style. Memrefs have the identity layout, and
    `sent` and `received` share no memory.

    ```mlir
    %next_key = attn.comm.send_recv ins(%key : tensor<1x8x1024x128xbf16>)
        to(%next) from(%previous) outs(%init : tensor<1x8x1024x128xbf16>)
        -> tensor<1x8x1024x128xbf16>
    ```
  }];
  let arguments = (ins Attn_CommTensor:$sent, Index:$to, Index:$from,
                       Attn_CommTensor:$received);
  let assemblyFormat = [{
    `ins` `(` $sent `:` type($sent) `)` `to` `(` $to `)` `from` `(` $from `)`
    `outs` `(` $received `:` type($received) `)` attr-dict (`->` type($result)^)?
  }];
}

def Attn_AllGatherOp : Attn_CommOp<"all_gather"> {
  let summary = "the tensors of all ranks";
  let description = [{
    Element `[r, ...]` of the result is element `[...]` of `sent` on rank `r`. So the
    first dimension of `received` is the number of ranks. The runtime reports an error
    if the group has another number of ranks. Otherwise as `attn.comm.send_recv`.

    ```mlir
    %keys = attn.comm.all_gather ins(%key : tensor<1x8x1024x128xbf16>)
        outs(%init : tensor<4x1x8x1024x128xbf16>) -> tensor<4x1x8x1024x128xbf16>
    ```
  }];
  let arguments = (ins Attn_CommTensor:$sent, Attn_CommTensor:$received);
  let assemblyFormat = [{
    `ins` `(` $sent `:` type($sent) `)` `outs` `(` $received `:` type($received) `)`
    attr-dict (`->` type($result)^)?
  }];
}

def Attn_AllToAllOp : Attn_CommOp<"all_to_all"> {
  let summary = "a part of the tensor of each rank";
  let description = [{
    Element `[r, ...]` of the result is element `[p, ...]` of `sent` on rank `r`, where
    `p` is the rank that runs the operation. So the first dimension of `sent` and
    `received` is the number of ranks. The runtime reports an error if the group has
    another number of ranks. Otherwise as `attn.comm.send_recv`.

    ```mlir
    %parts = attn.comm.all_to_all ins(%query : tensor<4x1x8x1024x128xbf16>)
        outs(%init : tensor<4x1x8x1024x128xbf16>) -> tensor<4x1x8x1024x128xbf16>
    ```
  }];
  let arguments = (ins Attn_CommTensor:$sent, Attn_CommTensor:$received);
  let assemblyFormat = [{
    `ins` `(` $sent `:` type($sent) `)` `outs` `(` $received `:` type($received) `)`
    attr-dict (`->` type($result)^)?
  }];
}

#endif // ATTN_DIALECT_ATTN_IR_ATTNCOMMOPS_TD

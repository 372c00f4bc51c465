//===- Passes.td - Shards on several ranks -----------------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Passes that distribute attention over ranks.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DISTRIBUTED_PASSES_TD
#define ATTN_DISTRIBUTED_PASSES_TD

include "attn/Support/PassBase.td"

def AttnShardAttentionPass
    : Attn_Pass<"attn-shard-attention", "::mlir::ModuleOp"> {
  let summary = "turn functions into functions of one rank of several";
  let description = [{
    Distributes the queries, keys and values of `attn.attention`,
    `attn.linear_attention` and their gradients over the ranks of a group by their
    positions (sequence or context parallelism). A function of the whole tensors becomes
    the function that each rank calls: of `ranks` equal chunks, rank `r` has chunk `r` of
    the queries, keys and values, and gets chunk `r` of the results. All else, such as
    seeds, sinks, states and tensors that regions read, is the same on all ranks.
    `attn.comm.rank` tells the ranks apart. Each rank reads the words of its chunks and heads
    of a `dropout_mask`, of which it has the whole. The `identity` of a row takes the value of the same row,
    which is on the same rank: operations of linalg on rows mix it with the result.

    `positions` gives each attention its global coordinates, so that masks, regions
    and dropout do the same as in the whole. A mask decides which ranks need which chunks of
    keys: a chunk that none of a rank's queries attends is not computed, and not sent
    to ranks that do not need it and have nobody to forward it to. This needs static
    lengths; a remark says so where they are dynamic.

    | method | communication | attention | keys and values in memory |
    |---|---|---|---|
    | `allgather` | all keys and values at once | to all keys | all |
    | `ring` | a chunk in each of `ranks - 1` steps, from one rank to the next | to a chunk in a step | two chunks |
    | `lightseq` | keys, or queries and their results, in each of `ranks / 2` steps with a causal mask | of a pair of chunks in a step | two chunks |
    | `distattention` | results of all ranks, for all queries | to a chunk | a chunk |
    | `ulysses` | heads of all tensors for positions | to all keys, of a part of the heads | a part of the heads of all |
    | `usp` | the same in groups of ranks, and a ring of groups | to a chunk in a step, of a part of the heads | two chunks of a group, a part of their heads |

    `zigzag` is a ring in which ranks have two chunks, of `2 * ranks`: rank `r` has
    chunk `r` and, behind it in its tensors, chunk `2 * ranks - 1 - r`. With a causal
    mask, each rank then attends to as many pairs. Attention to each chunk of keys is
    an operation of its own. Lengths must be static.

    `striped` is a ring of Striped Attention (Brandon et al. 2023, arXiv:2311.09431): of
    `n = ranks` ranks, rank `r` has the positions `r`, `r + n`, `r + 2 n` and so on, so that
    row `i` of its tensors has position `i * n + r`. In step `t`, the keys of a rank are of
    rank `r - t`, modulo `n`, and row `j` of them has position `(j + d) * n + r - t`, with
    `d = 1` for the ranks below `t`, and `d = 0` for the others. So causal masks and windows
    are masks of the rows `i` and `j + d`:

    | mask | in step `t` |
    |---|---|
    | `#attn.causal` | `#attn.causal`: without its diagonal for ranks below `t` |
    | a window, `left = l, right = r` | a window, `left = floor((l - t) / n), right = floor((r + t) / n)`; if `left` is -1, from row 1 on |
    | others, and regions that use positions | a region with the positions of rows |

    `positions` has `d` as the first key, and the lengths of the shard. Causal masks leave all
    ranks half of each step, tiles of the other half are skipped, and windows leave steps out.
    With `dropout` it is an error.

    `lightseq` is the balanced schedule of DISTFLASHATTN (Li et al. 2023, arXiv:2310.03294).
    Ranks have the chunks of `ring`. In step `t`, rank `r` computes one pair of chunks: of
    its queries and the keys of rank `r - t`, modulo `ranks`, or, as a helper, of the
    queries of rank `r - t` and its own keys. A helper returns the results, in f32, to the
    owner of the queries, which merges them with its own. Each pair that the mask reaches is computed
    once. If the mask reaches only one of the pairs `(i, j)` and `(j, i)`, either rank can
    compute it: the schedule gives each rank as few pairs as the mask permits. A causal mask
    has `ranks / 2 + 1` steps, rounded down, and at most so many pairs of a rank. Without a
    mask, nobody helps. Keys and queries go directly to the rank that needs them.

    `ulysses` is the method of DeepSpeed-Ulysses (Jacobs et al. 2023): each rank sends the
    heads of its positions to the ranks that compute them, attends with all positions of
    `1 / ranks` of the query heads, and sends the results back. The number of ranks must divide
    the number of query heads, and of key heads and of value heads it must be a divisor or a
    multiple. A key or value head for several ranks is sent to each of them.

    `usp` is unified sequence parallelism (Fang and Zhao 2024): `ulysses` in groups of
    `ulysses-degree` neighboring ranks, and `zigzag` between the groups. With a degree of `h`,
    rank `r` is member `r mod h` of group `r / h`, and the heads must fit `h` as they must fit
    all ranks with `ulysses`. Of `G = ranks / h` groups and `2 * G` chunks, group `g` has
    chunk `g` and, behind it, chunk `2 * G - 1 - g`. Of these positions, in this order, member
    `u` has the `u`-th of `h` equal parts, in one tensor. Lengths must be static and a multiple
    of `2 * ranks`. In a group, ranks exchange heads for positions in `h - 1` steps
    (`attn.comm.send_recv`), in which each sends `(h - 1) / h` of its queries, keys, values and
    results. In the ring, each sends keys and values of its heads to the same member of the
    next group, up to `G - 1` times: as many bytes as it had before, or `h / H` times as many
    with fewer heads `H` of keys than `h`. One group is `ulysses`, and groups of one rank are
    `zigzag`, in all that callers see. Without a degree, it is the greatest one that the heads allow and
    that leaves each group on one host (`attn.device`, or the default device of `target`); a
    remark names it.

    `distattention` is for few queries and many keys, as in decoding (DistAttention, Lin et
    al. 2024): all ranks have all queries and get all results, and each has a chunk of the
    keys. Ranks gather the partial results of all, in f32, and merge them in the order of
    ranks. With `key_lengths`, rank `r` has keys from `r * capacity` on of each sequence,
    where `capacity` is the length of its part of the cache. There are no gradients.

    With `sequences packed`, the packed tensors are cut into chunks of rows as others are,
    so that a sequence may be in several chunks, and a chunk have several sequences.
    Boundaries are positions in the whole and the same on all ranks. Each attention gets
    the boundaries within its chunks, in which sequences without a row are empty:

    ```mlir
    %local = linalg.generic ... // cu[n] -> min(max(cu[n], first), first + length) - first
    %out, %lse = attn.attention ins(%q, %k, %v : ...) outs(...)
        sequences packed(%local, %local_keys : tensor<?xi32>, tensor<?xi32>)
    ```

    | mask | of an attention to a chunk |
    |---|---|
    | none, or one that keeps all pairs of a sequence in these chunks | none |
    | `#attn.causal` or a window, the same boundaries of queries and keys | the same for a rank's own chunk; with `allgather` if no later key attends |
    | others, and regions that use positions | a region that adds the position of each sequence's first row in a chunk |

    With `striped`, rank `r` has `ceil((b - r) / n)` rows before a boundary `b`, and neighboring
    rows of a sequence are `n` positions apart. Queries of step `t` that begin a sequence before
    the keys do have the `d = 1` of ranks below `t`, and others the `d = 0`:

    ```mlir
    %d = linalg.generic ... // cu[s] -> (r - cu[s]) mod n < (r - t - cu[s]) mod n
    ```

    | mask | of a step with `striped` |
    |---|---|
    | none | none |
    | `#attn.causal` or a window, the same boundaries of queries and keys | as in step `t` without sequences, in a region that adds `d` to keys |
    | the same in step 0, where `d` is 0 | the mask of rows |
    | others, windows from row 1 on, and regions that use positions | a region with positions within sequences |

    Tiles are skipped in all cases. Boundaries that are the same value and static lengths
    let ring steps be left out as without sequences, by the rows that a query may attend to
    wherever sequences begin. Partial results are 0, and -inf for `lse`, in rows of no
    sequence, which keep the contents of the destination in the end. `ulysses` leaves
    boundaries as they are, and is the only method for `sequences padded` and for `dropout`,
    of which `positions` with `dropout_only` have the first head.

    In a ring, the next chunk travels while a rank attends to the present one
    (`attn.overlap`). Attention goes on from the results of the steps before (`state`); ranks
    that do not attend in a step copy theirs. `attn.merge` combines results of several ranks
    alone, with `lightseq` and `distattention`.
    The method `ring` is ring attention (Liu et al. 2023). Its partial results are f32.
    A window reaches only some rows of the chunks of other ranks: of keys and values, and of
    their gradients, a `ring` sends the rows that the mask of static lengths needs of any chunk,
    as one range whose ends are multiples of 64 rows (halo exchange).

    ```mlir
    func.func @attention(%q: tensor<1x8x256x64xf32>, %k: tensor<1x2x256x64xf32>,
                         %v: tensor<1x2x256x64xf32>) -> tensor<1x8x256x64xf32> {
      %e = tensor.empty() : tensor<1x8x256x64xf32>
      %o = attn.attention ins(%q, %k, %v : ...) outs(%e : ...) mask(#attn.causal)
      return %o : tensor<1x8x256x64xf32>
    }
    ```

    becomes with `method=allgather ranks=4`

    ```mlir
    func.func @attention(%q: tensor<1x8x64x64xf32>, %k: tensor<1x2x64x64xf32>,
                         %v: tensor<1x2x64x64xf32>) -> tensor<1x8x64x64xf32> {
      %rank = attn.comm.rank ranks(4)
      %0 = attn.comm.all_gather ins(%k : ...) outs(... : tensor<4x1x2x64x64xf32>)
      %keys = ... : tensor<1x2x256x64xf32>
      ...
      %positions = tensor.from_elements %first_query, %zero, %zero, %zero, %n, %n
      %o = attn.attention ins(%q, %keys, %values : ...) outs(%e : ...)
          positions(%positions : tensor<6xi32>) mask(#attn.causal)
      return %o : tensor<1x8x64x64xf32>
    }
    ```

    and with `method=ring`, in which ranks 2 and 3 attend to two chunks more than
    rank 0, and rank 3 sends nothing:

    ```mlir
    %0:4 = attn.overlap by streams {
      %out, %lse = attn.attention ins(%q, %k, %v : ...) ...
      attn.overlap_yield %out, %lse : ...
    } and {
      %k1 = attn.comm.send_recv ins(%k : ...) to(%to) from(%from) outs(%e : ...)
      %v1 = attn.comm.send_recv ins(%v : ...) to(%to) from(%from) outs(%e : ...)
      attn.overlap_yield %k1, %v1 : ...
    }
    %1:4 = attn.overlap by streams {
      %attends = arith.cmpi uge, %rank, %one : index
      %2:2 = scf.if %attends {
        %out, %lse = attn.attention ins(%q, %0#2, %0#3 : ...) outs(%d, %l : ...)
            state(%0#0, %0#1 : ...) ...
        scf.yield %out, %lse : ...
      } else {
        %out = bufferization.materialize_in_destination %0#0 in %d : ...
        %lse = bufferization.materialize_in_destination %0#1 in %l : ...
        scf.yield %out, %lse : ...
      }
      ...
    ```

    Gradients, of functions that `attn-differentiate` makes or that have
    `attn.attention_grad` otherwise, are distributed in the same way. Each rank has the
    chunks of `out`, `lse`, `dout` and `dlse` that belong to its queries:

    | method | `dquery` | `dkey`, `dvalue` |
    |---|---|---|
    | `allgather` | of all keys at once | of all keys; ranks exchange their parts (`attn.comm.all_to_all`) and add them up |
    | `ring`, `zigzag`, `striped` | the sum of all steps | follow their keys; each rank adds its part; the last holder returns the total |
    | `lightseq` | the sum of all steps and of what helpers return | go directly to the owner of the keys, one step later |
    | `ulysses` | of some heads, sent to the ranks of the positions | the same; what several ranks have of a head is added up in f32 |
    | `usp` | the sum of all steps, sent as with `ulysses` | follow their keys as in a ring, and are sent as with `ulysses` |

    A helper of `lightseq` gets `out`, `lse`, `dout` and `dlse` with the queries. With
    `sequences packed`, it has the boundaries within their chunk, since all ranks have all boundaries.

    In a ring, ranks exchange the keys of the next step and the gradients of the step
    before while they compute. The last holder of keys, the last rank that attends to
    them, returns their gradients to their owner. Without a mask, each of `n > 1` ranks
    sends keys and values `n - 1` times and gradients `n` times. A rank has memory for a
    few chunks, as in the forward pass. With `allgather`, `attn.comm.all_to_all` and a sum
    send as many bytes as a reduce-scatter would, and need no operation of their own.

    Each rank has terms of `dcaptures`, of all elements. All ranks gather these terms
    (`attn.comm.all_gather`), and add them to the contents of the destinations.

    All additions are f32, and gradients are rounded once. The order of additions does not
    depend on the order in which ranks arrive, so that `deterministic` holds.

    Operations of linalg that compute rows of tensors of queries or keys compute rows of
    chunks: each operand with the loop over positions has it in dimension 2 alone, or in
    the last one of tensors with fewer dimensions. If
    they add up rows in f32 from 0 on, such as the gradient of sinks, all ranks
    gather the results of all ranks (`attn.comm.all_gather`) and add them up in the same
    order. `linalg.index` is a position in the whole.
    `linalg.softmax`, `tensor.cast`, `tensor.concat`, `tensor.extract_slice` and
    `tensor.insert_slice` can be among these operations if they leave dimension 2 as it
    is. `tensor.dim` is the length of the whole, except where it is a size of a chunk.

    Linear attention and its gradient have states instead of keys. With `allgather`, the
    only method for them, ranks gather states, as LASP-2 does (Sun et al. 2025,
    arXiv:2502.07563). The tokens of rank `r` turn a state `M` into `A[r] M + B[r]`, where
    `B[r]`, of shape `[B, H, Dk, Dv]`, is their final state from 0. Each rank sends its
    `A[r]` and `B[r]` to each other rank, in f32, and as many bytes for any length:

    | operands | `A[r]` | bytes |
    |---|---|---|
    | neither `log_decay` nor `beta` | 1 | `4 B H Dk Dv` |
    | `log_decay` of shape `[H]` | `exp` of the length of a chunk times `log_decay` | the same |
    | `log_decay` of shape `[B, H, S]` | `exp` of the sum of the rank's log-decays | and `4 B H` |
    | `log_decay` of shape `[B, H, S, Dk]` | the same, for each row of `M` | and `4 B H Dk` |
    | `beta` | a matrix: the final state from the identity, without values | and `4 B H Dk^2` |

    Each rank carries `initial_state` over the ranks before it, and then runs the operation
    from there. Without `causal`, it adds the states of all other ranks instead.
    `final_state` is the state after the last token of all ranks. All ranks have it, with
    the same bits.

    The gradient gathers the same states, and then the gradients of states. `E[r]`, of
    shape `[B, H, Dk, Dv]`, is the gradient of the state before rank `r` that its outputs
    add up to. A rank carries `dfinal_state` back over the ranks behind it by
    `A[r]^T dM + E[r]`. The operation, with this state and this gradient as its own
    `initial_state` and `dfinal_state`, has the gradients of the rank's tokens. All ranks
    have `dinitial_state`, and the sum over ranks of a `dlog_decay` of shape `[B, H]`.

    Linear attention with a feature map, a normalizer or masks is written as other
    operations first, as `attn-decompose-linear-attention` does with
    `reset-local-blocks`. Local blocks must be so before `attn-differentiate`.
    `key_lengths` and `sequences` are positions in the whole, and the same on all ranks.
    Local blocks of `causal` operations may be longer than a chunk. Ranks with whole
    blocks, as static lengths show, compute them without states of other ranks. Other
    blocks need `causal`.

    `auto` takes the method with the least time by a model of the ranks' kernels and
    links (docs/cost-model.md), the same one for all functions of the module, on
    `ranks` devices of the module (`attn.device`, or the default device of `target`). A
    remark on the first function names it, with the degree of `usp`, the runner-up, and why
    other methods cannot serve. `usp` with one group, or with groups of one rank, is left
    out. Callers must know the method and the degree, since `zigzag`, `striped` and `usp` change
    which positions a rank has. With linear attention in the module, it takes `allgather`.

    The pass runs before scheduling. An attention or a gradient that it cannot
    distribute is an error:

    - one with `sequences packed_queries`, `key_lengths`, `page_table`, `reads`,
      `block_mask`, `positions`, a `query` or `epilogue` region, or an `out` of 8 bits;
      `distattention` takes `key_lengths` where no mask, region or dropout depends on
      positions, as a causal mask of one query does not
    - `sequences padded` with another method than `ulysses`, and `sequences` and `dropout` or
      `dropout_mask` with another method than `ulysses`
    - `dropout` and `dropout_mask` with `striped`, and `dcaptures` with `lightseq`
    - `identity` with other numbers of keys than of queries, dynamic lengths, `sequences`, `heads`
      or `distattention`
    - lengths that `ranks` does not divide; with `dropout` and another method than `ulysses`,
      chunks in which no word of a keep mask begins, and with `dropout_mask` ones that are not
      static multiples of 64
    - with `ulysses`, numbers of heads that are dynamic or do not fit `ranks`, and `heads`; the
      same with `usp`, for its degree, which must divide `ranks`
    - linear attention with another method than `allgather`
    - operands that are neither arguments of the function nor results of attention, its
      gradient or linalg
    - other uses of a sharded tensor, and calls of the function
  }];
  let options = [
    Option<"method", "method", "::mlir::attn::ShardMethod",
           /*default=*/"::mlir::attn::ShardMethod::Ring",
           "How ranks get the keys and values of one another",
           [{::llvm::cl::values(
               clEnumValN(::mlir::attn::ShardMethod::AllGather, "allgather",
                          "all of them at once"),
               clEnumValN(::mlir::attn::ShardMethod::Ring, "ring",
                          "the keys of one rank after another, from a neighbor"),
               clEnumValN(::mlir::attn::ShardMethod::Zigzag, "zigzag",
                          "the same, with chunks from both ends of the "
                          "sequence on each rank"),
               clEnumValN(::mlir::attn::ShardMethod::Striped, "striped",
                          "the same, with every n-th position on each rank"),
               clEnumValN(::mlir::attn::ShardMethod::LightSeq, "lightseq",
                          "the keys of one rank in a step, or its queries, "
                          "so that all ranks compute as many pairs of chunks"),
               clEnumValN(::mlir::attn::ShardMethod::DistAttention,
                          "distattention",
                          "none of them: ranks have the same queries and merge "
                          "their results"),
               clEnumValN(::mlir::attn::ShardMethod::Ulysses, "ulysses",
                          "all of them for some heads, in exchange for the "
                          "other heads"),
               clEnumValN(::mlir::attn::ShardMethod::Usp, "usp",
                          "keys of some heads, from one group of ranks after "
                          "another"),
               clEnumValN(::mlir::attn::ShardMethod::Auto, "auto",
                          "the one with the least estimated time"))}]>,
    Option<"ranks", "ranks", "int64_t", /*default=*/"1",
           "Number of ranks, from 1 to 1024">,
    Option<"ulyssesDegree", "ulysses-degree", "int64_t", /*default=*/"0",
           "Number of neighboring ranks that exchange heads for positions with "
           "'usp'; 0 to choose">,
    Option<"target", "target", "std::string", /*default=*/"\"sm_90a\"",
           "Name of a registered target, for whose kernels 'auto' estimates "
           "times, and whose hosts have the groups of 'usp'">,
  ];
  let statistics = [Statistic<"numSharded", "num-sharded",
                              "Number of attentions and gradients that were distributed">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::attn::AttnDialect",
    "::mlir::attn_tile::AttnTileDialect",
    "::mlir::bufferization::BufferizationDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
    "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def AttnSimulateRanksPass
    : Attn_Pass<"attn-simulate-ranks", "::mlir::ModuleOp"> {
  let summary = "print how long ranks take with each method of sharding";
  let description = [{
    Prints, for each function with attention or its gradient, the estimated time of all
    of them on one rank, and on several with each method of `attn-shard-attention`:

    - the time until the last rank has finished, and how many times as fast as one rank
      that is;
    - the computation of the busiest rank, and the largest time of a rank in which
      messages travel and it does not compute;
    - the part of the time of messages in which ranks compute;
    - the computation of the busiest rank over the mean (imbalance);
    - the bytes that a rank sends at most.

    `usp` has the degree that `attn-shard-attention` chooses. A method that cannot serve
    has the reason instead of figures, and so has `usp` with the degree of another method.

    Ranks are devices of the module (`attn.device`, or the default device of `target`),
    whose kernels have the times by which `attn-choose-schedule` chooses, and whose
    figures describe links and networks. docs/cost-model.md explains the model. Sizes
    that are not static are assumed.

    As JSON, there is one object:

    - top level: `device`, `calibration` and `functions`;
    - a function: `name`, and either `obstacle`, if no method can serve its attentions, or
      `seconds` of one rank and `groups`;
    - a group: `ranks`, and `methods`, fastest first;
    - a method: `method`, of `usp` the `ulysses_degree`, and either `obstacle` or `seconds`,
      `computation`, `exposed`, `critical_computation` (seconds of computation on the critical
      path), `hidden` (a fraction), `imbalance` and `bytes_sent`.

    ```
    attn-opt in.mlir --attn-simulate-ranks="target=sm_90a ranks=8,64 output=-"
    ```
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"sm_90a\"",
           "Name of a registered target, such as sm_90a">,
    ListOption<"ranks", "ranks", "int64_t",
               "Numbers of ranks, each from 1 to 1024; 2, 4 and 8 without">,
    Option<"format", "format", "std::string", /*default=*/"\"table\"",
           "How to print: table or json">,
    Option<"output", "output", "std::string", /*default=*/"\"\"",
           "File for the report; standard error if empty, - for standard output">,
    Option<"dynamicSize", "dynamic-size", "int64_t", /*default=*/"4096",
           "Size that dynamic dimensions are taken to have">,
    Option<"dynamicBatch", "dynamic-batch", "int64_t", /*default=*/"1",
           "Size that the first dimension of tensors of three or more is taken "
           "to have if it is dynamic">,
  ];
  let dependentDialects = ["::mlir::attn::AttnDialect",
                           "::mlir::attn_tile::AttnTileDialect"];
}

#endif // ATTN_DISTRIBUTED_PASSES_TD

// Communication of ranks, as the only rank of a group.
// attn-compile: --target=host

!t = tensor<?x8x64xf32>
!all = tensor<1x?x8x64xf32>
func.func @comm(%sent: !t, %received: !t, %gathered: !all, %parts: !all) -> (!t, !all, !all) {
  %rank = attn.comm.rank ranks(1)
  %0 = attn.comm.send_recv ins(%sent : !t) to(%rank) from(%rank) outs(%received : !t) -> !t
  %1 = attn.comm.all_gather ins(%sent : !t) outs(%gathered : !all) -> !all
  %2 = attn.comm.all_to_all ins(%1 : !all) outs(%parts : !all) -> !all
  return %0, %1, %2 : !t, !all, !all
}

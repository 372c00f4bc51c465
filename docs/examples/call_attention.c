/* Calls the artifact of llama3_attention.mlir from C, on the host.
 *
 *   attn-compile llama3_attention.mlir -o libattention.so --target=host
 *   attn-compile llama3_attention.mlir -o attention.h --target=host
 *   cc call_attention.c -o call_attention -I. -I$INCLUDE -L. -lattention \
 *     -L$LIB -lattn_runtime
 *   LD_LIBRARY_PATH=.:$LIB ./call_attention
 *
 * INCLUDE and LIB are the folders of Attn's headers and libraries: include and
 * build/lib in a build tree, include and lib where Attn is installed. For a
 * GPU, pass --target=sm_90a, tensors in its memory with its number as `device`,
 * and a stream. */

#include "attention.h"

#include <stdio.h>
#include <stdlib.h>

/* A tensor of [batch, heads, length, 128] in bf16, all zeros. */
static attn_tensor makeTensor(const int64_t shape[4], int64_t strides[4]) {
  attn_tensor tensor = {0};
  strides[3] = 1;
  for (int i = 3; i > 0; --i)
    strides[i - 1] = strides[i] * shape[i];
  tensor.data = calloc(strides[0] * shape[0], 2);
  tensor.shape = shape;
  tensor.strides = strides;
  tensor.rank = 4;
  tensor.dtype = ATTN_BF16;
  tensor.device = ATTN_DEVICE_HOST;
  return tensor;
}

int main(void) {
  const int64_t shape[4] = {1, 32, 64, 128}, kvShape[4] = {1, 8, 64, 128};
  int64_t strides[4], kvStrides[4];
  attn_tensor query = makeTensor(shape, strides);
  attn_tensor key = makeTensor(kvShape, kvStrides);
  attn_tensor value = makeTensor(kvShape, kvStrides);
  attn_tensor out = makeTensor(shape, strides);
  /* Values of one: their mean is one in every row. */
  for (int64_t i = 0; i < kvStrides[0]; ++i)
    ((uint16_t *)value.data)[i] = 0x3f80;

  if (attention(&query, &key, &value, &out, /*stream=*/NULL) != ATTN_OK) {
    fprintf(stderr, "error: %s\n", attnGetLastError());
    return 1;
  }
  printf("first element: 0x%04x\n", ((uint16_t *)out.data)[0]);

  /* A call that cannot be right is refused. */
  attention(&query, &key, &value, &key, NULL);
  printf("error: %s\n", attnGetLastError());
  return 0;
}

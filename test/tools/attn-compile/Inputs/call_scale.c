// Calls the entry point of scale.mlir through its generated header.

#include "scale.h"
#include <stdio.h>

int main(void) {
  float in[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}}, out[2][6] = {{0}}, factor = 10;
  int64_t shape[] = {2, 4}, in_strides[] = {4, 1}, out_strides[] = {6, 1};
  attn_tensor a = {in, shape, in_strides, 2, ATTN_F32, ATTN_DEVICE_HOST, 0};
  attn_tensor s = {&factor, NULL, NULL, 0, ATTN_F32, ATTN_DEVICE_HOST, 0};
  attn_tensor b = {out, shape, out_strides, 2, ATTN_F32, ATTN_DEVICE_HOST, 0};
  int32_t status = scale(&a, &s, &b, NULL);
  printf("%s %s\n", attn_artifact.functions[0].name, attnStatusName(status));
  for (int i = 0; i < 2; ++i)
    printf("%g %g %g %g %g\n", out[i][0], out[i][1], out[i][2], out[i][3],
           out[i][4]);
  shape[1] = 5;
  status = scale(&a, &s, &b, NULL);
  printf("%s: %s\n", attnStatusName(status), attnGetLastError());
  return 0;
}

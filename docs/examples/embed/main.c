/* Runs the function that net-compile made of block.mlir, and the same written
 * out in double precision. */

#include "attn-runtime/attn_runtime.h"

#include <math.h>
#include <stdio.h>

enum {
  HEADS = 2,
  LENGTH = 40,
  HEAD_DIMS = 16,
  SIZE = HEADS * LENGTH * HEAD_DIMS
};

int32_t block(const float *x, float *result);

/* x + attention(norm(x), norm(x), x) */
static void addAttention(double *x) {
  static double norm[SIZE], out[SIZE];
  for (int row = 0; row < HEADS * LENGTH; ++row) {
    double sum = 0;
    for (int c = 0; c < HEAD_DIMS; ++c)
      sum += x[row * HEAD_DIMS + c] * x[row * HEAD_DIMS + c];
    for (int c = 0; c < HEAD_DIMS; ++c)
      norm[row * HEAD_DIMS + c] =
          x[row * HEAD_DIMS + c] / sqrt(sum / HEAD_DIMS);
  }
  for (int head = 0; head < HEADS; ++head) {
    const double *keys = norm + head * LENGTH * HEAD_DIMS;
    for (int i = 0; i < LENGTH; ++i) {
      double sum = 0, row[HEAD_DIMS] = {0};
      for (int j = 0; j <= i; ++j) {
        double score = 0;
        for (int c = 0; c < HEAD_DIMS; ++c)
          score += keys[i * HEAD_DIMS + c] * keys[j * HEAD_DIMS + c];
        double weight = exp(score / sqrt(HEAD_DIMS));
        sum += weight;
        for (int c = 0; c < HEAD_DIMS; ++c)
          row[c] += weight * x[(head * LENGTH + j) * HEAD_DIMS + c];
      }
      for (int c = 0; c < HEAD_DIMS; ++c)
        out[(head * LENGTH + i) * HEAD_DIMS + c] = row[c] / sum;
    }
  }
  for (int i = 0; i < SIZE; ++i)
    x[i] += out[i];
}

int main(void) {
  static float x[SIZE], result[SIZE];
  static double expected[SIZE];
  unsigned state = 1;
  for (int i = 0; i < SIZE; ++i) {
    state = state * 1664525u + 1013904223u;
    x[i] = (float)(state >> 8) / (1 << 23) - 1;
    expected[i] = x[i];
  }
  if (block(x, result) != ATTN_OK) {
    fprintf(stderr, "error: %s\n", attnGetLastError());
    return 1;
  }
  addAttention(expected);
  addAttention(expected);
  double error = 0, norm = 0;
  for (int i = 0; i < SIZE; ++i) {
    error += (result[i] - expected[i]) * (result[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  printf("relative error below 1e-6: %s\n",
         sqrt(error / norm) < 1e-6 ? "yes" : "no");
  return sqrt(error / norm) < 1e-6 ? 0 : 1;
}

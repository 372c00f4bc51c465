/* Runs the function that net-compile made of block.mlir, and the same written
 * out in double precision. */

#include "attn-runtime/attn_runtime.h"

#include <math.h>
#include <stdio.h>

enum {
  HEADS = 2,
  LENGTH = 40,
  CHANNELS = 16,
  SIZE = HEADS * LENGTH * CHANNELS
};

int32_t block(const float *x, float *result);

/* x + attention(norm(x), norm(x), x) */
static void addAttention(double *x) {
  static double norm[SIZE], out[SIZE];
  for (int row = 0; row < HEADS * LENGTH; ++row) {
    double sum = 0;
    for (int c = 0; c < CHANNELS; ++c)
      sum += x[row * CHANNELS + c] * x[row * CHANNELS + c];
    for (int c = 0; c < CHANNELS; ++c)
      norm[row * CHANNELS + c] = x[row * CHANNELS + c] / sqrt(sum / CHANNELS);
  }
  for (int head = 0; head < HEADS; ++head) {
    const double *keys = norm + head * LENGTH * CHANNELS;
    for (int i = 0; i < LENGTH; ++i) {
      double sum = 0, row[CHANNELS] = {0};
      for (int j = 0; j <= i; ++j) {
        double score = 0;
        for (int c = 0; c < CHANNELS; ++c)
          score += keys[i * CHANNELS + c] * keys[j * CHANNELS + c];
        double weight = exp(score / sqrt(CHANNELS));
        sum += weight;
        for (int c = 0; c < CHANNELS; ++c)
          row[c] += weight * x[(head * LENGTH + j) * CHANNELS + c];
      }
      for (int c = 0; c < CHANNELS; ++c)
        out[(head * LENGTH + i) * CHANNELS + c] = row[c] / sum;
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

/* Types shared by the parts of the CPU kernels.
 *
 * The parts, each a header that _kernels.c includes once (_kernels_vector.h four times):
 *   _kernels_stream.h   brings the elements of any strided tensor into logical order, block by block
 *   _kernels_convert.h  turns raw elements into floats or doubles
 *   _kernels_vector.h   the fast kernels, for blocks of finite numbers of ordinary magnitude
 *   _kernels_careful.h  the exact ones, element by element, for every other block
 *   _kernels_light.h    the light look: NaN, infinities, extremes, nothing else (_kernels_light_words.h six times)
 *   _kernels_sides.h    a candidate, an honest implementation and a gold side by side
 *   _kernels_tools.h    what the tools of others ask of the three
 *   _kernels_evidence.h what a check asks of them
 */
#ifndef TRUELINE_KERNELS_H
#define TRUELINE_KERNELS_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DIMENSIONS 6
#define SKETCH_SIZE 64
#define THRESHOLDS 4
#define CACHE_LINE 64
#define BLOCK 1024 /* elements; bounds the additions per vector lane before they are folded into doubles */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

static const double RELATIVE_THRESHOLDS[THRESHOLDS] = {1e-4, 1e-3, 5e-3, 1e-2};

/* The three structs below are layout.DESCRIPTOR, layout.STATISTICS and layout.COMPARISON. */
typedef struct {
    uint64_t pointer;
    int64_t numel;
    int32_t dtype;
    int32_t ndim;
    int64_t shape[MAX_DIMENSIONS];
    int64_t strides[MAX_DIMENSIONS];
} Descriptor;

typedef struct {
    int64_t count;
    double minimum, maximum, mean, norm;
    int64_t nan, positive_infinity, negative_infinity, zeros;
    int32_t exponent_min, exponent_max;
    uint64_t digest;
    float sketch[SKETCH_SIZE];
} Statistics;

typedef struct {
    int64_t count, equal, both_finite, rel_count, nan_mismatch, infinity_mismatch, worst;
    int64_t within[THRESHOLDS];
    double dot, reference_squares, candidate_squares, difference_squares;
    double sum_abs, sum_signed, max_abs, max_rel, sum_rel, max_ulp, sum_ulp;
    double worst_reference, worst_candidate, reference_max;
} Comparison;

/* The running state of one reduction. Squares of doubles too large or too small to be squared are kept scaled. */
typedef struct {
    int64_t nan, positive_infinity, negative_infinity, zeros;
    double minimum, maximum, sum, squares, scaled_large, scaled_small;
    double smallest; /* of the magnitudes that are not zero */
    uint64_t digest;
    double sketch[SKETCH_SIZE];
} Reduction;

/* What a fast reduction kernel says about one block. */
typedef struct {
    int64_t nan, positive_infinity, negative_infinity, zeros;
    double minimum, maximum, sum, squares, smallest;
} BlockReduction;

/* What a fast comparison kernel says about one block. */
typedef struct {
    int64_t both_finite, equal, rel_count, nan_mismatch, infinity_mismatch, within[THRESHOLDS];
    double dot, reference_squares, candidate_squares, difference_squares;
    double sum_abs, sum_signed, max_abs, max_rel, sum_rel, max_ulp, sum_ulp, reference_max;
} BlockComparison;

/* The unit in the last place of the coarser of two dtypes. Exact types have the unit 1 everywhere. */
typedef struct {
    int exact, digits, exponent_min;
} Unit;

/* The signs of 32 elements; the definition is part of the Run format (see layout.py). */
ALWAYS_INLINE uint32_t sign_word(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    x ^= x >> 16;
    return x;
}

#endif

/* The instances of the fast kernels and the choice between them: AVX2 with FMA where the processor has it, else the
 * vectors that every processor of its kind has. */
#ifndef TRUELINE_KERNELS_DISPATCH_H
#define TRUELINE_KERNELS_DISPATCH_H

#include "_kernels.h"
#include "_kernels_convert.h"

typedef struct {
    const char *name;
    int (*reduce_float)(const float *, int64_t, int64_t, uint64_t, BlockReduction *, double *);
    int (*reduce_double)(const double *, int64_t, int64_t, uint64_t, BlockReduction *, double *);
    int (*compare_float)(const float *, const float *, int64_t, int64_t, Unit, BlockComparison *);
    int (*compare_double)(const double *, const double *, int64_t, int64_t, Unit, BlockComparison *);
    uint64_t (*digest)(int, const char *, int64_t, uint64_t);
} Kernels;

#define SELECT(mask, a, b) ((Vector)(((Words)(mask) & (Words)(a)) | (~(Words)(mask) & (Words)(b))))

#define VECTOR_BYTES 16
#define VARIABLE_SHIFT 0
#define REAL float
#define WORD uint32_t
#define INTEGER int32_t
#define NAME(x) x##_float_portable
#ifdef __SSE2__
#define VECTOR_MIN(a, b) ((Vector)_mm_min_ps((__m128)(a), (__m128)(b)))
#define VECTOR_MAX(a, b) ((Vector)_mm_max_ps((__m128)(a), (__m128)(b)))
#else
#define VECTOR_MIN(a, b) SELECT((a) < (b), a, b)
#define VECTOR_MAX(a, b) SELECT((a) > (b), a, b)
#endif
#include "_kernels_vector.h"

#define REAL double
#define WORD uint64_t
#define INTEGER int64_t
#define NAME(x) x##_double_portable
#ifdef __SSE2__
#define VECTOR_MIN(a, b) ((Vector)_mm_min_pd((__m128d)(a), (__m128d)(b)))
#define VECTOR_MAX(a, b) ((Vector)_mm_max_pd((__m128d)(a), (__m128d)(b)))
#else
#define VECTOR_MIN(a, b) SELECT((a) < (b), a, b)
#define VECTOR_MAX(a, b) SELECT((a) > (b), a, b)
#endif
#include "_kernels_vector.h"

#define NAME(x) x##_portable
#include "_kernels_digest.h"
#undef VECTOR_BYTES
#undef VARIABLE_SHIFT

static const Kernels PORTABLE = {
    "portable", reduce_float_portable, reduce_double_portable, compare_float_portable, compare_double_portable, digest_portable,
};

#ifdef TRUELINE_X86
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

#define VECTOR_BYTES 32
#define VARIABLE_SHIFT 1
#define REAL float
#define WORD uint32_t
#define INTEGER int32_t
#define NAME(x) x##_float_avx2
#define VECTOR_MIN(a, b) ((Vector)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define VECTOR_MAX(a, b) ((Vector)_mm256_max_ps((__m256)(a), (__m256)(b)))
#include "_kernels_vector.h"

#define REAL double
#define WORD uint64_t
#define INTEGER int64_t
#define NAME(x) x##_double_avx2
#define VECTOR_MIN(a, b) ((Vector)_mm256_min_pd((__m256d)(a), (__m256d)(b)))
#define VECTOR_MAX(a, b) ((Vector)_mm256_max_pd((__m256d)(a), (__m256d)(b)))
#include "_kernels_vector.h"

#define NAME(x) x##_avx2
#include "_kernels_digest.h"
#undef VECTOR_BYTES
#undef VARIABLE_SHIFT

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

static const Kernels AVX2 = {
    "avx2", reduce_float_avx2, reduce_double_avx2, compare_float_avx2, compare_double_avx2, digest_avx2,
};
#endif

static const Kernels *kernels = &PORTABLE;

/* Makes `kernels` the fastest instance this processor can run, or the portable one if so asked. */
static void choose_kernels(int portable)
{
    kernels = &PORTABLE;
    halves_to_floats = halves_to_floats_portable;
#ifdef TRUELINE_X86
    __builtin_cpu_init();
    if (!portable && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        kernels = &AVX2;
        halves_to_floats = halves_to_floats_f16c; /* every processor with AVX2 has it */
    }
#else
    (void)portable;
#endif
}

#endif

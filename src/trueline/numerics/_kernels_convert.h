/* Turns raw elements, at any alignment, into floats where that is exact and into doubles otherwise. */
#ifndef TRUELINE_KERNELS_CONVERT_H
#define TRUELINE_KERNELS_CONVERT_H

#include "_kernels.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#define TRUELINE_X86 1
#endif

enum { /* DType.code */
    FLOAT32, FLOAT64, FLOAT16, BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2, FLOAT8_E4M3FNUZ, FLOAT8_E5M2FNUZ,
    FLOAT8_E8M0FNU, INT64, INT32, INT16, INT8, UINT8, UINT16, UINT32, UINT64, BOOL, COMPLEX64, COMPLEX128,
    COMPLEX32, DTYPE_COUNT
};

typedef struct {
    int itemsize;       /* of an element, both components of a complex one */
    int component;      /* the dtype of a real component; of a real element, its own */
    int digits;         /* 0 for exact types */
    int exponent_min;
    int fits_float;     /* every value is a float */
} Type;

static const Type TYPES[DTYPE_COUNT] = {
    [FLOAT32] = {4, FLOAT32, 24, -126, 1},
    [FLOAT64] = {8, FLOAT64, 53, -1022, 0},
    [FLOAT16] = {2, FLOAT16, 11, -14, 1},
    [BFLOAT16] = {2, BFLOAT16, 8, -126, 1},
    [FLOAT8_E4M3FN] = {1, FLOAT8_E4M3FN, 4, -6, 1},
    [FLOAT8_E5M2] = {1, FLOAT8_E5M2, 3, -14, 1},
    [FLOAT8_E4M3FNUZ] = {1, FLOAT8_E4M3FNUZ, 4, -7, 1},
    [FLOAT8_E5M2FNUZ] = {1, FLOAT8_E5M2FNUZ, 3, -15, 1},
    [FLOAT8_E8M0FNU] = {1, FLOAT8_E8M0FNU, 1, -127, 1},
    [INT64] = {8, INT64, 0, 0, 0},
    [INT32] = {4, INT32, 0, 0, 0},
    [INT16] = {2, INT16, 0, 0, 1},
    [INT8] = {1, INT8, 0, 0, 1},
    [UINT8] = {1, UINT8, 0, 0, 1},
    [UINT16] = {2, UINT16, 0, 0, 1},
    [UINT32] = {4, UINT32, 0, 0, 0},
    [UINT64] = {8, UINT64, 0, 0, 0},
    [BOOL] = {1, BOOL, 0, 0, 1},
    [COMPLEX64] = {8, FLOAT32, 24, -126, 1},
    [COMPLEX128] = {16, FLOAT64, 53, -1022, 0},
    [COMPLEX32] = {4, FLOAT16, 11, -14, 1},
};

static float FLOAT8_VALUES[FLOAT8_E8M0FNU + 1][256];

static float small_float(int byte, int mantissa_bits, int bias)
{
    int exponent = (byte & 0x7f) >> mantissa_bits, mantissa = byte & ((1 << mantissa_bits) - 1);
    float value = exponent ? ldexpf((float)(mantissa | (1 << mantissa_bits)), exponent - bias - mantissa_bits)
                           : ldexpf((float)mantissa, 1 - bias - mantissa_bits);
    return byte & 0x80 ? -value : value;
}

static void fill_float8_tables(void)
{
    for (int byte = 0; byte < 256; byte++) {
        int magnitude = byte & 0x7f;
        FLOAT8_VALUES[FLOAT8_E4M3FN][byte] = magnitude == 0x7f ? NAN : small_float(byte, 3, 7);
        FLOAT8_VALUES[FLOAT8_E5M2][byte] = magnitude > 0x7c ? NAN
                                           : magnitude == 0x7c ? (byte & 0x80 ? -INFINITY : INFINITY)
                                                               : small_float(byte, 2, 15);
        FLOAT8_VALUES[FLOAT8_E4M3FNUZ][byte] = byte == 0x80 ? NAN : small_float(byte, 3, 8);
        FLOAT8_VALUES[FLOAT8_E5M2FNUZ][byte] = byte == 0x80 ? NAN : small_float(byte, 2, 16);
        FLOAT8_VALUES[FLOAT8_E8M0FNU][byte] = byte == 0xff ? NAN : ldexpf(1.0f, byte - 127);
    }
}

ALWAYS_INLINE float float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Moves the half's exponent and mantissa into place and corrects the bias by an exact multiplication, which also
 * makes subnormal halves normal; infinities and NaNs get the float's largest exponent. */
ALWAYS_INLINE float half_to_float(uint16_t half)
{
    uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13;
    float scaled = float_from_bits(magnitude) * 0x1p112f;
    uint32_t bits;
    memcpy(&bits, &scaled, sizeof bits);
    bits |= magnitude >= 0x0f800000U ? 0x7f800000U : 0;
    return float_from_bits(bits | (uint32_t)(half & 0x8000) << 16);
}

static void halves_to_floats_portable(const char *in, int64_t count, float *out)
{
    for (int64_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, in + 2 * i, sizeof half);
        out[i] = half_to_float(half);
    }
}

#ifdef TRUELINE_X86
__attribute__((target("avx,f16c"))) static void halves_to_floats_f16c(const char *in, int64_t count, float *out)
{
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(in + 2 * i))));
    halves_to_floats_portable(in + 2 * i, count - i, out + i);
}
#endif

static void (*halves_to_floats)(const char *, int64_t, float *) = halves_to_floats_portable;

#define CONVERT_EACH(TYPE, EXPRESSION)                 \
    for (int64_t i = 0; i < count; i++) {              \
        TYPE x;                                        \
        memcpy(&x, in + i * (int64_t)sizeof x, sizeof x); \
        out[i] = EXPRESSION;                           \
    }                                                  \
    break

/* `component` is a real dtype whose values are floats. */
static void to_floats(int component, const char *restrict in, int64_t count, float *restrict out)
{
    switch (component) {
    case FLOAT32: memcpy(out, in, (size_t)count * sizeof *out); break;
    case FLOAT16: halves_to_floats(in, count, out); break;
    case BFLOAT16: CONVERT_EACH(uint16_t, float_from_bits((uint32_t)x << 16));
    case INT16: CONVERT_EACH(int16_t, (float)x);
    case UINT16: CONVERT_EACH(uint16_t, (float)x);
    case INT8: CONVERT_EACH(int8_t, (float)x);
    case UINT8: CONVERT_EACH(uint8_t, (float)x);
    case BOOL: CONVERT_EACH(uint8_t, x ? 1.0f : 0.0f);
    default: CONVERT_EACH(uint8_t, FLOAT8_VALUES[component][x]);
    }
}

/* Any real dtype. */
static void to_doubles(int component, const char *restrict in, int64_t count, double *restrict out)
{
    float floats[BLOCK];
    switch (component) {
    case FLOAT64: memcpy(out, in, (size_t)count * sizeof *out); break;
    case FLOAT32: CONVERT_EACH(float, (double)x);
    case INT64: CONVERT_EACH(int64_t, (double)x);
    case UINT64: CONVERT_EACH(uint64_t, (double)x);
    case INT32: CONVERT_EACH(int32_t, (double)x);
    case UINT32: CONVERT_EACH(uint32_t, (double)x);
    default:
        to_floats(component, in, count, floats);
        for (int64_t i = 0; i < count; i++)
            out[i] = (double)floats[i];
    }
}

#endif

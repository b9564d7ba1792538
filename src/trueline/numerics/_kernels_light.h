/* The light look (numerics/light.py): NaN, infinities, zeros, subnormals, saturation, extremes; one pass, no sums.
 *
 * The order of elements does not matter here, so a tensor whose elements fill its memory in another order is read as it
 * lies, and one that repeats its elements (stride 0) is read once. */
#ifndef TRUELINE_KERNELS_LIGHT_H
#define TRUELINE_KERNELS_LIGHT_H

#include "_kernels_convert.h"
#include "_kernels_dispatch.h"
#include "_kernels_stream.h"

#define LIGHT_BLOCK 4096 /* elements; counters of 16 bits hold their number */

typedef struct { /* light.LOOK */
    int64_t count, nan, positive_infinity, negative_infinity, zeros, subnormals, saturated;
    double largest, smallest;
} Light;

/* Magnitudes of a dtype: infinity, the smallest normal number, the largest finite one. */
typedef struct {
    uint64_t infinity, normal, largest;
    int mantissa_bits, bias;
} LightLimits;

typedef struct {
    int64_t nan, positive_infinity, negative_infinity, zeros, subnormals, saturated;
    uint64_t most, least; /* least less one */
} LightTally;

typedef void (*LookAtWords)(const char *raw, int64_t count, const LightLimits *limits, LightTally *tally);

#define WORD uint16_t
#define NAME(x) x##_16_portable
#include "_kernels_light_words.h"
#define WORD uint32_t
#define NAME(x) x##_32_portable
#include "_kernels_light_words.h"
#define WORD uint64_t
#define NAME(x) x##_64_portable
#include "_kernels_light_words.h"

#ifdef TRUELINE_X86
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define WORD uint16_t
#define NAME(x) x##_16_avx2
#include "_kernels_light_words.h"
#define WORD uint32_t
#define NAME(x) x##_32_avx2
#include "_kernels_light_words.h"
#define WORD uint64_t
#define NAME(x) x##_64_avx2
#include "_kernels_light_words.h"
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#define LIGHT_CHOICE(bits) (kernels == &PORTABLE ? look_at_words_##bits##_portable : look_at_words_##bits##_avx2)
#else
#define LIGHT_CHOICE(bits) look_at_words_##bits##_portable
#endif

static const LightLimits LIGHT_LIMITS[BFLOAT16 + 1] = {
    [FLOAT32] = {0x7f800000, 0x00800000, 0x7f7fffff, 23, 127},
    [FLOAT64] = {0x7ff0000000000000, 0x0010000000000000, 0x7fefffffffffffff, 52, 1023},
    [FLOAT16] = {0x7c00, 0x0400, 0x7bff, 10, 15},
    [BFLOAT16] = {0x7f80, 0x0080, 0x7f7f, 7, 127},
};

/* The value behind the bits of a magnitude, whatever the program has done to arithmetic with subnormals. */
static double light_value(const LightLimits *limits, uint64_t bits)
{
    if (limits->mantissa_bits == 52) {
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    uint64_t hidden = (uint64_t)1 << limits->mantissa_bits, mantissa = bits & (hidden - 1);
    int exponent = (int)(bits >> limits->mantissa_bits);
    if (exponent)
        mantissa |= hidden;
    return ldexp((double)mantissa, (exponent ? exponent : 1) - limits->bias - limits->mantissa_bits);
}

/* The same elements, in the order in which they lie; gives how often each of them counts. */
static int64_t light_order(const Descriptor *tensor, Descriptor *out)
{
    int64_t times = 1;
    int ndim = 0;
    *out = *tensor;
    for (int dim = 0; dim < tensor->ndim; dim++) {
        int64_t size = tensor->shape[dim], stride = tensor->strides[dim];
        if (stride == 0 && size > 1) {
            times *= size;
            continue;
        }
        if (size == 1)
            continue;
        int at = ndim++;
        for (; at > 0 && out->strides[at - 1] < stride; at--) {
            out->shape[at] = out->shape[at - 1];
            out->strides[at] = out->strides[at - 1];
        }
        out->shape[at] = size;
        out->strides[at] = stride;
    }
    int kept = 0;
    for (int dim = 1; dim < ndim; dim++) {
        if (out->strides[kept] == out->shape[dim] * out->strides[dim]) {
            out->shape[kept] *= out->shape[dim];
            out->strides[kept] = out->strides[dim];
        } else {
            out->shape[++kept] = out->shape[dim];
            out->strides[kept] = out->strides[dim];
        }
    }
    if (ndim == 0) {
        out->shape[0] = 1;
        out->strides[0] = 1;
    }
    out->ndim = ndim == 0 ? 1 : kept + 1;
    out->numel = tensor->numel / times;
    return times;
}

/* Of 8-bit floats there are so few that counting each of them is the quickest. */
static void light_bytes(const uint8_t *raw, int64_t count, int64_t *histogram)
{
    for (int64_t i = 0; i < count; i++)
        histogram[raw[i]]++;
}

static void light_from_histogram(int component, const int64_t *histogram, LightTally *tally, Light *out)
{
    double most = 0.0, normal = ldexp(1.0, TYPES[component].exponent_min);
    for (int byte = 0; byte < 256; byte++) {
        double value = fabs((double)FLOAT8_VALUES[component][byte]);
        most = isfinite(value) && value > most ? value : most;
    }
    for (int byte = 0; byte < 256; byte++) {
        double value = (double)FLOAT8_VALUES[component][byte], magnitude = fabs(value);
        int64_t count = histogram[byte];
        if (count == 0)
            continue;
        tally->nan += isnan(value) ? count : 0;
        tally->positive_infinity += isinf(value) && value > 0 ? count : 0;
        tally->negative_infinity += isinf(value) && value < 0 ? count : 0;
        if (!isfinite(value))
            continue;
        tally->zeros += magnitude == 0.0 ? count : 0;
        tally->subnormals += magnitude > 0.0 && magnitude < normal ? count : 0;
        tally->saturated += magnitude == most ? count : 0;
        out->largest = isnan(out->largest) || magnitude > out->largest ? magnitude : out->largest;
        if (magnitude > 0.0)
            out->smallest = isnan(out->smallest) || magnitude < out->smallest ? magnitude : out->smallest;
    }
}

static void light_extremes(const LightLimits *limits, int64_t finite, const LightTally *tally, Light *out)
{
    if (finite > 0)
        out->largest = light_value(limits, tally->most);
    if (finite > tally->zeros)
        out->smallest = light_value(limits, tally->least + 1);
}

static void look_lightly(const Descriptor *given, Light *out)
{
    const Type *type = &TYPES[given->dtype];
    int component = type->component, components = type->itemsize / TYPES[component].itemsize;
    LightTally tally = {.least = UINT64_MAX};
    *out = (Light){.count = given->numel * components, .largest = NAN, .smallest = NAN};
    if (type->digits == 0 || given->numel == 0)
        return;
    Descriptor tensor;
    int64_t times = light_order(given, &tensor), histogram[256] = {0};
    int bits = 8 * TYPES[component].itemsize;
    LookAtWords look = bits == 16 ? LIGHT_CHOICE(16) : bits == 32 ? LIGHT_CHOICE(32) : LIGHT_CHOICE(64);
    Stream stream;
    stream_open(&stream, &tensor, type->itemsize);
    int64_t step = stream.contiguous ? LIGHT_BLOCK / components : BLOCK / components;
    for (int64_t done = 0; done < tensor.numel; done += step) {
        int64_t elements = tensor.numel - done < step ? tensor.numel - done : step;
        const char *raw = stream_next(&stream, elements);
        if (bits == 8)
            light_bytes((const uint8_t *)raw, elements, histogram);
        else
            look(raw, elements * components, &LIGHT_LIMITS[component], &tally);
    }
    stream_close(&stream);
    if (bits == 8)
        light_from_histogram(component, histogram, &tally, out);
    else
        light_extremes(&LIGHT_LIMITS[component],
                       tensor.numel * components - tally.nan - tally.positive_infinity - tally.negative_infinity, &tally,
                       out);
    out->nan = times * tally.nan;
    out->positive_infinity = times * tally.positive_infinity;
    out->negative_infinity = times * tally.negative_infinity;
    out->zeros = times * tally.zeros;
    out->subnormals = times * tally.subnormals;
    out->saturated = times * tally.saturated;
}

static PyObject *glance(PyObject *module, PyObject *arguments)
{
    unsigned long long tensors_address, out_address;
    Py_ssize_t count;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "KnK:glance", &tensors_address, &count, &out_address))
        return NULL;
    const Descriptor *tensors = (const Descriptor *)(uintptr_t)tensors_address;
    Light *out = (Light *)(uintptr_t)out_address;
    if (!descriptors_are_valid(tensors, count))
        return NULL;
    Work work = begin_work(tensors, count);
    for (Py_ssize_t i = 0; i < count; i++)
        look_lightly(&tensors[i], &out[i]);
    end_work(&work);
    Py_RETURN_NONE;
}

/* For other extensions of this package: one tensor, whose descriptor they vouch for. */
static void glance_one(const Descriptor *tensor, Light *out)
{
    fenv_t environment;
    int small = TYPES[tensor->dtype].itemsize == 1; /* the values of 8-bit floats lie in a table of floats */
    if (small) {
        fegetenv(&environment);
        fesetenv(FE_DFL_ENV);
    }
    look_lightly(tensor, out);
    if (small)
        fesetenv(&environment);
}

#endif

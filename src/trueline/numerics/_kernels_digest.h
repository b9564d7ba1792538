/* The digest of a block. A template: _kernels_dispatch.h includes it with NAME(x), the name of this instance of x, and
 * VECTOR_BYTES, the width of a vector. The definition is part of the Run format (see layout.py). */

#define LANES (VECTOR_BYTES / 8)
#define DIGEST_STEP 0x9E3779B97F4A7C15ULL

typedef uint64_t NAME(Mixed) __attribute__((vector_size(VECTOR_BYTES)));

/* The finaliser of splitmix64, of a number or of a vector of them. */
#define MIX64(z)                    \
    (z) ^= (z) >> 30;               \
    (z) *= 0xbf58476d1ce4e5b9ULL;   \
    (z) ^= (z) >> 27;               \
    (z) *= 0x94d049bb133111ebULL;   \
    (z) ^= (z) >> 31;

#define DEFINE_DIGEST(FUNCTION, TYPE)                                                                  \
    static uint64_t FUNCTION(const char *raw, int64_t count, uint64_t index)                           \
    {                                                                                                  \
        typedef TYPE Bits __attribute__((vector_size(LANES * sizeof(TYPE))));                          \
        NAME(Mixed) total = {0}, step = {0};                                                           \
        uint64_t digest = 0;                                                                           \
        int64_t i = 0;                                                                                 \
        for (int lane = 0; lane < LANES; lane++)                                                       \
            step[lane] = (index + (uint64_t)lane + 1) * DIGEST_STEP;                                   \
        for (; i + LANES <= count; i += LANES) {                                                       \
            Bits bits;                                                                                 \
            memcpy(&bits, raw + i * (int64_t)sizeof(TYPE), sizeof bits);                               \
            NAME(Mixed) z = __builtin_convertvector(bits, NAME(Mixed)) + step;                         \
            MIX64(z)                                                                                   \
            total += z;                                                                                \
            step += LANES * DIGEST_STEP;                                                               \
        }                                                                                              \
        for (int lane = 0; lane < LANES; lane++)                                                       \
            digest += total[lane];                                                                     \
        for (; i < count; i++) {                                                                       \
            TYPE bits;                                                                                 \
            memcpy(&bits, raw + i * (int64_t)sizeof(TYPE), sizeof bits);                               \
            uint64_t z = (uint64_t)bits + (index + (uint64_t)i + 1) * DIGEST_STEP;                     \
            MIX64(z)                                                                                   \
            digest += z;                                                                               \
        }                                                                                              \
        return digest;                                                                                 \
    }
DEFINE_DIGEST(NAME(digest_1), uint8_t)
DEFINE_DIGEST(NAME(digest_2), uint16_t)
DEFINE_DIGEST(NAME(digest_4), uint32_t)
DEFINE_DIGEST(NAME(digest_8), uint64_t)

static uint64_t NAME(digest)(int itemsize, const char *raw, int64_t count, uint64_t index)
{
    switch (itemsize) {
    case 1: return NAME(digest_1)(raw, count, index);
    case 2: return NAME(digest_2)(raw, count, index);
    case 4: return NAME(digest_4)(raw, count, index);
    default: return NAME(digest_8)(raw, count, index);
    }
}

#undef LANES
#undef DIGEST_STEP
#undef MIX64
#undef DEFINE_DIGEST
#undef NAME

/* formats/compress/limits.h - bounds of the codecs. */
#pragma once

/* Bytes of one call's input: what an int of the libraries can hold, with room for the bound. */
#define COMPRESS_BYTES_MAX ((size_t)1 << 30)
/* zstd: the largest window a frame may ask for (level 22 asks for 2^27 = 128 MiB). Pages are only
 * touched as far as the frame's data reaches. */
#define ZSTD_WINDOW_LOG_MAX 27
/* zstd: contexts that grew past this are dropped, not kept for the next stream. */
#define ZSTD_CONTEXT_BYTES_KEPT ((size_t)16 << 20)
/* snappy: scratch that grew past this is dropped, not kept for the next stream. */
#define SNAPPY_SCRATCH_BYTES_KEPT ((size_t)4 << 20)
/* snappy: one copy element is 3 bytes and makes at most 64; a stream cannot grow more than this. */
#define SNAPPY_RATIO_MAX 22
/* Step in which an output of unknown size grows at first. */
#define UNPACK_STEP_BYTES ((size_t)64 << 10)

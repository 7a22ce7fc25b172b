/* wire/wire.h - messages by table: one interpreter decodes, encodes, sizes, prints and fills.
 *
 * A message is a C struct and a table of its fields, both generated from a definition in schema/.
 * Rules of the struct:
 *   - strings, bytes and records point into the frame that was decoded: nothing is copied, so the
 *     frame must outlive them. Arrays and optional structs live in the arena given.
 *   - null is a NULL pointer, empty is a pointer with length or count 0. Encoding writes a null
 *     where null is not allowed as empty, so zeroed structs are good answers.
 *   - a field that the version lacks has its default; one whose default is empty has ptr NULL.
 *   - encoding drops fields that the version lacks, and tagged fields that have their default.
 *
 * Decoding checks every count against the bytes left and against the field's max before anything
 * is allocated, skips tags that the version does not define by their size (KIP-482), and treats
 * trailing bytes as damage. Threads: the tables are constant; everything else belongs to the
 * caller.
 */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"
#include "base/uuid.h"

enum ls_wire_type {
        LS_WIRE_BOOL,
        LS_WIRE_INT8,
        LS_WIRE_INT16,
        LS_WIRE_UINT16,
        LS_WIRE_INT32,
        LS_WIRE_INT64,
        LS_WIRE_UUID,
        LS_WIRE_STRING,
        LS_WIRE_BYTES,
        LS_WIRE_RECORDS,
        LS_WIRE_STRUCT,
        LS_WIRE_ARRAY,
};

enum ls_wire_flag {
        LS_WIRE_POINTER = 1,      /* a struct that may be null: the field is a pointer */
        LS_WIRE_RIGID = 2,        /* never compact (client_id of the request header) */
        LS_WIRE_DEFAULT_NULL = 4, /* left out of the tags when null rather than when empty */
};

struct ls_wire_struct;

struct ls_wire_field {
        const char *name;
        const struct ls_wire_struct *sub; /* STRUCT, or ARRAY of STRUCT */
        int64_t value_default;
        uint32_t max;    /* bytes of a string, elements of an array */
        uint16_t offset; /* in the C struct */
        uint8_t type;    /* enum ls_wire_type */
        uint8_t elem;    /* of an array */
        uint8_t flags;   /* enum ls_wire_flag */
        int8_t version_min, version_max;
        int8_t null_min, null_max; /* versions in which null is allowed */
        int8_t tag;                /* -1: not tagged */
};

struct ls_wire_struct {
        const char *name;
        const struct ls_wire_field *fields;
        const void *value_default; /* a struct with every field at its default */
        uint32_t size;             /* of the C struct */
        uint16_t field_count;
        uint16_t bytes_min; /* the least that any version of it takes in a frame */
        bool has_tags;
};

struct ls_wire_message {
        const char *name;
        const struct ls_wire_struct *root;
        int8_t version_min, version_max;
        int8_t flexible_min; /* 127: never */
};

/* A records field. ptr NULL and payload NULL: null. Decoding sets ptr. For encoding either ptr is
 * set, and its bytes are copied; or payload is (anything the caller understands), which stands for
 * `len` bytes: it becomes a splice. */
struct ls_wire_records {
        const uint8_t *ptr;
        size_t len;
        void *payload;
};

/* How the interpreter sees every array field. */
struct ls_wire_any_array {
        void *items;
        uint32_t count;
};

/* `len` bytes of `payload` stand before byte `at` of the buffer. */
struct ls_wire_splice {
        size_t at;
        size_t len;
        void *payload;
};

/* Where frames are written: small things go to `buf`, payloads are remembered by their place. What
 * is sent is buf[0..splices[0].at), payload 0, buf[splices[0].at..splices[1].at), payload 1, …
 * Several frames may follow each other in one output. */
struct ls_wire_out {
        struct ls_buf buf;
        struct ls_wire_splice *splices;
        size_t splice_count, splice_cap;
        size_t spliced_bytes; /* sum of the payloads' lengths */
};

void ls_wire_out_init(struct ls_wire_out *out, size_t bytes_max);
/* Frees buffer and list, not the payloads. */
void ls_wire_out_done(struct ls_wire_out *out);
/* Empties it and keeps the memory. */
void ls_wire_out_clear(struct ls_wire_out *out);
/* Bytes of all that was written, payloads included. */
static inline size_t
ls_wire_out_bytes(const struct ls_wire_out *out)
{
        return out->buf.len + out->spliced_bytes;
}

/* Sets every field to its default. */
void ls_wire_init(const struct ls_wire_struct *s, void *obj);
/* `count` elements with defaults in the arena. NULL: the arena is full. Never NULL for 0. */
void *ls_wire_array(struct ls_arena *arena, const struct ls_wire_struct *s, size_t count);

/* Decodes all of `bytes` into `obj`, which has the struct of the message.
 * LS_UNSUPPORTED: no such version. LS_CORRUPT: truncated, trailing bytes, impossible counts, null
 * where it is not allowed. LS_TOO_LARGE: above a field's max, or the arena is full. On anything but
 * LS_OK the content of `obj` is not to be used. */
LS_MUST_USE ls_err ls_wire_decode(const struct ls_wire_message *m, int16_t version, ls_span bytes,
                                  struct ls_arena *arena, void *obj);
/* The same from the front of `bytes`, leaving what follows in `ret_rest`. */
LS_MUST_USE ls_err ls_wire_decode_prefix(const struct ls_wire_message *m, int16_t version,
                                         ls_span bytes, struct ls_arena *arena, void *obj,
                                         ls_span *ret_rest);

/* Appends `obj` to `out`. The version must be one of the message's (our bug else).
 * LS_TOO_LARGE: the buffer's maximum was reached, or a string does not fit its length field. */
LS_MUST_USE ls_err ls_wire_encode(const struct ls_wire_message *m, int16_t version, const void *obj,
                                  struct ls_wire_out *out);
/* The bytes that ls_wire_encode adds, payloads included. */
size_t ls_wire_size(const struct ls_wire_message *m, int16_t version, const void *obj);

/* Appends the fields that the version has as JSON, for people: long values are cut short. */
void ls_wire_print(const struct ls_wire_message *m, int16_t version, const void *obj,
                   struct ls_buf *out);

/* Fills `obj` with random values for the fields of the version (every other one its default), in
 * memory of the arena, from `seed`, which moves on. For tests, fuzzers and benchmarks.
 * LS_TOO_LARGE: the arena is full. */
LS_MUST_USE ls_err ls_wire_random(const struct ls_wire_message *m, int16_t version, uint64_t *seed,
                                  struct ls_arena *arena, void *obj);

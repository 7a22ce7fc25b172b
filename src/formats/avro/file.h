/* avro/file.h - Avro object container files.
 *
 * Reader: opens a whole file in memory, then hands out records. Writer: appends records to blocks
 * and the finished file to a buffer. Codecs: null, deflate, zstandard.
 * Threads: one owner.
 */
#pragma once
#include "formats/avro/avro.h"

enum ls_avro_codec { LS_AVRO_CODEC_NULL, LS_AVRO_CODEC_DEFLATE, LS_AVRO_CODEC_ZSTANDARD };

struct ls_avro_meta {
        ls_str key;
        ls_span value;
};

struct ls_avro_reader;

/* Opens `file` (borrowed until close). LS_CORRUPT, LS_UNSUPPORTED (codec), LS_TOO_LARGE, LS_INVALID
 * (schema). */
LS_MUST_USE ls_err ls_avro_reader_open(ls_span file, struct ls_avro_reader **ret_reader,
                                       struct ls_errinfo *reterr);
/* Accepts NULL. */
void ls_avro_reader_close(struct ls_avro_reader *r);
LS_DEFINE_AUTO(struct ls_avro_reader *, ls_avro_reader_close);
const struct ls_avro_schema *ls_avro_reader_schema(const struct ls_avro_reader *r);
/* Of the header; null when absent. Borrowed from the file. */
ls_span ls_avro_reader_meta(const struct ls_avro_reader *r, const char *key);
/* The next record, or LS_END. Its byte strings are valid until the next call; the rest lies in
 * `arena`. LS_CORRUPT, LS_TOO_LARGE end the reading: later calls give the same. */
LS_MUST_USE ls_err ls_avro_reader_next(struct ls_avro_reader *r, struct ls_arena *arena,
                                       struct ls_avro_value *ret_value);
/* Records of all blocks as their headers claim (checked when they are read); LS_CORRUPT. */
LS_MUST_USE ls_err ls_avro_reader_count(const struct ls_avro_reader *r, uint64_t *ret_count);

struct ls_avro_writer;

/* Starts a file in `out` (borrowed until finish or free, not empty is fine: appended). The caller
 * gives the 16 bytes of the sync marker (from ls_random). `avro.schema` and `avro.codec` need not
 * be in `meta`. */
struct ls_avro_writer *ls_avro_writer_new(struct ls_buf *out, ls_str schema_json,
                                          enum ls_avro_codec codec, const uint8_t sync[16],
                                          const struct ls_avro_meta *meta, size_t meta_count);
/* Accepts NULL; without finish the file is incomplete. */
void ls_avro_writer_free(struct ls_avro_writer *w);
LS_DEFINE_AUTO(struct ls_avro_writer *, ls_avro_writer_free);
/* Where the caller appends the encoding of exactly one record, followed by _record_end. */
struct ls_buf *ls_avro_writer_record(struct ls_avro_writer *w);
LS_MUST_USE ls_err ls_avro_writer_record_end(struct ls_avro_writer *w);
/* Bytes written so far, the open block counted uncompressed: to cut files by size. */
size_t ls_avro_writer_bytes(const struct ls_avro_writer *w);
/* Writes what is left. LS_ELIMIT: `out` was full. */
LS_MUST_USE ls_err ls_avro_writer_finish(struct ls_avro_writer *w);

/* fuzz/wal_segment_fuzz.c - segment headers and WAL objects of any content. */
#include "base/mem.h"
#include "wal/segment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        ls_span input = ls_span_of(data, size);
        struct ls_segment_header segment;
        struct ls_object_header object;
        struct ls_object_batch *batches = NULL;
        size_t count = 0;
        ls_span body;

        if (ls_segment_header_get(input, &segment) == LS_OK)
                return 0;
        if (ls_object_check(input, &object, &body, &batches, &count) == LS_OK)
                ls_free(batches);
        return 0;
}

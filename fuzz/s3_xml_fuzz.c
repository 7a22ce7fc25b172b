/* fuzz/s3_xml_fuzz.c - answers of an S3 server: whatever comes, it is read to its end or refused, and
 * what is handed on is text with a NUL behind it. */
#include <string.h>

#include "base/assert.h"
#include "store/remote.h"
#include "store/xml.h"

static ls_err
on_element(void *ctx, const char *parent, const char *name, ls_str text)
{
        int64_t *sum = ctx;

        LS_ASSERT(strlen(name) > 0);
        if (text.ptr != NULL) {
                LS_ASSERT(text.ptr[text.len] == '\0');
                *sum += store_time_of(text.ptr);
        }
        return strcmp(parent, "stop") == 0 ? LS_CANCELED : LS_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        int64_t sum = 0;
        ls_err e = store_xml_read(ls_span_of(data, size), on_element, &sum);

        LS_ASSERT(e == LS_OK || e == LS_CORRUPT || e == LS_CANCELED);
        return 0;
}

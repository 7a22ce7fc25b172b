/* base/uuid.c - see uuid.h. */
#include "base/uuid.h"

static const char hex[] = "0123456789abcdef";

ls_uuid
ls_uuid_v4(const uint8_t random[16])
{
        ls_uuid u;

        memcpy(u.bytes, random, 16);
        u.bytes[6] = (uint8_t)((u.bytes[6] & 0x0f) | 0x40);
        u.bytes[8] = (uint8_t)((u.bytes[8] & 0x3f) | 0x80);
        return u;
}

void
ls_uuid_text(ls_uuid u, char ret_text[LS_UUID_TEXT_BYTES])
{
        char *p = ret_text;

        for (int i = 0; i < 16; i++) {
                if (i == 4 || i == 6 || i == 8 || i == 10)
                        *p++ = '-';
                *p++ = hex[u.bytes[i] >> 4];
                *p++ = hex[u.bytes[i] & 15];
        }
        *p = '\0';
}

void
ls_uuid_base64(ls_uuid u, char ret_text[LS_UUID_BASE64_BYTES])
{
        static const char digits[] =
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        uint8_t padded[18] = { 0 };
        char *p = ret_text;

        memcpy(padded, u.bytes, 16);
        for (int i = 0; i < 18; i += 3) {
                uint32_t v =
                        (uint32_t)padded[i] << 16 | (uint32_t)padded[i + 1] << 8 | padded[i + 2];

                for (int k = 18; k >= 0 && p < ret_text + 22; k -= 6)
                        *p++ = digits[(v >> k) & 63];
        }
        *p = '\0';
}

static int
hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        return -1;
}

bool
ls_uuid_parse(ls_str text, ls_uuid *ret_uuid)
{
        ls_uuid u;
        size_t pos = 0;

        if (text.ptr == NULL || text.len != LS_UUID_TEXT_BYTES - 1)
                return false;
        for (int i = 0; i < 16; i++) {
                int high, low;

                if ((i == 4 || i == 6 || i == 8 || i == 10) && text.ptr[pos++] != '-')
                        return false;
                high = hex_digit(text.ptr[pos++]);
                low = hex_digit(text.ptr[pos++]);
                if (high < 0 || low < 0)
                        return false;
                u.bytes[i] = (uint8_t)(high << 4 | low);
        }
        *ret_uuid = u;
        return true;
}

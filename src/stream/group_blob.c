/* stream/group_blob.c - a group's state as bytes, for the metadata store:
 * docs/formats/group_state.md. */
#include "base/assert.h"
#include "base/crc32c.h"
#include "base/rd.h"
#include "stream/group_int.h"

#define BLOB_VERSION 1
#define BLOB_NULL    UINT32_MAX

static void
put_text(struct ls_buf *b, ls_str s)
{
        ls_buf_put_le32(b, s.ptr ? (uint32_t)s.len : BLOB_NULL);
        ls_buf_put_str(b, s);
}

static void
put_bytes(struct ls_buf *b, ls_span s)
{
        put_text(b, ls_str_make((const char *)s.ptr, s.len));
}

static void
put_member(struct ls_buf *b, const struct group_member *m)
{
        put_text(b, ls_str_of(m->id));
        put_text(b, ls_str_of(m->instance_id));
        put_text(b, ls_str_of(m->client_id));
        put_text(b, ls_str_of(m->client_host));
        ls_buf_put_le32(b, (uint32_t)m->session_ms);
        ls_buf_put_le32(b, (uint32_t)m->rebalance_ms);
        put_bytes(b, m->assignment);
        ls_buf_put_le32(b, (uint32_t)m->protocol_count);
        for (size_t i = 0; i < m->protocol_count; i++) {
                put_text(b, m->protocols[i].name);
                put_bytes(b, m->protocols[i].metadata);
        }
}

void
group_blob_write(const struct ls_group *grp, struct ls_buf *out)
{
        size_t start = out->len;
        enum ls_group_state state = grp->state;
        bool assigned = true;

        /* What stands after a restart: with assignments for all the group is stable, else it has to
         * join anew. */
        for (const struct group_member *m = grp->first; m != NULL; m = m->next)
                assigned = assigned && m->assignment.ptr != NULL;
        if (state == GROUP_COMPLETING || state == GROUP_PREPARING || state == GROUP_STABLE)
                state = grp->member_count == 0                 ? GROUP_EMPTY
                        : assigned && state != GROUP_PREPARING ? GROUP_STABLE
                                                               : GROUP_COMPLETING;
        LS_ASSERT(state != GROUP_DEAD);
        ls_buf_put_u8(out, BLOB_VERSION);
        ls_buf_put_u8(out, (uint8_t)state);
        ls_buf_put_le32(out, (uint32_t)grp->generation);
        ls_buf_put_le64(out, (uint64_t)grp->state_ms);
        put_text(out, ls_str_of(grp->protocol_type));
        put_text(out, ls_str_of(grp->protocol_name));
        put_text(out, ls_str_of(grp->leader ? grp->leader->id : NULL));
        ls_buf_put_le32(out, (uint32_t)grp->member_count);
        for (const struct group_member *m = grp->first; m != NULL; m = m->next)
                put_member(out, m);
        if (!ls_buf_failed(out))
                ls_buf_put_le32(out, ls_crc32c(0, ls_span_of(out->ptr + start, out->len - start)));
}

static ls_span
get_bytes(struct ls_rd *rd)
{
        uint32_t len = ls_rd_le32(rd);

        return len == BLOB_NULL ? LS_SPAN_NULL : ls_rd_span(rd, len);
}

static ls_str
get_text(struct ls_rd *rd)
{
        ls_span s = get_bytes(rd);

        return ls_str_make((const char *)s.ptr, s.len);
}

static bool
get_member(struct ls_group *grp, struct ls_rd *rd, ls_str protocol_type)
{
        ls_str id = get_text(rd), instance_id = get_text(rd), client_id = get_text(rd),
               host = get_text(rd);
        int32_t session_ms = (int32_t)ls_rd_le32(rd), rebalance_ms = (int32_t)ls_rd_le32(rd);
        ls_span assignment = get_bytes(rd);
        uint32_t count = ls_rd_le32(rd);
        struct ls_group_protocol protocols[GROUP_PROTOCOLS_MAX];
        struct group_member *m;

        if (ls_rd_failed(rd) || id.ptr == NULL || count > GROUP_PROTOCOLS_MAX ||
            group_member_find(grp, id) != NULL ||
            (instance_id.ptr != NULL && group_member_find_static(grp, instance_id) != NULL))
                return false;
        for (uint32_t i = 0; i < count; i++) {
                protocols[i].name = get_text(rd);
                protocols[i].metadata = get_bytes(rd);
        }
        if (ls_rd_failed(rd))
                return false;
        m = group_member_add(grp, id, instance_id, client_id, host, protocol_type);
        m->session_ms = session_ms;
        m->rebalance_ms = rebalance_ms;
        group_member_set_protocols(m, protocols, count);
        group_member_set_assignment(m, assignment);
        return true;
}

ls_err
group_blob_read(struct ls_group *grp, ls_span blob)
{
        struct ls_rd rd = ls_rd_of(blob);
        ls_str protocol_type, protocol_name, leader;
        uint32_t count;
        uint8_t state;

        LS_ASSERT(grp->state == GROUP_EMPTY && grp->member_count == 0);
        if (blob.len < 5)
                return LS_EBROKEN;
        if (blob.ptr[0] > BLOB_VERSION)
                return LS_NEWER_FORMAT;
        if (blob.ptr[0] != BLOB_VERSION || ls_get_le32(blob.ptr + blob.len - 4) !=
                                                   ls_crc32c(0, ls_span_of(blob.ptr, blob.len - 4)))
                return LS_EBROKEN;
        rd.end -= 4;
        ls_rd_u8(&rd);
        state = ls_rd_u8(&rd);
        grp->generation = (int32_t)ls_rd_le32(&rd);
        grp->state_ms = (int64_t)ls_rd_le64(&rd);
        protocol_type = get_text(&rd);
        protocol_name = get_text(&rd);
        leader = get_text(&rd);
        count = ls_rd_le32(&rd);
        if (ls_rd_failed(&rd) ||
            (state != GROUP_EMPTY && state != GROUP_COMPLETING && state != GROUP_STABLE) ||
            (count == 0) != (state == GROUP_EMPTY) || (count > 0 && protocol_type.ptr == NULL))
                return LS_EBROKEN;
        for (uint32_t i = 0; i < count; i++)
                if (!get_member(grp, &rd, protocol_type))
                        return LS_EBROKEN;
        if (ls_rd_failed(&rd) || ls_rd_left(&rd) > 0)
                return LS_EBROKEN;
        if (leader.ptr != NULL)
                grp->leader = group_member_find(grp, leader);
        if (count > 0 && grp->leader == NULL)
                return LS_EBROKEN;
        ls_free(grp->protocol_type);
        grp->protocol_type = ls_str_dup(protocol_type);
        grp->protocol_name = ls_str_dup(protocol_name);
        grp->state = (enum ls_group_state)state;
        return LS_OK;
}

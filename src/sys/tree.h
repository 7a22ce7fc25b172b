/* sys/tree.h - the files under one folder, by relative name; no symbolic link is followed, no
 * name leaves the folder. What the folder back end of store/ stands on.
 *
 * Names: levels of 1 to 255 bytes separated by '/', none of them "." or ".."; else LS_INVALID.
 * All calls block; any thread. Outcomes as in sys/file.h: LS_ABSENT, LS_EXISTS, LS_DENIED (also:
 * a symbolic link in the way).
 */
#pragma once
#include "sys/file.h"

struct ls_tree;
struct ls_tree_info {
        uint64_t bytes;
        uint64_t inode;
        int64_t modified_ns; /* since 1970 */
        bool is_dir;
};

/* Opens the folder `path`, made when absent. The folder itself may be reached by a link. */
LS_MUST_USE ls_err ls_tree_open(const char *path, struct ls_tree **ret_tree);
/* Accepts NULL. */
void ls_tree_close(struct ls_tree *tree);
/* For reading. LS_ABSENT for a folder too. */
LS_MUST_USE ls_err ls_tree_open_file(struct ls_tree *tree, const char *name,
                                     struct ls_file **ret_file);
/* A new file in a folder that exists. */
LS_MUST_USE ls_err ls_tree_create(struct ls_tree *tree, const char *name,
                                  struct ls_file **ret_file);
LS_MUST_USE ls_err ls_tree_stat(struct ls_tree *tree, const char *name,
                                struct ls_tree_info *ret_info);
/* Makes a folder with all above it, durably. */
LS_MUST_USE ls_err ls_tree_make_dir(struct ls_tree *tree, const char *name);
/* Gives `from`, a file that is written and synced, the name `to`, making folders as needed. With
 * `replace` in place of what was there; else LS_EXISTS when something is, by link(2), not by a
 * check. `from` is gone on LS_OK. The name is not durable before ls_tree_sync_folder.
 * LS_INVALID: a file stands where `to` needs a folder, or the other way round. */
LS_MUST_USE ls_err ls_tree_publish(struct ls_tree *tree, const char *from, const char *to,
                                   bool replace);
/* Makes the names in the folder of `name` durable, or that the folder is gone. */
LS_MUST_USE ls_err ls_tree_sync_folder(struct ls_tree *tree, const char *name);
/* Deletes a file and the folders that are empty then. Not durable before ls_tree_sync_folder. */
LS_MUST_USE ls_err ls_tree_delete(struct ls_tree *tree, const char *name);
/* Calls fn for each file and folder directly in `folder` ("": the tree's own), in no order;
 * stops when fn returns non-LS_OK and returns that. Links and devices are left out. */
LS_MUST_USE ls_err ls_tree_walk(struct ls_tree *tree, const char *folder,
                                ls_err (*fn)(void *ctx, const char *name, bool is_dir), void *ctx);

enum ls_tree_lock { LS_TREE_SHARED, LS_TREE_EXCLUSIVE, LS_TREE_EXCLUSIVE_TRY };
/* Locks the file `name` (made when absent; its folder exists) between processes and threads until
 * *ret_lock is closed. Waits, but for _TRY: LS_BUSY. */
LS_MUST_USE ls_err ls_tree_lock(struct ls_tree *tree, const char *name, enum ls_tree_lock mode,
                                struct ls_file **ret_lock);

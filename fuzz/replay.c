/* fuzz/replay.c - runs a fuzz target over the files of its corpus folder (argv[1]) as an ordinary
 * test, so that every input that once broke a decoder is tried in each build. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int
replay_file(const char *dir, const char *name)
{
        char path[4096];
        uint8_t *data;
        FILE *f;
        long size;

        snprintf(path, sizeof path, "%s/%s", dir, name);
        f = fopen(path, "rb");
        if (f == NULL || fseek(f, 0, SEEK_END) != 0 || (size = ftell(f)) < 0) {
                fprintf(stderr, "cannot read %s\n", path);
                return 1;
        }
        rewind(f);
        data = malloc(size > 0 ? (size_t)size
                               : 1); /* exact size matters to the address sanitizer */
        if (data == NULL || fread(data, 1, (size_t)size, f) != (size_t)size) {
                fprintf(stderr, "cannot read %s\n", path);
                return 1;
        }
        fclose(f);
        LLVMFuzzerTestOneInput(data, (size_t)size);
        free(data);
        return 0;
}

int
main(int argc, char **argv)
{
        struct dirent *entry;
        size_t count = 0;
        DIR *dir;

        if (argc != 2 || (dir = opendir(argv[1])) == NULL) {
                fprintf(stderr, "usage: replay CORPUS_DIR\n");
                return 2;
        }
        while ((entry = readdir(dir)) != NULL) {
                if (entry->d_name[0] == '.')
                        continue;
                if (replay_file(argv[1], entry->d_name) != 0)
                        return 1;
                count++;
        }
        closedir(dir);
        printf("%zu inputs\n", count);
        return count > 0 ? 0 : 1;
}

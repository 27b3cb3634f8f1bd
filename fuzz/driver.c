/* Gives each fuzz target a main that replays files, so corpora run in the ordinary tests.
 * Usage: fuzz_x FILE_OR_FOLDER ...; an input that crashes, crashes the test. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int n_inputs;

static void replay_file(const char *path)
{
    FILE *const f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(1);
    }
    fseek(f, 0, SEEK_END);
    long const size = ftell(f);
    rewind(f);
    /* An exact allocation lets the sanitizer see a read past the end. */
    uint8_t *const data = malloc(size > 0 ? (size_t)size : 1);
    if (!data || fread(data, 1, (size_t)size, f) != (size_t)size) exit(1);
    fclose(f);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    n_inputs++;
}

static void replay(const char *path)
{
    DIR *const dir = opendir(path);
    if (!dir) {
        replay_file(path);
        return;
    }
    for (struct dirent *e; (e = readdir(dir));) {
        char child[4096];
        if (e->d_name[0] == '.') continue;
        snprintf(child, sizeof child, "%s/%s", path, e->d_name);
        replay_file(child);
    }
    closedir(dir);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) replay(argv[i]);
    printf("%s: %d inputs replayed\n", argv[0], n_inputs);
    return n_inputs > 0 ? 0 : 1;
}

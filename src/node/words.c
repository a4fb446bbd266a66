#include "node/words.h"

#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "host/agreement.h"
#include "node/arena.h"

static struct tug_words *make(struct tug_team *team) {
    const size_t line = TUG_CACHE_LINE / sizeof(uint64_t), most = (size_t)team->node_most;
    const size_t row = (most + line - 1) / line * line;
    struct tug_words *words = calloc(1, sizeof(*words));
    unsigned char *memory;
    if (!tug_all_agree(team->comm, words != NULL) ||
        tug_arena_take(team, most * row * (sizeof(*words->all) + sizeof(*words->wait)), &memory) !=
            0) {
        free(words);
        return NULL;
    }
    words->row = (uint32_t)row;
    words->mine = (uint32_t)team->node_rank;
    words->all = (_Atomic uint64_t *)(void *)memory;
    words->wait = (_Atomic uint8_t *)(words->all + most * row);
    return words;
}

struct tug_words *tug_words_take(struct tug_team *team) {
    struct tug_words *words = team->words;
    if (words == NULL)
        return make(team);
    team->words = words->next;
    memset((void *)&words->all[words->mine * words->row], 0, words->row * sizeof(*words->all));
    memset((void *)&words->wait[words->mine * words->row], 0, words->row * sizeof(*words->wait));
    return words;
}

void tug_words_give(struct tug_team *team, struct tug_words *words) {
    words->next = team->words;
    team->words = words;
}

void tug_words_fini(struct tug_team *team) {
    while (team->words != NULL) {
        struct tug_words *words = team->words;
        team->words = words->next;
        free(words);
    }
}

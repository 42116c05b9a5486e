/* What the files of the stand-in share. */
#ifndef STAND_IN_H
#define STAND_IN_H

enum {
    INVALID_VALUE = 1,
    NOT_INITIALIZED = 3,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    MOST_PARAMETERS = 256,
};

typedef enum { CONTEXT, MODULE, FUNCTION, STREAM, EVENT, MEMORY, GRAPH, EXEC, N_KINDS } Kind;

typedef struct Object {
    Kind kind;
    bool alive;
    struct Object *next;
} Object;

typedef struct {
    Object object;
} Context;

typedef struct {
    Object object;
    uint64_t begin, end;
} Memory;

/* `types` has a letter for each parameter: p a pointer, i a 64-bit integer, h a 32-bit one, s a pointer that is null;
   ? what nobody has said. */
typedef struct {
    char name[128];
    int count;
    char types[MOST_PARAMETERS];
    unsigned offsets[MOST_PARAMETERS], sizes[MOST_PARAMETERS];
    int registers, threads, fixed; /* threads at most; bytes of fixed shared memory */
    int required;                  /* threads of a block; 0: any number */
    int aligned;                   /* what its pointers are multiples of */
} Description;

typedef struct {
    Object object;
    Context *context;
    char *image;
} Module;

typedef struct {
    Object object;
    Module *module;
    Description is;
    int dynamic; /* bytes of shared memory that were asked for */
} Function;

/* One thing that a stream does: a launch, or a copy. */
typedef struct Node {
    Function *function; /* NULL: a copy */
    unsigned grid[3], block[3], shared;
    uint64_t parameters[MOST_PARAMETERS]; /* of a copy: to, from, bytes */
    struct Node *next;
} Node;

typedef struct {
    Object object;
    Node *first, **last;
    bool running;
    const void *stream; /* of its last launch */
} Graph; /* also one that can be launched */

typedef struct {
    Object object;
    Context *context;
    bool blocking;
    Graph *capture; /* NULL: none */
    int mode;
    bool invalid;
    pthread_t thread;
} Stream;

typedef struct {
    int devices, capability, shared;
    int load_fails, launch_fails, instantiate_fails; /* the error of the next one */
    int hold;       /* launches wait, as on a stream on which too much is waiting */
    int quiet;      /* launches are neither checked nor recorded */
    int any_memory; /* pointers to all memory of the process are right */
} Settings;

extern pthread_mutex_t lock;
extern Settings settings;

/* libcuda.c; callers hold the lock */
int complain(int code, const char *format, ...);
void record(const char *format, ...);
void *make(Kind kind, size_t size);
/* NULL, and a complaint, if there is no such thing. */
void *found(const void *handle, Kind kind, const char *what);
Object *first_of(Kind kind);
bool is_memory(uint64_t begin, uint64_t size);
Context *current_context(const char *what);

#endif

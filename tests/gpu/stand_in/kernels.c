/* Kernels of the stand-in: what a cubin or a text says of them, and whether a launch is right. */
#define _GNU_SOURCE
#include <elf.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef WITH_CUDA_H
#include <cuda.h>
#else
typedef int CUresult, CUfunction_attribute;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
#endif
#include "stand_in.h"
#include "streams.h"

/* ---- what a kernel is ---- */

/* A test writes "STAND-IN arch=80\n", and for each kernel "k types=-ppi registers=32 threads=1024 fixed=0 required=0
   aligned=1\n", in one line:
   behind its parameters there are two null pointers. */
static bool described_by_text(const char *image, const char *name, Description *is)
{
    char found[128], types[MOST_PARAMETERS - 2];
    for (const char *line = strchr(image, '\n'); line != NULL && line[1] != '\0'; line = strchr(line + 1, '\n')) {
        int fields = sscanf(line + 1, "%127s types=%253s registers=%d threads=%d fixed=%d required=%d aligned=%d", found, types,
                            &is->registers, &is->threads, &is->fixed, &is->required, &is->aligned);
        if (fields == 7 && strcmp(found, name) == 0) {
            unsigned at = 0;
            strcpy(is->types, types + 1); /* behind a dash */
            strcat(is->types, "ss");
            is->count = (int)strlen(is->types);
            for (int i = 0; i < is->count; i++) {
                unsigned size = is->types[i] == 'h' ? 4 : 8;
                at = (at + size - 1) & ~(size - 1);
                is->offsets[i] = at;
                is->sizes[i] = size;
                at += size;
            }
            return true;
        }
    }
    return false;
}

/* One entry of a .nv.info section: attributes as cuobjdump names them. */
static void read_attribute(Description *is, int attribute, const uint8_t *value)
{
    enum { REQUIRED_THREADS = 0x10, PARAMETER = 0x17, REGISTER_COUNT = 0x2f, IS_POINTER = 0x400 };
    uint32_t words[3];
    memcpy(words, value, attribute == REGISTER_COUNT ? 8 : 12);
    if (attribute == PARAMETER && (words[1] & 0xffff) < MOST_PARAMETERS) {
        int number = (int)(words[1] & 0xffff);
        is->offsets[number] = words[1] >> 16;
        is->sizes[number] = words[2] >> 18;
        is->types[number] = words[2] & IS_POINTER ? 'p' : is->sizes[number] == 8 ? 'i' : 'h';
        is->count = number + 1 > is->count ? number + 1 : is->count;
    } else if (attribute == REQUIRED_THREADS) {
        is->required = (int)(words[0] * words[1] * words[2]);
    } else if (attribute == REGISTER_COUNT) {
        is->registers = (int)words[1];
    }
}

static bool described_by_cubin(const char *image, const char *name, Description *is)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + header->e_shoff);
    const char *names = image + sections[header->e_shstrndx].sh_offset;
    char text[160], info[160];
    bool found = false;
    snprintf(text, sizeof(text), ".text.%s", name);
    snprintf(info, sizeof(info), ".nv.info.%s", name);
    is->threads = 1024;
    is->aligned = 1; /* it does not say */
    for (int i = 0; i < header->e_shnum; i++) {
        const char *section = names + sections[i].sh_name;
        found = found || strcmp(section, text) == 0;
        if (strcmp(section, info) != 0 && strcmp(section, ".nv.info") != 0) {
            continue;
        }
        const uint8_t *at = (const uint8_t *)image + sections[i].sh_offset, *end = at + sections[i].sh_size;
        while (at + 4 <= end) {
            uint16_t size;
            memcpy(&size, at + 2, 2);
            bool has_value = at[0] == 4; /* of the others the two bytes are the value */
            if (has_value) {
                read_attribute(is, at[1], at + 4);
            }
            at += 4 + (has_value ? size : 0);
        }
    }
    for (int i = is->count - 2; i >= 0 && i < is->count; i++) {
        is->types[i] = 's';
    }
    return found;
}

static int architecture(const char *image)
{
    int found = 0;
    if (memcmp(image, ELFMAG, SELFMAG) == 0) {
        const Elf64_Ehdr *head = (const Elf64_Ehdr *)image;
        int is_new = head->e_ident[EI_ABIVERSION] >= 8; // as CUDA 13 writes them
        return (int)(head->e_flags >> (is_new ? 8 : 0) & 0xff);
    }
    sscanf(image, "STAND-IN arch=%d", &found);
    return found;
}

/* ---- modules and functions ---- */

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    int code = settings.load_fails, made_for = architecture(image);
    settings.load_fails = 0;
    pthread_mutex_lock(&lock);
    Context *context = current_context("cuModuleLoadData");
    code = context == NULL ? INVALID_CONTEXT : code != 0 ? code : unsafe_call("cuModuleLoadData");
    if (code == 0 && made_for == 0) {
        code = 200;
    } else if (code == 0 && (made_for / 10 != settings.capability / 10 || made_for > settings.capability)) {
        code = 209;
    }
    if (code == 0) {
        Module *made = make(MODULE, sizeof(Module));
        made->context = context;
        made->image = (char *)image; /* lives as long as its owner, who reads the functions at once */
        *module = (CUmodule)made;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

CUresult cuModuleUnload(CUmodule handle)
{
    pthread_mutex_lock(&lock);
    Module *module = found(handle, MODULE, "cuModuleUnload");
    int code = module == NULL ? INVALID_HANDLE : unsafe_call("cuModuleUnload");
    if (code == 0) {
        if (current_context("cuModuleUnload") != module->context) {
            complain(0, "cuModuleUnload in another context");
        }
        for (Object *object = first_of(FUNCTION); object != NULL; object = object->next) {
            if (object->alive && ((Function *)object)->module == module) {
                still_used((Function *)object);
                object->alive = false;
            }
        }
        module->object.alive = false;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule handle, const char *name)
{
    pthread_mutex_lock(&lock);
    Module *module = found(handle, MODULE, "cuModuleGetFunction");
    Description is = {0};
    bool cubin = module != NULL && memcmp(module->image, ELFMAG, SELFMAG) == 0;
    int code = module == NULL ? INVALID_HANDLE : 500;
    if (module != NULL && (cubin ? described_by_cubin : described_by_text)(module->image, name, &is)) {
        Function *made = make(FUNCTION, sizeof(Function));
        made->module = module;
        made->is = is;
        snprintf(made->is.name, sizeof(made->is.name), "%s", name);
        *function = (CUfunction)made;
        code = 0;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction handle)
{
    pthread_mutex_lock(&lock);
    Function *function = found(handle, FUNCTION, "cuFuncGetAttribute");
    int code = function == NULL ? INVALID_HANDLE : 0;
    if (function != NULL) {
        switch ((int)attribute) {
        case 0: *value = function->is.threads; break;
        case 1: *value = function->is.fixed; break;
        case 3: *value = 0; break;
        case 4: *value = function->is.registers; break;
        default: code = complain(INVALID_VALUE, "cuFuncGetAttribute: %d is not known here", (int)attribute);
        }
    }
    pthread_mutex_unlock(&lock);
    return code;
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value)
{
    pthread_mutex_lock(&lock);
    Function *function = found(handle, FUNCTION, "cuFuncSetAttribute");
    int code = function == NULL ? INVALID_HANDLE : 0;
    if (function != NULL && ((int)attribute != 8 || value < 0 || value + function->is.fixed > settings.shared)) {
        code = complain(INVALID_VALUE, "cuFuncSetAttribute of %d to %d", (int)attribute, value);
    } else if (function != NULL) {
        function->dynamic = value;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

#ifndef BEFORE_CUDA_12_4
CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *offset, size_t *size)
{
    pthread_mutex_lock(&lock);
    Function *function = found(handle, FUNCTION, "cuFuncGetParamInfo");
    int code = function == NULL ? INVALID_HANDLE : index >= (size_t)function->is.count ? INVALID_VALUE : 0;
    if (code == 0) {
        *offset = function->is.offsets[index];
        *size = function->is.sizes[index];
    }
    pthread_mutex_unlock(&lock);
    return code;
}
#endif

/* ---- launches ---- */

/* What a test has a kernel do: it is given the parameters and the grid. */
typedef void (*Computes)(const uint64_t *parameters, const unsigned *grid);
static struct {
    char name[128];
    Computes computes;
} bound[4096];
static int n_bound;

void stand_in_bind(const char *name, Computes computes)
{
    snprintf(bound[n_bound].name, sizeof(bound[0].name), "%s", name);
    bound[n_bound++].computes = computes;
}

static Computes computes_of(const char *name)
{
    for (int i = n_bound - 1; i >= 0; i--) {
        if (strcmp(bound[i].name, name) == 0) {
            return bound[i].computes;
        }
    }
    return NULL;
}

/* The parameters of a launch, as 64 bits each. */
static int take_parameters(const Function *function, void **parameters, void **extra, uint64_t *out)
{
    const Description *is = &function->is;
    const char *buffer = NULL;
    size_t size = 0;
    if ((parameters == NULL) == (extra == NULL)) {
        return complain(INVALID_VALUE, "%s: parameters in both forms, or in none", is->name);
    }
    for (; extra != NULL && extra[0] != NULL; extra += 2) {
        switch ((uintptr_t)extra[0]) {
        case 1: buffer = extra[1]; break;
        case 2: size = *(size_t *)extra[1]; break;
        default: return complain(INVALID_VALUE, "%s: extra words that nobody knows", is->name);
        }
    }
    int last = is->count - 1;
    if (extra != NULL && (buffer == NULL || size != is->offsets[last] + is->sizes[last])) {
        return complain(INVALID_VALUE, "%s: %zu bytes of parameters, not %u", is->name, size,
                        is->offsets[last] + is->sizes[last]);
    }
    for (int i = 0; i < is->count; i++) {
        out[i] = 0;
        memcpy(&out[i], extra != NULL ? (const void *)(buffer + is->offsets[i]) : parameters[i], is->sizes[i]);
        if (is->types[i] == 's' && out[i] != 0) {
            return complain(INVALID_VALUE, "%s: parameter %d is scratch memory, and nobody asked for it", is->name, i);
        }
        if (is->types[i] == 'p' && !is_memory(out[i], 1)) {
            return complain(INVALID_VALUE, "%s: parameter %d, %#llx, is no memory of the device", is->name, i,
                            (unsigned long long)out[i]);
        }
        if (is->types[i] == 'p' && out[i] % (uint64_t)is->aligned != 0) {
            return complain(INVALID_VALUE, "%s: parameter %d, %#llx, is no multiple of %d", is->name, i,
                            (unsigned long long)out[i], is->aligned);
        }
    }
    return 0;
}

static int is_launch_right(const Function *function, const Node *node)
{
    const unsigned *g = node->grid, *b = node->block;
    uint64_t threads = (uint64_t)b[0] * b[1] * b[2];
    int shared = function->is.fixed + (int)node->shared;
    int most = function->dynamic > 0 ? function->dynamic : 49152 - function->is.fixed;
    if (g[0] - 1 > 0x7ffffffe || g[1] - 1 > 65534 || g[2] - 1 > 65534) {
        return complain(INVALID_VALUE, "%s: a grid of %u x %u x %u", function->is.name, g[0], g[1], g[2]);
    }
    if (threads == 0 || threads > (uint64_t)function->is.threads || b[2] > 64 ||
        (function->is.required > 0 && threads != (uint64_t)function->is.required)) {
        return complain(701, "%s: a block of %u x %u x %u", function->is.name, b[0], b[1], b[2]);
    }
    if (shared > settings.shared || (int)node->shared > most) {
        return complain(INVALID_VALUE, "%s: %d bytes of shared memory, of %d", function->is.name, shared, most);
    }
    return 0;
}

void record_launch(const Node *node, const Stream *stream, const char *how)
{
    const Function *function = node->function;
    char values[2048];
    int at = 0;
    for (int i = 0; i < function->is.count && at < (int)sizeof(values) - 24; i++) {
        at += snprintf(values + at, sizeof(values) - (size_t)at, " %llu", (unsigned long long)node->parameters[i]);
    }
    record("%s %s %u,%u,%u %u,%u,%u %u %llu%s", how, function->is.name, node->grid[0], node->grid[1], node->grid[2],
           node->block[0], node->block[1], node->block[2], node->shared, (unsigned long long)(uintptr_t)stream, values);
}

/* Without the lock: it may be Python. */
void compute(const Node *node)
{
    Computes computes = computes_of(node->function->is.name);
    if (computes != NULL) {
        computes(node->parameters, node->grid);
    }
}

CUresult cuLaunchKernel(CUfunction handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream_handle, void **parameters, void **extra)
{
    Node node = {.grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared = shared};
    Stream *stream = NULL;
    int code;
    if (settings.quiet) {
        return 0;
    }
    for (int waited = 0; settings.hold; waited++) {
        if (waited == 5000) {
            settings.hold = complain(0, "cuLaunchKernel: nobody can end what it waits for");
        }
        usleep(1000);
    }
    pthread_mutex_lock(&lock);
    Function *function = node.function = found(handle, FUNCTION, "cuLaunchKernel");
    code = settings.launch_fails;
    settings.launch_fails = 0;
    code = function == NULL ? INVALID_HANDLE : code;
    code = code != 0 ? code : is_stream(stream_handle, "cuLaunchKernel", &stream);
    if (code == 0 && current_context("cuLaunchKernel") != function->module->context) {
        code = complain(INVALID_CONTEXT, "%s is launched in another context", function->is.name);
    }
    code = code != 0 ? code : is_launch_right(function, &node);
    code = code != 0 ? code : take_parameters(function, parameters, extra, node.parameters);
    bool at_once = code == 0 && (stream == NULL || stream->capture == NULL);
    if (at_once) {
        record_launch(&node, stream, "launch");
        pending(function, stream);
    } else if (code == 0) {
        code = add_node(stream, &node);
    }
    pthread_mutex_unlock(&lock);
    if (at_once) {
        compute(&node);
    }
    return code;
}

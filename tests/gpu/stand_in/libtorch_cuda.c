/* What onegraph asks of a torch with CUDA: the current stream, which a test sets for its thread, or somebody else knows. */
#include <stdint.h>
#include <stddef.h>

static _Thread_local void *current;

void stand_in_use(void *stream) { current = stream; }

static void *(*ask)(int32_t);

void stand_in_ask_stream(void *(*of_device)(int32_t)) { ask = of_device; }

int32_t aoti_torch_get_current_cuda_stream(int32_t device, void **stream)
{
    *stream = ask != NULL ? ask(device) : current;
    return device >= 0 ? 0 : 1;
}

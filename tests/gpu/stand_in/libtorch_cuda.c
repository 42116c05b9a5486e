/* What onegraph asks of a torch with CUDA: the current stream, which a test sets for its thread. */
#include <stdint.h>
#include <stddef.h>

static _Thread_local void *current;

void stand_in_use(void *stream) { current = stream; }

int32_t aoti_torch_get_current_cuda_stream(int32_t device, void **stream)
{
    *stream = current;
    return device >= 0 ? 0 : 1;
}

/* Denormal numbers: `torch.set_flush_denormal` has the processor take them for zero, in each thread on its own. */
#include "onegraph.h"

#if defined(__x86_64__)
typedef unsigned int Control;
#define FLUSH 0x8040u /* flush to zero, denormals are zero */
static Control read_control(void) { return __builtin_ia32_stmxcsr(); }
static void write_control(Control control) { __builtin_ia32_ldmxcsr(control); }
#elif defined(__aarch64__)
typedef uint64_t Control;
#define FLUSH (1u << 24)
static Control read_control(void)
{
    Control control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control;
}
static void write_control(Control control) { __asm__ volatile("msr fpcr, %0" : : "r"(control)); }
#else
typedef unsigned int Control;
#define FLUSH 0u
static Control read_control(void) { return 0; }
static void write_control(Control control) { (void)control; }
#endif

bool flushes_denormals(void) { return (read_control() & FLUSH) != 0; }

PyObject *module_flush_denormals(PyObject *UNUSED(module), PyObject *flush)
{
    bool previous = flushes_denormals();
    Control control = read_control() & ~(Control)FLUSH;
    write_control(flush == Py_True ? control | FLUSH : control);
    return PyBool_FromLong(previous);
}

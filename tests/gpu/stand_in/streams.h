/* What kernels.c asks streams.c, and the other way round; callers hold the lock. */
#ifndef STREAMS_H
#define STREAMS_H

/* streams.c */
/* The stream of a handle, NULL for the null stream; 0, or an error. */
int is_stream(const void *handle, const char *what, Stream **stream);
/* 0, or the error of a call that a capture forbids. */
int unsafe_call(const char *what);
/* A launch runs until something waits for its stream. */
void pending(Function *function, Stream *stream);
/* Complain if a launch of the function may run, or a graph may launch it. */
void still_used(const Function *function);
/* Add to what a stream captures; 0, or an error. */
int add_node(Stream *stream, const Node *node);

/* kernels.c */
void record_launch(const Node *node, const Stream *stream, const char *how);
void compute(const Node *node); /* without the lock */

#endif

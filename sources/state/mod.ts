/**
 * The source for a state file of `sluice export` or KPNG, read again when it changes, and the writer of such files.
 *
 * In: a file. Out: objects, to a `SourceSink`. May touch: the file.
 */
export { createStateSource } from "./state_source.ts";
export { writeStateFile } from "./write.ts";

/**
 * The cached state: the last objects of a server on disk, and a source that serves them while the server does not answer.
 *
 *   kept_source.ts  serves the cached state until the server has sent its own, and stores the server's state
 *   state_file.ts   the file: two slots with headers, of which a write replaces the older one
 *   payload.ts      objects as compressed lines, validated
 *   pods.ts         keeps the addresses of cached endpoints up to date with the pods of this node
 *
 * In: a source, the objects of the trackers, and the pods of this node. Out: objects, to a `SourceSink`. May touch: the state
 * file, through a handle that is opened before the write permission is dropped.
 */
export { openStateDirectory, type StateFile, type StateOrigin, UntrustedStateError } from "./state_file.ts";
export { createKeptSource, type KeptSourceOptions } from "./kept_source.ts";

/**
 * The kept state: the last objects of a server on disk, and a source that serves them while the server does not answer.
 *
 *   kept_source.ts  a source that serves the kept state until the server answers, and keeps that of the server
 *   stand_in.ts     the kept objects in place of those that the server has not sent yet
 *   pod_follower.ts  keeps the addresses of kept endpoints up to date with the pods of this node
 *   pod_addresses.ts the addresses that pods have now, in kept endpoints
 *   keeper.ts       writes the state, at most once in 10 s and with at most 1% of the time
 *   state_file.ts   one file with two slots, of which the older one is overwritten
 *   slot.ts         the header of a slot
 *   storage.ts      an open file
 *   folder.ts       opens the file of a state directory
 *   payload.ts      objects as compressed lines
 *   object_line.ts  one object as a line, validated
 *
 * In: a source, the objects of the trackers, and the pods of this node. Out: objects, to a `SourceSink`. May touch: the state file, through a handle
 * that is opened before the write permission is dropped.
 */
export { openStateDirectory } from "./folder.ts";
export { createKeptSource, type KeptSourceOptions } from "./kept_source.ts";
export type { StateFile } from "./state_file.ts";

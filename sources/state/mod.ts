/**
 * The source for a state file of `sluice export` or KPNG, read again when it changes, and the writer of such files.
 *
 *   state_source.ts  the source
 *   reading.ts       reads a state file
 *   items.ts         splits a state file into its items
 *   document.ts      the items of a state file, validated
 *   tree.ts          the syntax tree
 *   plain_tree.ts    fast parser of a YAML subset
 *   yaml_tree.ts     parser of any YAML
 *   reporter.ts      reports differences to the sink
 *   write.ts         writes a state file
 *
 * In: a file. Out: objects, to a `SourceSink`. May touch: the file.
 */
export { createStateSource } from "./state_source.ts";
export { writeStateFile } from "./write.ts";

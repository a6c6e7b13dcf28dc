/**
 * Objects of one state file, as `sluice export` and KPNG write it, read again when it changes.
 */
export { createStateSource } from "./state_source.ts";
export { writeStateFile } from "./write.ts";

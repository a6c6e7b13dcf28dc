/**
 * The source for YAML or JSON manifests, read again when they change.
 *
 *   manifest_source.ts  the source
 *   folder.ts           finds the files
 *   files.ts            reads the files, and keeps the last valid version of each
 *   document.ts         splits and parses YAML and JSON documents
 *   objects.ts          the objects in a document
 *   emitter.ts          reports differences to the sink
 *
 * In: a file or folder. Out: objects, to a `SourceSink`. May touch: the files.
 */
export { findFiles, folderOf } from "./folder.ts";
export { createManifestSource } from "./manifest_source.ts";

/**
 * The source for YAML or JSON manifests, read again when they change.
 *
 * In: a file or folder. Out: objects, to a `SourceSink`. May touch: the files.
 */
export { findFiles, folderOf } from "./folder.ts";
export { createManifestSource } from "./manifest_source.ts";

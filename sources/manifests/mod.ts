/**
 * Objects of YAML or JSON files in a folder, read again when they change.
 */
export { findFiles, folderOf } from "./folder.ts";
export { createManifestSource } from "./manifest_source.ts";

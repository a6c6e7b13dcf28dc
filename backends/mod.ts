/**
 * The modes that the kernel can be kept in: a new one is a folder and a line in registry.ts.
 */
export { createBackend, createBackendAlone, MODES } from "./registry.ts";

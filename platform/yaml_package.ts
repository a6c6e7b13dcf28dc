/**
 * What Sluice uses of the package `yaml`, in a module of its own to be loaded late: when the bundler meets a CommonJS
 * package in an `import()`, it hands out its default export alone.
 */
export { isAlias, isMap, isScalar, isSeq, LineCounter, parseAllDocuments, parseDocument, stringify } from "yaml";

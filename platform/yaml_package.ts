/**
 * Re-exports package `yaml`. A separate module because the bundler exposes only the default export of a CommonJS package
 * that is loaded with `import()`.
 */
export { isAlias, isMap, isScalar, isSeq, LineCounter, parseAllDocuments, parseDocument, stringify } from "yaml";

/** Answers as text for a terminal. */
export { eventLine } from "./lines.ts";
export { clusterLines, statusLines } from "./status_text.ts";
export { explanationText } from "./explanation_text.ts";
export { endpointsTable, servicesTable } from "./tables.ts";
export * from "./top_text.ts";

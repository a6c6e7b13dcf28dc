/**
 * Answers as text for a terminal.
 */
export { explanationText } from "./explanation_text.ts";
export { endpointsTable, servicesTable } from "./tables.ts";
export { type TopContent, topLines } from "./top_text.ts";

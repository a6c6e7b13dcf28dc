/**
 * Answers as text for a terminal.
 */
export { eventLine } from "./event_line.ts";
export { explanationText } from "./explanation_text.ts";
export { PLAIN } from "./lines.ts";
export { statusLines } from "./status_text.ts";
export { endpointsTable, servicesTable } from "./tables.ts";
export { type TopContent, topLines } from "./top_text.ts";

/**
 * Answers as text for a terminal.
 */
export { eventLine } from "./event_line.ts";
export { clusterLines } from "./cluster_text.ts";
export { explanationText } from "./explanation_text.ts";
export { PLAIN } from "./lines.ts";
export { statusLines } from "./status_text.ts";
export { endpointsTable, servicesTable } from "./tables.ts";
export { roomForServices, type TopContent, topLines, topScreen } from "./top_text.ts";
export { afterKey, FIRST_VIEW, type TopView } from "./top_view.ts";

/**
 * The status of a node: its data, and the view of it that the terminal, the page and programs share. A new line of the status
 * is an entry in view.ts.
 *
 *   status.ts       the data, which node/running_status.ts collects
 *   states.ts       the states of a family, the link and the proxy in words and a tone
 *   view.ts         the view: state, lines, families, problems
 *   texts.ts        a sync and an event in words
 *
 * In: records of `observe`. Out: plain data. May touch: nothing.
 */
export { sentenceOf, type StateWords } from "./states.ts";
export type { FamilyStatusDetails, ProxyStatus } from "./status.ts";
export { eventText, sizeOfSync } from "./texts.ts";
export * from "./view.ts";

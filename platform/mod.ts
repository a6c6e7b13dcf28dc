/**
 * General-purpose utilities without knowledge of Sluice: clock, log, addresses, retries, abort signals, folder watches.
 *
 *   clock.ts               time, timers and abort signals
 *   log.ts                 structured logger, and its rate limit for repetitions
 *   retry.ts               backoff and retry
 *   supervised_worker.ts   keeps a worker running
 *   questions.ts           questions to another isolate, and their answers
 *   address.ts             IP addresses, prefixes and families
 *   host.ts                cores, CPU time, search path, network namespace, and programs run for an isolate
 *   build.ts               version, build and shipped files
 *   output.ts              standard output and standard error, full-screen output
 *   topic.ts               events between parts
 *   turns.ts               steps one after another
 *   text.ts                numbers for people
 *   files.ts               paths, and text files of a limited size
 *   folder_changes.ts      watches a folder
 *   client_certificate.ts  validates a client certificate and its key
 *   yaml.ts                loads the reader and writer of YAML on first use
 *   yaml_text.ts           parses YAML to a tree with the line of each value, and writes it
 *   data.ts                equality and compact copies of plain data, joined and bounded bytes
 *
 * In: nothing from the project. Out: functions for every room. May touch: the clock, the standard streams, files, addresses
 * that are probed.
 */
export * from "./clock.ts";
export * from "./address.ts";
export { type CertificateCheck, loadCertificateCheck } from "./client_certificate.ts";
export { DOCUMENTATION, KUBERNETES_VERSION, readBuild, runsFromSource, shippedText, VERSION } from "./build.ts";
export { compact, joinBytes, joinFlat, parseJsonObject, readUpTo, sameData } from "./data.ts";
export { type OpenWatch, watchChanges } from "./folder_changes.ts";
export * from "./files.ts";
export * from "./host.ts";
export * from "./log.ts";
export { isInteractive, openScreen, writeToStderr, writeToStdout } from "./output.ts";
export { createQuestions, type Questions } from "./questions.ts";
export { type Backoff, createBackoff, retry } from "./retry.ts";
export * from "./supervised_worker.ts";
export { createTopic, type Topic } from "./topic.ts";
export { createTurns } from "./turns.ts";
export * from "./text.ts";
export { loadYaml } from "./yaml.ts";
export type { TreeEntry, TreeNode } from "./yaml_text.ts";

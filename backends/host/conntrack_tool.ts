import type { Family } from "../../core/model/mod.ts";
import { type Clock, joinHostPort, splitHostPort } from "../../platform/mod.ts";
import { failureOf, type Runner, runOrThrow, type ToolCall, type ToolFailure } from "../tools/mod.ts";

/** All flows or connections to a destination that one endpoint answers, whatever their clients. */
export interface Flows {
  /** `address:port`; `*:port` for any address. */
  readonly destination: string;
  /** The `address:port` that answers: the destination itself if the kernel does not translate the flows; `*:port` as above. */
  readonly answeredBy: string;
}

const FAMILY_ARGUMENT: Readonly<Record<Family, string>> = { IPv4: "ipv4", IPv6: "ipv6" };

/**
 * Lists the UDP flows, or the established TCP connections, of a family. Entries that conntrack leaves out cost half as much as those
 * that it prints. Throws if conntrack fails.
 * @param only the flows to list: those to one destination, with one answering endpoint, with a translated destination
 */
export async function listFlows(
  protocol: "tcp" | "udp",
  family: Family,
  runner: Runner,
  only: Partial<Flows> & { readonly isTranslated: boolean },
  onFlow: (flow: Flows) => void,
): Promise<void> {
  const options = [
    `-L -p ${protocol}${protocol === "tcp" ? " --state ESTABLISHED" : ""} -f`,
    FAMILY_ARGUMENT[family],
    ...filtersOf(only),
    ...(only.isTranslated ? ["--dst-nat"] : []),
  ];
  await runOrThrow(runner, {
    tool: "conntrack",
    args: options.join(" ").split(" "),
    onLine(line) {
      const flow = parseEntry(line);
      if (flow) onFlow(flow);
    },
  });
}

/** The options that select flows. */
function filtersOf({ destination, answeredBy }: Partial<Flows>): readonly string[] {
  return [
    ...(destination === undefined ? [] : [optionsFor(destination, "-d", "--dport")]),
    ...(answeredBy === undefined ? [] : [answersFrom(answeredBy)]),
  ];
}

/** The options that select the entries whose answers come from an `address:port`, or `*:port`. */
function answersFrom(endpoint: string): string {
  return optionsFor(endpoint, "-r", "--reply-port-src");
}

function optionsFor(endpoint: string, addressOption: string, portOption: string): string {
  const { address, port } = splitHostPort(endpoint);
  return `${address === "*" ? "" : `${addressOption} ${address} `}${portOption} ${port}`;
}

/** A line of `conntrack -L`: the original direction of the flow comes first, then the replies'. */
const ENTRY = / src=\S+ dst=(\S+) sport=\d+ dport=(\d+)\b.*? src=(\S+) dst=\S+ sport=(\d+)/;

function parseEntry(line: string): Flows | undefined {
  const entry = ENTRY.exec(line);
  if (!entry) return undefined;
  const [, address = "", port, answerSource = "", answerPort] = entry;
  return {
    destination: joinHostPort(address, Number(port)),
    answeredBy: joinHostPort(answerSource, Number(answerPort)),
  };
}

/**
 * Deletes flows or connections: conntrack reads the whole table for each item. Throws if conntrack fails, and the signal's reason
 * once that is aborted, which kills conntrack.
 * @returns the number of deleted entries
 */
export async function deleteFlows(
  protocol: "tcp" | "udp",
  family: Family,
  runner: Runner,
  flows: readonly Partial<Flows>[],
  signal?: AbortSignal,
): Promise<number> {
  const filters = flows.map((each) => [`-p ${protocol}`, ...filtersOf(each)].join(" "));
  return await deleteEntries(family, runner, filters, signal);
}

/** For more endpoints, all unanswered attempts are deleted at once: each filter makes conntrack read the whole table. */
const MOST_FILTERS = 3;

/**
 * Deletes connection attempts to these endpoints (`address:port`) that have not been answered. If there are many endpoints,
 * attempts to others that are not answered yet are deleted, too; their clients repeat them after a second. Throws if
 * conntrack fails.
 */
export async function deleteUnansweredAttempts(
  family: Family,
  runner: Runner,
  endpoints: readonly string[],
): Promise<void> {
  const all = "-p tcp --state SYN_SENT";
  const each = endpoints.map((endpoint) => `${all} ${answersFrom(endpoint)}`);
  await deleteEntries(family, runner, each.length > MOST_FILTERS ? [`${all} --dst-nat`] : each);
}

/**
 * Deletes the entries of a family that each filter selects. Throws if conntrack fails or the signal is aborted.
 * @returns the number of deleted entries
 */
async function deleteEntries(
  family: Family,
  runner: Runner,
  filters: readonly string[],
  signal?: AbortSignal,
): Promise<number> {
  if (filters.length === 0) return 0;
  let deleted = 0;
  const run = (args: readonly string[], stdin?: readonly string[]) =>
    runDeletion(runner, { tool: "conntrack", args, stdin, signal, onLine: () => void deleted++ });
  const deletions = filters.map((filter) => `-D -f ${FAMILY_ARGUMENT[family]} ${filter}`);
  let failure = await run(["--load-file", "-"], deletions.map((deletion) => `${deletion}\n`));
  // conntrack before 1.4.7 reads no file of commands.
  if (failure?.kind === "unsupported") {
    failure = undefined;
    for (const deletion of deletions) failure ??= await run(deletion.split(" "));
  }
  if (failure) throw new Error(failure.text);
  return deleted;
}

/** The most entries that may end while conntrack deletes them, in one deletion. */
const MOST_ENDED = 100;

/** Runs conntrack until no entry ends while it is being deleted, which makes conntrack leave out the rest. */
async function runDeletion(runner: Runner, call: ToolCall): Promise<ToolFailure | undefined> {
  for (let ended = 0;; ended++) {
    const failure = failureOf("conntrack", await runner.run(call));
    if (failure?.kind === "done already") return undefined;
    if (failure?.kind !== "absent" || ended === MOST_ENDED) return failure;
  }
}

/** The least time from the start of a pass to that of the next, in milliseconds. */
export const PASS_INTERVAL_MS = 1_000;

/** Limits passes over the conntrack table: one at a time, at most one a second. */
interface Passes {
  /**
   * Starts a pass, which must not reject, unless it is too early.
   * @returns the time after which to try again, in milliseconds; undefined if the pass was started
   */
  start(pass: () => Promise<void>): number | undefined;
  isRunning(): boolean;
}

/** The order in which each namespace has its first item before any has its second, and so on. */
export function inTurns<T>(items: readonly T[], namespaceOf: (item: T) => string): T[] {
  const seen = new Map<string, number>();
  return items.map((item) => {
    const namespace = namespaceOf(item), turn = seen.get(namespace) ?? 0;
    seen.set(namespace, turn + 1);
    return { item, turn };
  }).sort((a, b) => a.turn - b.turn).map(({ item }) => item);
}

/** Creates the limit of passes of one kind. */
export function createPasses(clock: Clock): Passes {
  let startedMs = -Infinity, isRunning = false;
  return {
    start(pass) {
      const waitMs = startedMs + PASS_INTERVAL_MS - clock.monotonic();
      if (waitMs > 0) return waitMs;
      if (isRunning) return PASS_INTERVAL_MS;
      startedMs = clock.monotonic();
      isRunning = true;
      void pass().finally(() => isRunning = false);
    },
    isRunning: () => isRunning,
  };
}

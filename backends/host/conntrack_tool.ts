import type { Family } from "../../core/model/mod.ts";
import { joinHostPort, splitHostPort } from "../../platform/mod.ts";
import { failureOf, type Runner, runOrThrow, type ToolFailure } from "../tools/mod.ts";

/** Where one UDP flow leads, as the kernel tracks it. */
export interface UdpFlow {
  readonly destination: string;
  readonly destinationPort: string;
  /** The `address:port` that answers: the destination itself if the kernel does not translate the flow. */
  readonly answeredBy: string;
}

const FAMILY_ARGUMENT: Readonly<Record<Family, string>> = { IPv4: "ipv4", IPv6: "ipv6" };

/** Lists the UDP flows of a family. Throws if conntrack fails. */
export async function listUdpFlows(family: Family, runner: Runner, onFlow: (flow: UdpFlow) => void): Promise<void> {
  await runOrThrow(runner, {
    tool: "conntrack",
    args: ["-L", "-p", "udp", "-f", FAMILY_ARGUMENT[family]],
    onLine(line) {
      const flow = parseEntry(line);
      if (flow) onFlow(flow);
    },
  });
}

/**
 * Lists the established TCP connections of a family, each by the `address:port` that answers. It reads the whole table: 100,000
 * entries take half a second of processor time. Throws if conntrack fails.
 */
export async function listOpenTcp(
  family: Family,
  runner: Runner,
  onConnection: (answeredBy: string) => void,
): Promise<void> {
  await runOrThrow(runner, {
    tool: "conntrack",
    args: ["-L", "-p", "tcp", "--state", "ESTABLISHED", "-f", FAMILY_ARGUMENT[family]],
    onLine(line) {
      const flow = parseEntry(line);
      if (flow) onConnection(flow.answeredBy);
    },
  });
}

/** A line of `conntrack -L`: the original direction of the flow comes first, then the replies'. */
const ENTRY = / src=\S+ dst=(\S+) sport=\d+ dport=(\d+)\b.*? src=(\S+) dst=\S+ sport=(\d+)/;

function parseEntry(line: string): UdpFlow | undefined {
  const entry = ENTRY.exec(line);
  if (!entry) return undefined;
  const [, destination = "", destinationPort = "", answerSource = "", answerPort] = entry;
  return { destination, destinationPort, answeredBy: joinHostPort(answerSource, Number(answerPort)) };
}

/**
 * Deletes the UDP flows between the destinations and the answering endpoints of these flows, whatever their clients: conntrack
 * reads the whole table for each pair. Throws if conntrack fails.
 */
export async function deleteUdpFlows(family: Family, runner: Runner, flows: readonly UdpFlow[]): Promise<void> {
  const pairs = flows.map(({ destination, destinationPort, answeredBy }) =>
    `-p udp -d ${destination} --dport ${destinationPort} ${answersFrom(answeredBy)}`
  );
  await deleteEntries(family, runner, [...new Set(pairs)]);
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

/** Deletes the TCP connections whose answers come from these endpoints (`address:port`). Throws if conntrack fails. */
export async function deleteConnections(family: Family, runner: Runner, endpoints: readonly string[]): Promise<void> {
  await deleteEntries(family, runner, endpoints.map((endpoint) => `-p tcp ${answersFrom(endpoint)}`));
}

/** The options that select the entries whose answers come from an `address:port`. */
function answersFrom(endpoint: string): string {
  const { address, port } = splitHostPort(endpoint);
  return `-r ${address} --reply-port-src ${port}`;
}

/** Deletes the entries of a family that each filter selects. Throws if conntrack fails. */
async function deleteEntries(family: Family, runner: Runner, filters: readonly string[]): Promise<void> {
  if (filters.length === 0) return;
  const deletions = filters.map((filter) => `-D -f ${FAMILY_ARGUMENT[family]} ${filter}`);
  const failure = await runDeletion(runner, ["--load-file", "-"], deletions.map((deletion) => `${deletion}\n`));
  if (failure) throw new Error(failure.text);
}

/** The most entries that may end while conntrack deletes them, in one deletion. */
const MOST_ENDED = 100;

/** Runs conntrack until no entry ends while it is being deleted, which makes conntrack leave out the rest. */
async function runDeletion(
  runner: Runner,
  args: readonly string[],
  stdin?: readonly string[],
): Promise<ToolFailure | undefined> {
  for (let ended = 0;; ended++) {
    const failure = failureOf("conntrack", await runner.run({ tool: "conntrack", args, stdin, onLine: () => {} }));
    if (failure?.kind === "done already") return undefined;
    if (failure?.kind !== "absent" || ended === MOST_ENDED) return failure;
  }
}

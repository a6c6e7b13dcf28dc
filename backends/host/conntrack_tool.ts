import type { Family } from "../../core/model/mod.ts";
import { joinHostPort, splitHostPort } from "../../platform/mod.ts";
import { failureOf, type FailureTable, type Runner, runOrThrow } from "../tools/mod.ts";

/** One UDP flow, from its client's side, as the kernel tracks it. */
export interface UdpFlow {
  readonly source: string;
  readonly sourcePort: string;
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
const ENTRY = / src=(\S+) dst=(\S+) sport=(\d+) dport=(\d+)\b.*? src=(\S+) dst=\S+ sport=(\d+)/;

function parseEntry(line: string): UdpFlow | undefined {
  const entry = ENTRY.exec(line);
  if (!entry) return undefined;
  const [, source = "", destination = "", sourcePort = "", destinationPort = "", answerSource = "", answerPort] = entry;
  const answeredBy = joinHostPort(answerSource, Number(answerPort));
  return { source, sourcePort, destination, destinationPort, answeredBy };
}

/** Messages of conntrack 1.4. */
const FAILURES: FailureTable = [["absent", /\b0 flow entries have been deleted/]];

/** Deletes flows in one call of conntrack. Throws if it fails. */
export async function deleteUdpFlows(family: Family, runner: Runner, flows: readonly UdpFlow[]): Promise<void> {
  if (flows.length === 0) return;
  const lines = flows.map((flow) =>
    `-D -f ${FAMILY_ARGUMENT[family]} -p udp -s ${flow.source} -d ${flow.destination} ` +
    `--sport ${flow.sourcePort} --dport ${flow.destinationPort}\n`
  );
  await runDeletions(runner, lines);
}

/** For more endpoints, all unanswered attempts are deleted at once: each line makes conntrack read the whole table. */
const MOST_LINES = 3;

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
  const all = `-D -f ${FAMILY_ARGUMENT[family]} -p tcp --state SYN_SENT`;
  const lines = endpoints.map((endpoint) => {
    const { address, port } = splitHostPort(endpoint);
    return `${all} -r ${address} --reply-port-src ${port}\n`;
  });
  await runDeletions(runner, lines.length > MOST_LINES ? [`${all} --dst-nat\n`] : lines);
}

/** Deletes the TCP connections whose answers come from these endpoints (`address:port`). Throws if conntrack fails. */
export async function deleteConnections(family: Family, runner: Runner, endpoints: readonly string[]): Promise<void> {
  const lines = endpoints.map((endpoint) => {
    const { address, port } = splitHostPort(endpoint);
    return `-D -f ${FAMILY_ARGUMENT[family]} -p tcp -r ${address} --reply-port-src ${port}\n`;
  });
  await runDeletions(runner, lines);
}

async function runDeletions(runner: Runner, lines: readonly string[]): Promise<void> {
  const result = await runner.run({ tool: "conntrack", args: ["--load-file", "-"], stdin: lines, onLine: () => {} });
  const failure = failureOf("conntrack", result, FAILURES);
  // An entry may have expired in the meantime.
  if (failure && failure.kind !== "absent") throw new Error(failure.text);
}

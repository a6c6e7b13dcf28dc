import type { Family, IpvsSettings, Protocol } from "../../core/model/mod.ts";
import { familyOf } from "../../platform/mod.ts";
import {
  classifyFailure,
  failureOf,
  type FailureTable,
  failureText,
  printedInput,
  type Runner,
  runOrThrow,
  type ToolFailure,
} from "../tools/mod.ts";
import {
  canonicalJoined,
  changedServers,
  createListingReader,
  type ListedServer,
  type Operation,
  operationLine,
  parseServerKey,
  type ServerKey,
} from "./virtual_servers.ts";

/** The kernel's virtual servers of one family. */
export interface VirtualServers {
  /**
   * Applies all operations in one call. ipvsadm continues after an operation that the kernel refuses: its message does
   * not name the line, and its exit status does not show the failure.
   * @returns the failure, if the kernel refused anything
   */
  apply(operations: readonly Operation[]): Promise<ToolFailure | undefined>;
  /** Lists all virtual servers with their real servers. Throws if the kernel has no IPVS. */
  list(): Promise<ReadonlyMap<ServerKey, ListedServer>>;
  /**
   * Counts the connections of each real server of these virtual servers, including inactive ones. Throws as `list`
   * does.
   */
  connections(of: ReadonlySet<ServerKey>): Promise<ReadonlyMap<ServerKey, ReadonlyMap<string, number>>>;
  /** Lists the counters of each real server of the family. Throws as `list` does. */
  counters(onReal: (counters: RealServerCounters) => void): Promise<void>;
  /** Sets the connection timeouts of the whole host. Throws if that fails. */
  setTimeouts(timeouts: IpvsSettings["timeoutSeconds"]): Promise<void>;
}

/** What a real server has counted for one virtual server; packets and bytes in both directions. */
export interface RealServerCounters {
  readonly protocol: Protocol;
  /** The address and port of the virtual server. */
  readonly address: string;
  readonly port: number;
  /** The real server, as `address:port`. */
  readonly real: string;
  readonly connections: number;
  readonly packets: number;
  readonly bytes: number;
}

/** Up to this many virtual servers are listed one by one for their connections; for more, all are listed at once. */
const ONE_BY_ONE = 8;

/** ipvsadm takes half a second for 10,000 virtual servers with three real servers each on an idle machine. */
const TIMEOUT_MS = 180_000;

/** Messages of ipvsadm 1.31. */
const FAILURES: FailureTable = [
  ["forbidden", /must be root/],
  ["absent", /No such service|Service not defined/],
  ["done already", /already exists/],
];

/** The virtual servers of this host. */
export function createVirtualServers(family: Family, runner: Runner): VirtualServers {
  async function listed(args: readonly string[], onLine: (line: string) => void): Promise<void> {
    const result = await runner.run({ tool: "ipvsadm", args, onLine, timeoutMs: TIMEOUT_MS });
    const failure = failureOf("ipvsadm", result, FAILURES);
    if (failure && failure.kind !== "absent") throw new Error(failure.text);
  }
  return {
    async apply(operations) {
      const result = await runner.run({
        tool: "ipvsadm",
        args: ["--restore"],
        stdin: printedInput(() => lines(operations)),
        changes: () => changedServers(operations),
        timeoutMs: TIMEOUT_MS,
      });
      const { exitCode, stderr } = result;
      if (exitCode !== 0 || stderr.trim() === "") return failureOf("ipvsadm", result, FAILURES);
      return { kind: classifyFailure(stderr, FAILURES), text: failureText("ipvsadm", result) };
    },
    async list() {
      const reader = createListingReader(family);
      await listed(["--save", "-n"], reader.onLine);
      return reader.servers;
    },
    async connections(of) {
      const found = new Map<ServerKey, Map<string, number>>();
      let reals: Map<string, number> | undefined;
      const onLine = (line: string) => {
        const words = line.trim().split(/\s+/);
        if (words[0] === "->") {
          const active = Number(words[4]), inactive = Number(words[5]);
          if (reals && words[1] && !Number.isNaN(active + inactive)) reals.set(words[1], active + inactive);
          return;
        }
        const key = LISTED_PROTOCOLS[words[0] ?? ""] + ` ${words[1]}`;
        reals = of.has(key) ? new Map() : undefined;
        if (reals) found.set(key, reals);
      };
      if (of.size > ONE_BY_ONE) await listed(["-Ln"], onLine);
      else for (const key of of) await listed(["-Ln", ...key.split(" ")], onLine);
      return found;
    },
    async counters(onReal) {
      let server: ReturnType<typeof parseServerKey>;
      await listed(["-Ln", "--stats", "--exact"], (line) => {
        const [name = "", at = "", ...numbers] = line.trim().split(/\s+/);
        if (name !== "->") {
          const option = LISTED_PROTOCOLS[name];
          const named = option === undefined ? undefined : parseServerKey(`${option} ${canonicalJoined(at)}`);
          server = named && familyOf(named.address) === family ? named : undefined;
          return;
        }
        if (server === undefined) return;
        const [connections = 0, inPackets = 0, outPackets = 0, inBytes = 0, outBytes = 0] = numbers.map(Number);
        const sums = { connections, packets: inPackets + outPackets, bytes: inBytes + outBytes };
        onReal({ ...server, real: canonicalJoined(at), ...sums });
      });
    },
    async setTimeouts({ tcp, tcpFin, udp }) {
      const args = ["--set", String(tcp), String(tcpFin), String(udp)];
      await runOrThrow(runner, { tool: "ipvsadm", args }, "ipvsadm --set");
    },
  };
}

const LISTED_PROTOCOLS: Readonly<Record<string, string>> = { TCP: "-t", UDP: "-u", SCTP: "--sctp-service" };

function* lines(operations: readonly Operation[]): Generator<string> {
  for (const operation of operations) yield operationLine(operation);
}

/** The address of a virtual server; undefined for one of a firewall mark. */
export function addressOf(key: ServerKey): string | undefined {
  return parseServerKey(key)?.address;
}

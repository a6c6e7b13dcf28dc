/** Other service proxies on this node: by the ports that kube-proxy and similar programs serve, and by their changes of rules. */
import { type Configuration, HEALTHZ_PORT, METRICS_PORT } from "../config/mod.ts";
import type { Family, SyncReport } from "../core/model/mod.ts";
import type { ReportProblems } from "../core/problems/mod.ts";
import { close } from "../platform/http/mod.ts";
import {
  type Clock,
  type ClockAndLogger,
  errorText,
  isLoopback,
  joinHostPort,
  readUpTo,
  splitHostPort,
} from "../platform/mod.ts";
import { KNOWN_PATHS } from "./metrics_server.ts";

/**
 * A service proxy that answers on this node: Sluice; kube-proxy or a program that contains it, such as k3s; or a
 * program that only answers health checks like kube-proxy, such as Cilium's agent.
 */
export interface Neighbour {
  readonly kind: "Sluice" | "kube-proxy" | "like kube-proxy";
  /** The address and path that answered: `127.0.0.1:10249/proxyMode`. */
  readonly answersOn: string;
  readonly port: number;
}

/** The name of the other proxy in messages. */
export function nameOf({ kind }: Neighbour): string {
  return kind === "like kube-proxy" ? "a proxy that answers as kube-proxy does" : kind;
}

/** Opens a TCP connection; rejects with the signal's reason. */
type ConnectTo = (
  options: { readonly hostname: string; readonly port: number; readonly signal: AbortSignal },
) => Promise<Deno.TcpConn>;

/** The timeout of each request, with its connection: a firewall may drop packets even to this node itself. */
const LONGEST_ANSWER_MS = 1000;
const LONGEST_ANSWER_BYTES = 16 * 1024;

/**
 * Probes the ports that this proxy is configured to serve and kube-proxy's default ports, on this node. Never rejects:
 * a port that does not answer like a service proxy is ignored.
 */
export async function findNeighbours(
  { metricsBindAddress, healthzBindAddress }: Pick<Configuration, "metricsBindAddress" | "healthzBindAddress">,
  clock: Clock,
  connect: ConnectTo = Deno.connect,
): Promise<readonly Neighbour[]> {
  const ask = (place: string, path: string) => get(place, path, clock, connect);
  const probe = async (place: string, path: string, judge: typeof judgeMode): Promise<Neighbour | undefined> => {
    const answer = await ask(place, path), kind = answer && judge(answer);
    if (kind === undefined) return undefined;
    // kube-proxy has no `/readyz`, and lists no paths.
    const other = await ask(place, "/readyz");
    const isSluice = other !== undefined && (judgeHealth(other) !== undefined || other.body.startsWith(KNOWN_PATHS));
    return { kind: isSluice ? "Sluice" : kind, answersOn: place + path, port: splitHostPort(place).port };
  };
  const found = await Promise.all([
    ...placesOf(metricsBindAddress, METRICS_PORT).map((place) => probe(place, "/proxyMode", judgeMode)),
    ...placesOf(healthzBindAddress, HEALTHZ_PORT).map((place) => probe(place, "/healthz", judgeHealth)),
  ]);
  return found.filter((neighbour) => neighbour !== undefined);
}

/** Whether the metrics and health check ports of this proxy are free; only ports that can be tested count. */
export function portsAreFree(
  { metricsBindAddress, healthzBindAddress }: Pick<Configuration, "metricsBindAddress" | "healthzBindAddress">,
): boolean {
  return [metricsBindAddress, healthzBindAddress].every((bindAddress) => {
    if (bindAddress === undefined) return true;
    const { address, port } = splitHostPort(bindAddress);
    try {
      Deno.listen({ hostname: address, port }).close();
      return true;
    } catch (error) {
      return !(error instanceof Deno.errors.AddrInUse);
    }
  });
}

/** The addresses at which this node reaches a server with this bind address, or with kube-proxy's default port. */
function placesOf(bindAddress: string | undefined, defaultPort: number): readonly string[] {
  const { address, port } = splitHostPort(bindAddress ?? joinHostPort("0.0.0.0", defaultPort));
  const ownAddress = address === "0.0.0.0" || address === "::" || isLoopback(address)
    ? []
    : [joinHostPort(address, port)];
  const local = [port, defaultPort].flatMap((one) => ["127.0.0.1", "::1"].map((host) => joinHostPort(host, one)));
  return [...new Set([...ownAddress, ...local])];
}

interface Answer {
  readonly head: string;
  readonly body: string;
}

function judgeMode({ head, body }: Answer): Neighbour["kind"] | undefined {
  const isMode = /^(iptables|ipvs|nftables|userspace)$/.test(body.trim());
  return isMode && /^HTTP\/1\.1 200 /.test(head) ? "kube-proxy" : undefined;
}

/** The fields of kube-proxy's health answer (pkg/proxy/healthcheck), which is 200 or 503. */
function judgeHealth({ body }: Answer): Neighbour["kind"] | undefined {
  return /^\s*\{/.test(body) && /"lastUpdated"\s*:/.test(body) && /"currentTime"\s*:/.test(body)
    ? "like kube-proxy"
    : undefined;
}

/** The response of a server to `path`; undefined if there is no server, or no response in time. */
async function get(place: string, path: string, clock: Clock, connect: ConnectTo): Promise<Answer | undefined> {
  const { address, port } = splitHostPort(place);
  const late = new AbortController();
  const cancel = clock.schedule(LONGEST_ANSWER_MS, () => late.abort());
  let connection: Deno.TcpConn | undefined;
  try {
    const opened = connection = await connect({ hostname: address, port, signal: late.signal });
    late.signal.addEventListener("abort", () => close(opened), { once: true });
    const text = `GET ${path} HTTP/1.1\r\nHost: ${place}\r\nConnection: close\r\n\r\n`;
    await connection.write(new TextEncoder().encode(text));
    const answer = new TextDecoder("latin1").decode(await readUpTo(connection, LONGEST_ANSWER_BYTES));
    const [, head, body] = /^(.*?)\r\n\r\n(.*)$/s.exec(answer) ?? [];
    return head === undefined || body === undefined ? undefined : { head, body };
  } catch {
    return undefined;
  } finally {
    cancel();
    if (connection) close(connection);
  }
}

/** Detects a program that keeps changing the rules, and names it if it answers on a proxy's port. */
export interface DriftWatch {
  report(report: SyncReport): void;
}

/**
 * Two repairs this far apart are a problem: one program may change the rules in several steps, and a single change may be an
 * administrator's.
 */
const APART_MS = 3_000;
const WINDOW_MS = 60_000;
/** A problem ends with a comparison that finds no change this long after the last repair: what is repaired is in order. */
const QUIET_MS = 10_000;

/** The repairs of a family; times by the monotonic clock. */
interface Repairs {
  firstMs: number;
  lastMs: number;
  isReported: boolean;
}

/** Creates a drift watch that reports the problem of a family, its scope, while it lasts. */
export function createDriftWatch({ findNeighbours, onProblems, clock, logger }: ClockAndLogger & {
  readonly findNeighbours: () => Promise<readonly Neighbour[]>;
  readonly onProblems: ReportProblems;
}): DriftWatch {
  const repaired = new Map<Family, Repairs>();

  const reportDrift = async (family: Family, repairs: Repairs) => {
    const other = (await findNeighbours()).find(({ kind }) => kind !== "Sluice");
    if (repaired.get(family) !== repairs) return;
    const detail = other === undefined
      ? "no other proxy answers on this node's ports"
      : `${nameOf(other)} answers on ${other.answersOn}`;
    onProblems(`drift ${family}`, [{ code: "rules-changed-by-others", subject: family, detail }]);
  };

  return {
    report({ family, full, ok, counts }) {
      const nowMs = clock.monotonic(), known = repaired.get(family);
      if ((counts.drift_repaired ?? 0) === 0) {
        if (!full || !ok || !known?.isReported || nowMs - known.lastMs < QUIET_MS) return;
        repaired.delete(family);
        onProblems(`drift ${family}`, []);
        return;
      }
      const isOld = known === undefined || !known.isReported && nowMs - known.firstMs > WINDOW_MS;
      const repairs = isOld ? { firstMs: nowMs, lastMs: nowMs, isReported: false } : known;
      repairs.lastMs = nowMs;
      repaired.set(family, repairs);
      if (repairs.isReported || nowMs - repairs.firstMs < APART_MS) return;
      repairs.isReported = true;
      reportDrift(family, repairs).catch((error) => {
        logger.debug("neighbours not found", { error: errorText(error) });
      });
    },
  };
}

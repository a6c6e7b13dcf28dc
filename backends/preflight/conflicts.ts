import type { ProxyMode } from "../../core/model/mod.ts";
import { type Finding, type ProblemCode, problemFinding } from "../../core/problems/mod.ts";
import type { Traces } from "../mod.ts";
import { ifInstalled, type Runner } from "../tools/mod.ts";

/** A process that listens on TCP. */
interface Listener {
  readonly port: number;
  /** The name of the process, at most 15 characters; empty if it is not visible. */
  readonly process: string;
  /** 0 if it is not visible. */
  readonly pid: number;
}

/** A line of `ss -Htlnp`: state, queues, local and peer address, `users:(("NAME",pid=N,fd=N),…)`. */
function readListeners(line: string): readonly Listener[] {
  const [, port] = /^\S+\s+\d+\s+\d+\s+\S*:(\d+)\s/.exec(line) ?? [];
  if (port === undefined) return [];
  const users = [...line.matchAll(/\("((?:[^"\\]|\\.)*)",pid=(\d+)/g)];
  if (users.length === 0) return [{ port: Number(port), process: "", pid: 0 }];
  return users.map(([, process, pid]) => ({ port: Number(port), process: process!, pid: Number(pid) }));
}

/**
 * The TCP ports at which only root and this user listen; at others, any program may answer. Empty without ss, or if it fails.
 */
export async function trustedPorts(runner: Runner, uid: number | null): Promise<ReadonlySet<number>> {
  const listed = await ifInstalled(runner.run({ tool: "ss", args: ["-Htlne"] }));
  const trusted = new Set<number>(), others = new Set<number>();
  for (const line of listed?.stdout.split("\n") ?? []) {
    // ss leaves out the user if it is root.
    const owner = Number(/ uid:(\d+) /.exec(line)?.[1] ?? 0);
    for (const { port } of readListeners(line)) (owner === 0 || owner === uid ? trusted : others).add(port);
  }
  return trusted.difference(others);
}

/** Checks the listening processes for a proxy that will serve health and metrics on these ports. */
export async function checkListeners(
  runner: Runner,
  ports: readonly number[],
  sluiceRuns: boolean,
): Promise<readonly Finding[]> {
  const name = "other proxies";
  const listed = await ifInstalled(runner.run({ tool: "ss", args: ["-Htlnp"] }));
  if (listed === undefined) {
    return [
      problemFinding(name, "optional-tool-missing", "cannot be detected without ss", "run apt-get install iproute2"),
    ];
  }
  const findings: Finding[] = [];
  const reported = new Set<number>();
  for (const { process, pid, port } of listed.stdout.split("\n").flatMap(readListeners)) {
    const known = KNOWN[process] ?? (ports.includes(port) && /^k3s(-|$)/.test(process) ? K3S : undefined);
    if (known && !reported.has(pid)) {
      findings.push(problemFinding(process, known.code, `running (pid ${pid}): ${known.message}`, known.fix));
    }
    if (known) reported.add(pid);
    const isOwn = process === "sluice" || process === "" && sluiceRuns;
    if (known || isOwn || !ports.includes(port) || findings.some(({ name }) => name === `port ${port}`)) continue;
    const holder = process === "" ? "a process visible to root only" : `${process} (pid ${pid})`;
    findings.push(problemFinding(`port ${port}`, "port-taken", `in use by ${holder}`));
  }
  if (findings.length > 0) return findings;
  return [{ name, verdict: "green", message: sluiceRuns ? "none except the running Sluice" : "none listening" }];
}

/** The finding for a known proxy. */
interface OtherProxy {
  readonly code: ProblemCode;
  readonly message: string;
  readonly fix: string;
}

const OVERWRITES = { code: "other-proxy", message: "two proxies overwrite each other's rules" } as const;

const KNOWN: Readonly<Record<string, OtherProxy>> = {
  "kube-proxy": {
    ...OVERWRITES,
    fix: "stop it (docs/migrate.md has the steps for DaemonSets and services), then start Sluice",
  },
  "kpng": { ...OVERWRITES, fix: "stop it, or let Sluice watch it: --source grpc://… or unix://…" },
  "cilium-agent": {
    code: "possible-other-proxy",
    message: "if it replaces kube-proxy, services are served twice",
    fix: "use only one of the two: set its kubeProxyReplacement to false, or do not run Sluice on this node",
  },
  "kube-router": {
    code: "possible-other-proxy",
    message: "if its service proxy is enabled, services are served twice",
    fix: "use only one of the two: start it with --run-service-proxy=false, or do not run Sluice on this node",
  },
};

const K3S: OtherProxy = {
  code: "other-proxy",
  message: "it contains kube-proxy and serves its ports",
  fix: "start the k3s server with --disable-kube-proxy (docs/migrate.md)",
};

/** Checks the traces for a proxy in this mode; `running` is the mode of a Sluice that already runs here. */
export function judgeTraces(traces: Traces, mode: ProxyMode, running: ProxyMode | undefined): readonly Finding[] {
  const findings: Finding[] = [...traces.byMode].flatMap(([{ name: of, traces: { text } }, names]): Finding[] => {
    const name = "rules";
    if (names.length === 0 || of === running) return [];
    const found = text(names);
    if (of === mode) return [{ name, verdict: "green", message: `found ${found}; Sluice takes them over` }];
    const message = `found ${found}; Sluice removes them once its own rules are in effect`;
    return [problemFinding(name, "other-rules", message, "no action, or run sluice --cleanup to remove them now")];
  });
  if (traces.unreadable !== undefined) {
    findings.push(
      problemFinding("rules", "other-rules", `cannot be read: ${traces.unreadable}`, "run sudo sluice check"),
    );
  }
  if (traces.legacyBeside) {
    findings.push(problemFinding(
      "iptables",
      "other-rules",
      "both iptables-legacy and nf_tables have rules, and packets pass through both",
      "find their owner with iptables-legacy-save, and use only one variant (update-alternatives --config iptables)",
    ));
  }
  return findings.length > 0 ? findings : [{ name: "rules", verdict: "green", message: "none left by another proxy" }];
}

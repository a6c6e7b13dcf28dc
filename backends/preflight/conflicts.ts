/** Other programs on this node that serve services, too, or that stand in the way. */
import type { ProxyMode } from "../../core/model/mod.ts";
import { type Finding, type ProblemCode, problemFinding } from "../../core/problems/mod.ts";
import { errorText, FAMILIES } from "../../platform/mod.ts";
import type { ModeDescription } from "../contract/mod.ts";
import { type ForeignChain, foreignChains, type Hook } from "../foreign/mod.ts";
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

/** The TCP ports at which only root and this user listen, so that no other program answers. Empty if ss fails or is missing. */
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

/** The hooks that a connection to a pod on another interface passes, whoever opens it. */
const HOOKS: readonly (Hook | undefined)[] = ["prerouting", "forward", "postrouting"];

/** Finds chains of other programs that drop new connections to services, with the rule that lets them pass. */
export async function findFirewalls(
  { relay, traffic }: Pick<ModeDescription, "relay" | "traffic">,
  runner: Runner,
): Promise<readonly Finding[]> {
  if (relay === "services" || traffic.by !== "rules") return [];
  const unread = new Set<string>();
  const onUnread = (what: string) => void unread.add(what);
  const read = FAMILIES.map((family) =>
    foreignChains(runner, family, onUnread).catch((error) => {
      onUnread(errorText(error));
      return [];
    })
  );
  const chains = (await Promise.all(read)).flat();
  // A rule for both families is read twice.
  const found = new Map(chains.filter((chain) => isInTheWay(chain, chains)).map((chain) => [ruleFor(chain), chain]));
  const inTheWay = Array.from(found, ([rule, { table, name, hook }]) =>
    problemFinding(
      "firewall",
      "connections-dropped-by-others",
      `chain ${name} of ${table} (hook ${hook}) drops new connections to services, unless its own rules accept them`,
      `run ${rule}, and add it to the configuration of the program that has made the chain`,
    ));
  if (unread.size === 0) return inTheWay;
  return [...inTheWay, problemFinding("firewall", "firewalls-unread", [...unread].join("; "))];
}

/** Whether a chain drops what no rule accepts, and neither it nor a chain to which it may lead accepts connections to services. */
function isInTheWay(chain: ForeignChain, all: readonly ForeignChain[]): boolean {
  if (!HOOKS.includes(chain.hook) || !chain.dropsByPolicy && !chain.dropsByRule) return false;
  const accepts = ({ table, hook, acceptsTranslated }: ForeignChain) =>
    acceptsTranslated && table === chain.table && (hook === undefined || hook === chain.hook);
  return !all.some(accepts);
}

/** The command that adds a rule at the head of a chain, which accepts connections with a translated destination. */
function ruleFor({ table, name }: ForeignChain): string {
  const [, program, of] = /^(ip6?tables) table (\S+)$/.exec(table) ?? [];
  const [, family, ofNft] = /^table (ip6?) (\S+)$/.exec(table) ?? [];
  // iptables-nft has the same tables and chains as iptables-legacy.
  const tool = program ?? (/^[A-Z]+$/.test(name) && family && (family === "ip" ? "iptables" : "ip6tables"));
  if (!tool) return `nft insert rule ${table.slice("table ".length)} ${name} ct status dnat accept`;
  return `${tool} -t ${of ?? ofNft} -I ${name} -m conntrack --ctstate DNAT -j ACCEPT`;
}

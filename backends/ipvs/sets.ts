import type { Family, Protocol } from "../../core/model/mod.ts";
import { failureOf, type PlaceChange, printedInput, type Runner, runOrThrow, type ToolFailure } from "../tools/mod.ts";

/** The purpose of a set. */
export type SetKind = keyof typeof SETS;

/** A set's name and type. */
interface SetDeclaration {
  readonly name: string;
  readonly type: "hash:ip" | "hash:ip,port" | "hash:ip,port,ip" | "hash:ip,port,net" | "bitmap:port";
  /** The comment of the rules that use the set. */
  readonly comment: string;
}

const declare = (name: string, type: SetDeclaration["type"], comment: string): SetDeclaration => (
  { name, type, comment: `Kubernetes ${comment}` }
);

/** The sets of IPVS mode with kube-proxy's names, types and comments, so that each program can take over from the other. */
export const SETS = {
  loopBack: declare(
    "KUBE-LOOP-BACK",
    "hash:ip,port,ip",
    "endpoints dst ip:port, source ip for solving hairpin purpose",
  ),
  clusterIP: declare("KUBE-CLUSTER-IP", "hash:ip,port", "service cluster ip + port for masquerade purpose"),
  externalIP: declare(
    "KUBE-EXTERNAL-IP",
    "hash:ip,port",
    "service external ip + port for masquerade and filter purpose",
  ),
  externalIPLocal: declare(
    "KUBE-EXTERNAL-IP-LOCAL",
    "hash:ip,port",
    "service external ip + port with externalTrafficPolicy=local",
  ),
  loadBalancer: declare("KUBE-LOAD-BALANCER", "hash:ip,port", "service lb portal"),
  loadBalancerLocal: declare(
    "KUBE-LOAD-BALANCER-LOCAL",
    "hash:ip,port",
    "service load balancer ip + port with externalTrafficPolicy=local",
  ),
  loadBalancerFirewall: declare(
    "KUBE-LOAD-BALANCER-FW",
    "hash:ip,port",
    "service load balancer ip + port for load balancer with sourceRange",
  ),
  loadBalancerSourceIP: declare(
    "KUBE-LOAD-BALANCER-SOURCE-IP",
    "hash:ip,port,ip",
    "service load balancer ip + port + source IP for packet filter purpose",
  ),
  loadBalancerSourceRange: declare(
    "KUBE-LOAD-BALANCER-SOURCE-CIDR",
    "hash:ip,port,net",
    "service load balancer ip + port + source cidr for packet filter purpose",
  ),
  nodePortTCP: declare("KUBE-NODE-PORT-TCP", "bitmap:port", "nodeport TCP port for masquerade purpose"),
  nodePortLocalTCP: declare(
    "KUBE-NODE-PORT-LOCAL-TCP",
    "bitmap:port",
    "nodeport TCP port with externalTrafficPolicy=local",
  ),
  nodePortUDP: declare("KUBE-NODE-PORT-UDP", "bitmap:port", "nodeport UDP port for masquerade purpose"),
  nodePortLocalUDP: declare(
    "KUBE-NODE-PORT-LOCAL-UDP",
    "bitmap:port",
    "nodeport UDP port with externalTrafficPolicy=local",
  ),
  nodePortSCTP: declare(
    "KUBE-NODE-PORT-SCTP-HASH",
    "hash:ip,port",
    "nodeport SCTP port for masquerade purpose with type hash ip:port",
  ),
  nodePortLocalSCTP: declare(
    "KUBE-NODE-PORT-LOCAL-SCTP-HASH",
    "hash:ip,port",
    "nodeport SCTP port with externalTrafficPolicy=local with type hash ip:port",
  ),
  healthCheckNodePort: declare("KUBE-HEALTH-CHECK-NODE-PORT", "bitmap:port", "health check node port"),
  boundAddresses: declare("KUBE-IPVS-IPS", "hash:ip", "service addresses of this node"),
};

/** All kinds of sets. */
export const SET_KINDS = Object.keys(SETS) as SetKind[];

/** The sets of node ports by protocol: one for all traffic policies, one for policy Local only. */
export const NODE_PORT_SETS: Readonly<Record<Protocol, { readonly all: SetKind; readonly local: SetKind }>> = {
  tcp: { all: "nodePortTCP", local: "nodePortLocalTCP" },
  udp: { all: "nodePortUDP", local: "nodePortLocalUDP" },
  sctp: { all: "nodePortSCTP", local: "nodePortLocalSCTP" },
};

const LONGEST_NAME = 31;

/** The name of a set in a family, cut to the kernel's limit as in kube-proxy. */
export function setName(kind: SetKind, family: Family): string {
  const { name } = SETS[kind];
  return family === "IPv4" ? name : name.replace("KUBE-", "KUBE-6-").slice(0, LONGEST_NAME);
}

/** The type and sizes with which ipset creates a set; the sizes are kube-proxy's. */
export function setOptions(kind: SetKind, family: Family): string {
  const { type } = SETS[kind];
  const sizes = type === "bitmap:port"
    ? "range 0-65535"
    : `family ${family === "IPv4" ? "inet" : "inet6"} hashsize 1024 maxelem 65536`;
  return `${type} ${sizes}`;
}

/** An element of a set, with the set's name, as ipset prints it: `KUBE-CLUSTER-IP 10.96.0.10,tcp:80`. */
export type Entry = string;

/** The entry of an element in a set. */
export function entryOf(kind: SetKind, family: Family, element: string): Entry {
  return `${setName(kind, family)} ${element}`;
}

/** The sets of a family in the kernel. */
export interface ListedSets {
  /** The names of the sets that exist. */
  readonly names: ReadonlySet<string>;
  readonly entries: ReadonlyMap<Entry, true>;
}

/** A change of one element. */
export interface SetChange {
  readonly does: "add" | "del";
  readonly entry: Entry;
}

/** A failure of ipset, with the entry that it names. Changes before that entry may be in effect; those after it are not. */
interface SetFailure extends ToolFailure {
  readonly entry: Entry | undefined;
}

/** The sets of IPVS mode in one family. */
export interface Sets {
  list(): Promise<ListedSets>;
  /** Creates missing sets and applies changes in one call; a change that is already in effect is not a failure. */
  apply(missing: ReadonlySet<string>, changes: readonly SetChange[]): Promise<SetFailure | undefined>;
  /** Removes all sets. Throws if one is still in use. */
  destroy(): Promise<void>;
}

/** The sets of this host. */
export function createSets(family: Family, runner: Runner): Sets {
  const own = new Set(SET_KINDS.map((kind) => setName(kind, family)));
  return {
    async list() {
      const names = new Set<string>(), entries = new Map<Entry, true>();
      const onLine = (line: string) => {
        const [does, name] = line.split(" ", 2);
        if (!name || !own.has(name)) return;
        if (does === "create") names.add(name);
        else if (does === "add") entries.set(line.slice("add ".length), true);
      };
      await runOrThrow(runner, { tool: "ipset", args: ["save"], onLine }, "ipset save");
      return { names, entries };
    },
    async apply(missing, changes) {
      const created = SET_KINDS.map((kind) => ({ name: setName(kind, family), options: setOptions(kind, family) }))
        .filter(({ name }) => missing.has(name));
      const result = await runner.run({
        tool: "ipset",
        args: ["restore", "-exist"],
        stdin: printedInput(function* () {
          for (const { name, options } of created) yield `create ${name} ${options}\n`;
          for (const { does, entry } of changes) yield `${does} ${entry}\n`;
        }),
        *changes() {
          for (const { name, options } of created) yield changeOf(name, "add", `a ${options}`);
          for (const { does, entry } of changes) {
            const [name, element] = entry.split(" ") as [string, string];
            yield changeOf(name, does, element);
          }
        },
      });
      const failure = failureOf("ipset restore", result);
      if (!failure) return undefined;
      const line = /Error in line (\d+)/.exec(result.stderr)?.[1];
      return { ...failure, entry: line === undefined ? undefined : changes[Number(line) - 1 - created.length]?.entry };
    },
    async destroy() {
      const names: string[] = [];
      const onLine = (name: string) => own.has(name) && names.push(name);
      await runOrThrow(runner, { tool: "ipset", args: ["list", "-n"], onLine }, "ipset list");
      if (names.length === 0) return;
      const stdin = names.map((name) => `destroy ${name}\n`);
      await runOrThrow(runner, { tool: "ipset", args: ["restore", "-exist"], stdin }, "ipset restore");
    },
  };
}

function changeOf(set: string, does: SetChange["does"], text: string): PlaceChange {
  const [removed, added] = does === "del" ? [[text], []] : [[], [text]];
  return { kind: "members", place: `ipset ${set}`, removed, added };
}

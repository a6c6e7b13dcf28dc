/**
 * Other proxies in the kernel: the frontends that they serve, so that Sluice's own tables may go, and the clients that kube-proxy
 * remembers, which keep their endpoints.
 */
import { type Family, INTERNAL_PORT, type ServicePort } from "../../core/model/mod.ts";
import { FAMILIES, plural, splitHostPort } from "../../platform/mod.ts";
import { shortHash } from "../reconcile/mod.ts";
import { ifInstalled, type Runner } from "../tools/mod.ts";
import { CONNECTIONS_TABLE, DIALECTS, KUBE_PROXY_TABLE, RESETS_TABLE, TABLE } from "./table.ts";
import { createNftTools, LIST_TIMEOUT_MS, type NftTools } from "./tools.ts";
import { clientElement, type NumberedPort, numberingOf } from "./affinity_names.ts";
import { elementReader } from "./listing.ts";
import type { Item } from "./transaction.ts";

/** The end of the canary's frontend, which no other proxy serves. */
const CANARY = ` . tcp . ${INTERNAL_PORT}`;
/** kube-proxy's maps of frontends and node ports, with and without endpoints (pkg/proxy/nftables). */
const KUBE_PROXY_MAPS = ["service-ips", "no-endpoint-services", "service-nodeports", "no-endpoint-nodeports"];

/**
 * Deletes Sluice's tables of nftables mode and nothing else, once other proxies serve every frontend in them. Rules of the other
 * modes have kube-proxy's names: the next proxy takes them over.
 * @returns the deleted tables: `nftables table ip sluice`
 * @throws if a frontend is served by no other proxy, or a tool fails
 */
export async function removeOwnTables(runner: Runner): Promise<readonly string[]> {
  const families: Family[] = [];
  for (const family of FAMILIES) {
    const table = `${DIALECTS[family].ip} ${TABLE}`;
    const own = await frontendsOf(runner, family, TABLE, "services");
    if (own === undefined) continue;
    const others = await frontendsOfOthers(runner, family);
    const missing = [...own].filter((frontend) => !frontend.endsWith(CANARY) && !others.has(frontend)).sort();
    if (missing.length > 0) {
      throw new Error(
        `nftables table ${table} is not deleted: no other proxy serves ${missing.length} of its ` +
          `${plural(own.size, "frontend")}, such as ${missing[0]} (wait until the other proxy has synced; if their ` +
          `Services have been deleted since, run \`nft delete table ${table}\`)`,
      );
    }
    families.push(family);
  }
  const deleted: string[] = [];
  for (const family of FAMILIES) {
    const { ip } = DIALECTS[family], { removeTable } = createNftTools(family, runner);
    // The other modes have this table, too.
    if (await ifInstalled(removeTable(RESETS_TABLE))) deleted.push(`nftables table ${ip} ${RESETS_TABLE}`);
    if (!families.includes(family)) continue;
    for (const table of [TABLE, CONNECTIONS_TABLE]) await removeTable(table);
    deleted.push(`nftables table ${ip} ${TABLE}`);
  }
  return deleted;
}

/** The frontends of every other proxy in the kernel. */
async function frontendsOfOthers(runner: Runner, family: Family): Promise<ReadonlySet<string>> {
  const found = await Promise.all([
    ...KUBE_PROXY_MAPS.map((map) => frontendsOf(runner, family, KUBE_PROXY_TABLE, map)),
    printed(runner, family === "IPv4" ? "iptables-save" : "ip6tables-save", []).then((rules) =>
      ofIptables(rules, family)
    ),
    printed(runner, "ipvsadm", ["-S", "-n"]).then(ofIpvs),
    printed(runner, "ipset", ["save"]).then((sets) => ofSets(sets, family)),
  ]);
  return new Set(found.flatMap((frontends) => [...frontends ?? []]));
}

/** The frontends in a map, as `10.96.0.1 . tcp . 443`, node ports as `0.0.0.0 . tcp . 30080`; undefined without the map. */
async function frontendsOf(
  runner: Runner,
  family: Family,
  table: string,
  map: string,
): Promise<ReadonlySet<string> | undefined> {
  const { list, dialect } = createNftTools(family, runner), found = new Set<string>();
  const onLine = (line: string) => {
    for (const [, address, protocol, port] of line.matchAll(/(?:([0-9a-f.:]+) \. )?(tcp|udp|sctp) \. (\d+)/g)) {
      found.add(frontendOf(family, address, protocol!, port!));
    }
  };
  return await list(`map ${dialect.ip} ${table} ${map}`, onLine) ? found : undefined;
}

/** A frontend as `services` has it, where the unspecified address stands for the node's. */
function frontendOf(family: Family, address: string | undefined, protocol: string, port: string): string {
  return `${address ?? DIALECTS[family].anyAddress} . ${protocol} . ${port}`;
}

/** The frontends in the output of iptables-save: those with endpoints in nat, those without in filter. */
function ofIptables(rules: string, family: Family): readonly string[] {
  return [...rules.matchAll(/^-A KUBE-(?:SERVICES|EXTERNAL-SERVICES|NODEPORTS) (.* --dport (\d+) .*)$/gm)]
    .flatMap(([, rule, port]) => {
      const address = /-d ([^ /]+)\//.exec(rule!)?.[1], protocol = /-p (tcp|udp|sctp) /.exec(rule!)?.[1];
      return protocol === undefined ? [] : [frontendOf(family, address, protocol, port!)];
    });
}

const IPVS_PROTOCOLS: Readonly<Record<string, string>> = { t: "tcp", u: "udp" };

function ofIpvs(services: string): readonly string[] {
  return [...services.matchAll(/^-A (?:-([tu])|--(sctp)-service) \[?([0-9a-f.:]+?)\]?:(\d+) /gm)]
    .map(([, letter, sctp, address, port]) => `${address} . ${sctp ?? IPVS_PROTOCOLS[letter!]} . ${port}`);
}

/** The node ports of ipvs mode, by the sets that kube-proxy has for them (pkg/proxy/ipvs/ipset.go). */
function ofSets(sets: string, family: Family): readonly string[] {
  const prefix = family === "IPv4" ? "KUBE" : "KUBE-6";
  const entries = new RegExp(`^add ${prefix}-NODE-PORT-(TCP|UDP|SCTP-HASH) (?:\\S+:)?(\\d+)$`, "gm");
  return [...sets.matchAll(entries)]
    .map(([, set, port]) => frontendOf(family, undefined, set!.split("-")[0]!.toLowerCase(), port!));
}

/** The output of a tool; empty if it is missing or fails, since then no other proxy uses it. */
async function printed(runner: Runner, tool: string, args: readonly string[]): Promise<string> {
  return (await ifInstalled(runner.run({ tool, args })))?.stdout ?? "";
}

/**
 * The elements of the clients that kube-proxy's nftables mode remembers for service ports with session affinity. Throws if its table
 * cannot be read.
 */
export type EarlierClients = (ports: readonly NumberedPort[]) => Promise<readonly Item[]>;

/** Reads the sets of kube-proxy when they are first needed. */
export function createEarlierClients({ list, dialect }: NftTools): EarlierClients {
  // A takeover deletes the table, and it never returns while Sluice runs.
  let isKubeProxyHere = true;

  return async (ports) => {
    /** The element of a client, by the name of the set that has it. */
    const sources = new Map<string, (client: string) => string>();
    for (const port of isKubeProxyHere ? ports : []) {
      const { numbers } = port.numbering ?? numberingOf(port);
      for (const [endpoint, number] of numbers) {
        sources.set(kubeProxyName(port, endpoint), (client) => clientElement(port, number, client));
      }
    }
    const found: Item[] = [];
    if (sources.size === 0) return found;
    const onElement = (set: string, element: string) => {
      const [, client, left] = /^(\S+) .*\bexpires (\w+)/.exec(element) ?? [], elementOf = sources.get(set);
      if (elementOf === undefined || client === undefined) return;
      found.push({ list: "clients", key: `${elementOf(client)} timeout ${left}`, text: "" });
    };
    const sets = `sets table ${dialect.ip} ${KUBE_PROXY_TABLE}`;
    isKubeProxyHere = await list(sets, elementReader(onElement), { timeoutMs: LIST_TIMEOUT_MS });
    return found;
  };
}

/** The longest name of a set, without its prefix, in kube-proxy. */
const LONGEST_NAME = 240;

/** The name of the set in kube-proxy (`servicePortEndpointChainNameBase` in pkg/proxy/nftables/proxier.go, 1.37). */
function kubeProxyName({ name, protocol }: ServicePort, endpoint: string): string {
  const [namespace, rest] = name.split("/", 2), [service, portName = ""] = rest!.split(":", 2);
  const { address, port } = splitHostPort(endpoint);
  const base = `${namespace}/${service}/${protocol}/${portName}__${address.replaceAll(":", ".")}/${port}`;
  const full = `${shortHash(base).slice(0, 8)}-${base}`;
  return `affinity-${full.length > LONGEST_NAME ? `${full.slice(0, LONGEST_NAME - 3)}...` : full}`;
}

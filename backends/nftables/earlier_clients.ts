import type { ServicePort } from "../../core/model/mod.ts";
import { splitHostPort } from "../../platform/mod.ts";
import { shortHash } from "../reconcile/mod.ts";
import { clientElement, numberingOf } from "./affinity_names.ts";
import type { Change } from "./build.ts";
import type { RealizedState } from "./realized.ts";
import { KUBE_PROXY_TABLE } from "./table.ts";
import { elementReader } from "./listing.ts";
import { LIST_TIMEOUT_MS, type NftTools } from "./tools.ts";
import type { Item, Transaction } from "./transaction.ts";

/**
 * The clients that kube-proxy's nftables mode remembers for changed service ports; undefined if there are none. Throws if its
 * table cannot be read.
 */
export type EarlierClients = (changes: readonly Change[], realized: RealizedState) => Promise<Transaction | undefined>;

/** Reads the sets of kube-proxy when they are first needed. */
export function createEarlierClients(tools: NftTools): EarlierClients {
  // A takeover deletes the table, and it never returns while Sluice runs.
  let isKubeProxyHere = true;

  return async (changes, { applied }) => {
    if (!isKubeProxyHere) return undefined;
    /** The element of a client, by the name of the set that has it. */
    const sources = new Map<string, (client: string) => string>();
    for (const { key, next } of changes) {
      const hadClients = (applied.get(key)?.port.affinitySeconds ?? 0) > 0;
      if (next === undefined || next.port.affinitySeconds === 0 || hadClients) continue;
      const { port } = next, { numbers } = port.numbering ?? numberingOf(port);
      for (const [endpoint, number] of numbers) {
        sources.set(kubeProxyName(port, endpoint), (client) => clientElement(port, number, client));
      }
    }
    if (sources.size === 0) return undefined;
    const found: Item[] = [];
    isKubeProxyHere = await tools.list(
      `sets table ${tools.dialect.ip} ${KUBE_PROXY_TABLE}`,
      elementReader((set, element) => {
        const [, client, left] = /^(\S+) .*\bexpires (\w+)/.exec(element) ?? [], elementOf = sources.get(set);
        if (elementOf === undefined || client === undefined) return;
        found.push({ list: "clients", key: `${elementOf(client)} timeout ${left}`, text: "" });
      }),
      { timeoutMs: LIST_TIMEOUT_MS },
    );
    if (found.length === 0) return undefined;
    return { table: "keep", deleted: new Map(), added: new Map([["clients", found]]) };
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

import type { ServicePort } from "../../core/model/mod.ts";
import { splitHostPort } from "../../platform/mod.ts";
import { shortHash } from "../reconcile/mod.ts";
import { clientSets } from "./affinity.ts";
import type { Change } from "./build.ts";
import { type Dialect, KUBE_PROXY_TABLE, type SetName } from "./table.ts";
import type { NftTools } from "./tools.ts";
import { type Item, type ItemList, type Transaction } from "./transaction.ts";

/** The clients in the sets of kube-proxy's nftables mode. */
export interface EarlierClients {
  /**
   * The sets that changes are about to create, with the clients that kube-proxy remembers for the same endpoint; undefined
   * if there are none. Throws if kube-proxy's table cannot be read.
   */
  forChanges(changes: readonly Change[]): Promise<Transaction | undefined>;
}

/** Reads kube-proxy's sets when they are first needed. */
export function createEarlierClients(tools: NftTools, dialect: Dialect): EarlierClients {
  // A takeover deletes the table, and it never returns while Sluice runs.
  let isKubeProxyHere = true;

  /** Reads the elements of kube-proxy's sets into `sources`, by name; returns whether its table exists. */
  const read = (sources: ReadonlyMap<string, Target>) =>
    tools.listSets(KUBE_PROXY_TABLE, (set, element) => {
      const target = sources.get(set), [client, rest] = nameAndRest(element);
      const left = /\bexpires (\w+)/.exec(rest)?.[1];
      if (target !== undefined && left !== undefined) target.clients.set(client, left);
    });

  return {
    async forChanges(changes) {
      if (!isKubeProxyHere) return undefined;
      const targets: Target[] = [];
      const sources = new Map<string, Target>();
      for (const { before, next } of changes) {
        if (next === undefined || next.port.affinitySeconds === 0) continue;
        const held = new Set(before.own.map(({ key }) => key));
        for (const [endpoint, set] of clientSets(next.port, dialect)) {
          if (held.has(set.key)) continue;
          const target: Target = { set, clients: new Map() };
          targets.push(target);
          sources.set(kubeProxyName(next.port, endpoint), target);
        }
      }
      if (targets.length === 0) return undefined;
      isKubeProxyHere = await read(sources);
      const found = targets.filter(({ clients }) => clients.size > 0);
      return found.length === 0 ? undefined : transactionOf(found);
    },
  };
}

/** A set to fill, and its clients with the time until they expire: `1h59m3s`. */
interface Target {
  readonly set: Item;
  readonly clients: Map<string, string>;
}

function transactionOf(targets: readonly Target[]): Transaction {
  const added = new Map<ItemList, readonly Item[]>([["set", targets.map(({ set }) => set)]]);
  for (const { set: { key }, clients } of targets) {
    const list = key as SetName;
    added.set(list, Array.from(clients, ([client, left]) => ({ list, key: `${client} timeout ${left}`, text: "" })));
  }
  return { table: "keep", deleted: new Map(), added };
}

function nameAndRest(element: string): [string, string] {
  const space = element.indexOf(" ");
  return space === -1 ? [element, ""] : [element.slice(0, space), element.slice(space)];
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

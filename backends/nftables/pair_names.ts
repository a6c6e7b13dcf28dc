import { frontendsOf, type Protocol, type ServicePort } from "../../core/model/mod.ts";
import { joinFlat, joinHostPort } from "../../platform/mod.ts";
import { type Pair, pairHashes, PROTOCOL_NUMBERS } from "./pair_hash.ts";
import type { SetLister } from "./set_lister.ts";

/** Finds the pairs that hashes stand for. */
export interface PairNames {
  /** The pair of a hash, if it has been learned. */
  find(hash: number): Pair | undefined;
  /**
   * Learns pairs: first from the planned service ports, then, for node ports, from the kernel. A hash without a pair is not
   * looked for again, unless it is new or has a new connection.
   * @param hashes emptied of those that were learned
   */
  learn(hashes: Map<number, { readonly isConnection: boolean }>): Promise<void>;
  forget(hash: number): void;
  /** Looks for all hashes again, because service ports have changed. */
  retry(): void;
}

/** Inputs of `createPairNames`. */
export interface PairNamesOptions {
  readonly servicePorts: () => Iterable<ServicePort>;
  readonly lister: SetLister;
}

type Frontend = Omit<Pair, "endpoint">;

/** The protocols by the numbers that nft prints. */
const PROTOCOLS: Readonly<Record<string, Protocol>> = Object.fromEntries(
  Object.entries(PROTOCOL_NUMBERS).map(([name, number]) => [number, name as Protocol]),
);

/** Reads a frontend from the start of a key, as `nft -n` prints it; undefined if services do not have its protocol. */
export function readFrontend(key: string): Frontend | undefined {
  const [address, number, port] = key.split(" . ");
  const protocol = PROTOCOLS[number!];
  // A copy, since a part of a line would keep the whole line in memory.
  return protocol && { address: joinFlat("", address!), protocol, port: parseInt(port!) };
}

/** Reads the endpoint from the end of a key. */
function readEndpoint(key: string): string {
  const [, , , address, port] = key.split(" . ");
  return joinHostPort(address!, parseInt(port!));
}

/** Pairs of which none is known. */
export function createPairNames({ servicePorts, lister }: PairNamesOptions): PairNames {
  const known = new Map<number, Pair>();
  const nameless = new Set<number>();

  const learnPairs = (
    frontend: Frontend,
    endpoints: Iterable<string>,
    wanted: Map<number, unknown>,
  ) => {
    for (const { endpoint, hash } of pairHashes(frontend, endpoints)) {
      if (wanted.delete(hash)) known.set(hash, { ...frontend, endpoint });
    }
  };
  const learnPlanned = (wanted: Map<number, unknown>) => {
    for (const servicePort of servicePorts()) {
      if (wanted.size === 0) return;
      const endpoints = new Set([...servicePort.clusterEndpoints, ...servicePort.localEndpoints]);
      for (const { address, port } of frontendsOf(servicePort)) {
        // A node port has the addresses of the node.
        if (address !== "") learnPairs({ address, protocol: servicePort.protocol, port }, endpoints, wanted);
      }
    }
  };

  return {
    find: (hash) => known.get(hash),
    async learn(hashes) {
      for (const [hash, { isConnection }] of hashes) {
        if (!isConnection && nameless.has(hash)) hashes.delete(hash);
      }
      if (hashes.size > 0) learnPlanned(hashes);
      if (hashes.size === 0) return;
      await lister.list(["count-pairs"], (_, element) => {
        const frontend = readFrontend(element);
        if (frontend) learnPairs(frontend, [readEndpoint(element)], hashes);
      });
      for (const hash of hashes.keys()) nameless.add(hash);
    },
    forget(hash) {
      known.delete(hash);
      nameless.delete(hash);
    },
    retry: () => nameless.clear(),
  };
}

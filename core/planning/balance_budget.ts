import { isCounted, kernelSize, namespaceOf, type ServicePort } from "../model/mod.ts";
import type { ServiceKey } from "../tracking/mod.ts";

/** The maximum size of the tables of one service, and of all services in a namespace, as `kernelSize` counts. */
export const SERVICE_BUDGET = 30_000;
export const NAMESPACE_BUDGET = 250_000;

/** The limit on the balancing of a service. */
export type BalanceLimit = "service" | "namespace";

/** Limits the balancing tables of services, so that no tenant can fill the kernel with them. */
export interface BalanceBudget {
  /** Notes the requested ports of a service; none if it does not exist. */
  request(service: ServiceKey, ports: readonly ServicePort[], createdSeconds: number | undefined): void;
  /** The limit in effect for a service; undefined if it is balanced as requested. */
  limitOf(service: ServiceKey): BalanceLimit | undefined;
  /** Divides the budgets among the requests; returns the services whose limit has changed. */
  settle(): readonly ServiceKey[];
}

interface Request {
  readonly size: number;
  readonly createdSeconds: number;
  limit: BalanceLimit | undefined;
}

/** The size of a service with tables; 0 if it has none. */
export function tableSize(ports: readonly ServicePort[]): number {
  let size = 0;
  for (const port of ports) if (hasTable(port)) size += kernelSize(port);
  return size;
}

function hasTable({ balance }: ServicePort): boolean {
  return balance !== undefined &&
    (balance.algorithm === "consistent-hash" || balance.clusterWeights !== undefined ||
      balance.localWeights !== undefined || isCounted(balance));
}

/** Creates unused budgets. The oldest services of a namespace come first, so that all nodes decide the same. */
export function createBalanceBudget(): BalanceBudget {
  const namespaces = new Map<string, Map<ServiceKey, Request>>();
  const stale = new Set<string>();
  return {
    request(service, ports, createdSeconds = Number.MAX_SAFE_INTEGER) {
      const size = tableSize(ports), namespace = namespaceOf(service);
      const requests = namespaces.get(namespace) ?? new Map<ServiceKey, Request>();
      const before = requests.get(service);
      if (before?.size === size && before.createdSeconds === createdSeconds) return;
      if (size === 0 && before === undefined) return;
      stale.add(namespace);
      if (size > 0) requests.set(service, { size, createdSeconds, limit: before?.limit });
      else requests.delete(service);
      if (requests.size > 0) namespaces.set(namespace, requests);
      else namespaces.delete(namespace);
    },
    limitOf: (service) => namespaces.get(namespaceOf(service))?.get(service)?.limit,
    settle() {
      const changed: ServiceKey[] = [];
      for (const namespace of stale) changed.push(...divide(namespaces.get(namespace) ?? new Map()));
      stale.clear();
      return changed;
    },
  };
}

function divide(requests: ReadonlyMap<ServiceKey, Request>): ServiceKey[] {
  const changed: ServiceKey[] = [];
  let left = NAMESPACE_BUDGET;
  for (const [service, request] of oldestFirst(requests)) {
    const limit = request.size > SERVICE_BUDGET ? "service" : request.size > left ? "namespace" : undefined;
    if (limit === undefined) left -= request.size;
    if (limit !== request.limit) changed.push(service);
    request.limit = limit;
  }
  return changed;
}

function oldestFirst(requests: ReadonlyMap<ServiceKey, Request>): readonly (readonly [ServiceKey, Request])[] {
  const all = [...requests];
  let total = 0;
  for (const [, { size }] of all) total += size;
  // Without a shortage, the order makes no difference.
  if (total <= NAMESPACE_BUDGET) return all;
  return all.sort(([a, { createdSeconds: x }], [b, { createdSeconds: y }]) => x - y || (a < b ? -1 : 1));
}
